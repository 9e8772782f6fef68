"""Where the shard of a stream with a network stands in time, and what it knows of the aggregators' lives."""

from __future__ import annotations

from dataclasses import dataclass, field

from tolerant.pipeline.intake import KINDS
from tolerant.transport.rows import NO_TIME

_TALLY = (
    *KINDS[:-1], "grants", "reports", "late", "dead", "duplicates", "strays", "bytes", "boundaries", "plans", "levels",
)  # fmt: skip


@dataclass
class Alive:
    """An aggregator as the pipeline knows it. It has `lived` up to the greatest `through` of its rows that have been
    read, of the start that its parts are known by; `coming` is (epoch, through) of a newer start, whose time has not
    come.
    """

    heard: int
    epoch: int = 0
    silent: bool = False
    late: int = 0
    lived: int = NO_TIME
    unproven: bool = False
    """Whether it may have died since it was last heard: what it said then may not hold any more."""
    coming: tuple[int, int] = (0, NO_TIME)

    def read(self, epoch: int, through: int) -> None:
        """A row of it has been read, though its time may not have come."""
        if epoch == self.epoch:
            self.lived = max(self.lived, through)
        elif epoch == self.coming[0]:
            self.coming = (epoch, max(self.coming[1], through))
        elif epoch > max(self.epoch, self.coming[0]):
            self.coming = (epoch, through)

    def restart(self, epoch: int, through: int) -> None:
        """It has started again."""
        self.epoch = epoch
        self.lived = max(through, self.coming[1]) if self.coming[0] == epoch else through

    @property
    def trusted(self) -> bool:
        """Whether what it said last still holds."""
        return not (self.silent or self.unproven)


@dataclass
class Life:
    """Where the shard stands; plain values, kept as they are."""

    watermark: int | None = None
    passed: int = 0
    """Boundaries."""
    look: int = 0
    """The boundary at which plans are looked at next, and how many it was after the last look."""
    gap: int = 1
    epoch: int = 0
    issued: int = 0
    foreign_epoch: int = 0
    reported: int = -1
    pace: float = 0.0
    """Rows of parts per period, smoothed."""
    counted: int = 0
    """Rows of parts up to the last boundary."""
    tally: dict[str, int] = field(default_factory=lambda: dict.fromkeys(_TALLY, 0))
    lost: dict[str, int] = field(default_factory=dict)
