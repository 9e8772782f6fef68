"""What an aggregator hears of its items: from which giver, since when, and whether it can still be trusted."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import NamedTuple

import pyarrow as pa

from tolerant.kernels.versions import epoch_of
from tolerant.planning import Way
from tolerant.streams import EARLIEST, LATEST
from tolerant.transport.rows import are_updates, unpack

_TELLING = ("update", "hello", "ack")


class Heard(NamedTuple):
    """A row of an item, in the order in which rows apply. giver: "" for the source, else an aggregator."""

    at: int
    key: str
    sequence: int
    kind: str
    giver: str
    source: str
    value: float


def read_heard(payload: bytes, giver: str) -> list[Heard]:
    """The rows of sources in an entry of a topic that carries items; what cannot be used is left out."""
    try:
        batch = unpack(payload)
    except ValueError:
        return []
    if not are_updates(batch):
        return []
    names = ("at", "key", "sequence", "kind", "source", "value")
    columns: Iterable[pa.Array] = (batch.column(name).to_pylist() for name in names)
    return [
        Heard(at, key or "", sequence, kind, giver, source, value if value is not None else 0.0)
        for at, key, sequence, kind, source, value in zip(*columns, strict=True)
        if kind != "clock" and None not in (at, sequence, kind, source) and EARLIEST <= at <= LATEST and sequence > 0
        if kind not in _TELLING or (value is not None and math.isfinite(value))
    ]


class Inflow:
    """The newest value of each item from each giver. `lease`: how long a silent one is trusted, microseconds."""

    def __init__(self, ways: Mapping[str, tuple[Way, ...]], lease: int) -> None:
        self._ways, self._lease = ways, lease
        self._newest: dict[tuple[str, str], Heard] = {}  # by giver and item
        self._heard: dict[tuple[str, str], int] = {}  # by giver and source
        self._epochs: dict[tuple[str, str], int] = {}
        self._restarted = False

    def hear(self, row: Heard) -> str | None:
        """Take a row; the item of which it says something new."""
        speaker = (row.giver, row.source)
        epoch = epoch_of(row.sequence)
        known = self._epochs.get(speaker, epoch)
        if epoch < known:
            return None
        self._restarted |= epoch > known
        self._epochs[speaker] = epoch
        self._heard[speaker] = max(self._heard.get(speaker, row.at), row.at)
        if row.key not in self._ways:
            return None
        before = self._newest.get((row.giver, row.key))
        if before is not None and before.source == row.source and row.sequence <= before.sequence:
            return None
        self._newest[row.giver, row.key] = row
        return row.key

    def take_restart(self) -> bool:
        """Whether anybody has started again since this was last asked: what it said before does not count any more."""
        found, self._restarted = self._restarted, False
        return found

    def silences(self) -> list[int]:
        """When those who were heard will have fallen silent, if they say nothing more."""
        return [heard + self._lease + 1 for heard in self._heard.values()]

    def value(self, item: str, at: int) -> tuple[float, float] | None:
        """The value of an item, and how far a copy may be behind it; None where nobody can be trusted at `at`."""
        for way in self._ways[item]:
            row = self._newest.get((way.giver or "", item))
            if row is None or row.kind not in _TELLING:
                continue
            speaker = (row.giver, row.source)
            if epoch_of(row.sequence) == self._epochs[speaker] and self._heard[speaker] + self._lease >= at:
                return row.value, way.step
        return None
