"""Where the shard of a stream with a network stands in time, and what it knows of the aggregators' lives."""

from __future__ import annotations

from dataclasses import dataclass, field

from tolerant.spark.intake import KINDS

_TALLY = (
    *KINDS[:-1], "grants", "reports", "late", "dead", "duplicates", "strays", "bytes", "boundaries", "plans", "levels",
)  # fmt: skip


@dataclass
class Alive:
    """An aggregator as the pipeline knows it."""

    heard: int
    epoch: int = 0
    silent: bool = False
    late: int = 0


@dataclass
class Life:
    """Where the shard stands; plain values, kept as they are."""

    horizon: int | None = None
    passed: int = 0
    """Boundaries."""
    look: int = 0
    """The boundary at which plans are looked at next, and how many it was after the last look."""
    gap: int = 1
    epoch: int = 0
    issued: int = 0
    rival: int = 0
    reported: int = -1
    tally: dict[str, int] = field(default_factory=lambda: dict.fromkeys(_TALLY, 0))
    lost: dict[str, int] = field(default_factory=dict)
