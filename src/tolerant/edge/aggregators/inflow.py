"""The items that an aggregator receives: from which giver, since when, and whether it can still be trusted."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import NamedTuple

import pyarrow as pa

from tolerant.kernels.versions import epoch_of
from tolerant.planning import CopyRoute
from tolerant.streams import EARLIEST, LATEST, SOURCE_LENGTH, Limits
from tolerant.transport.rows import are_updates, unpack

_WITH_VALUE = ("update", "hello", "ack")


class ReceivedRow(NamedTuple):
    """A row of an item; its fields order rows as they apply. giver: "" for the source, else an aggregator."""

    at: int
    key: str
    sequence: int
    kind: str
    giver: str
    source: str
    value: float


def read_received_rows(payload: bytes, giver: str, limits: Limits) -> list[ReceivedRow]:
    """Read the rows of sources in an entry of a topic that carries items; leave out rows that cannot be used, and
    entries beyond the limits of the stream.
    """
    try:
        batch = unpack(payload, limits)
    except ValueError:
        return []
    if not are_updates(batch):
        return []
    names = ("at", "key", "sequence", "kind", "source", "value")
    columns: Iterable[pa.Array] = (batch.column(name).to_pylist() for name in names)
    return [
        ReceivedRow(at, key or "", sequence, kind, giver, source, value if value is not None else 0.0)
        for at, key, sequence, kind, source, value in zip(*columns, strict=True)
        if kind != "clock" and None not in (at, sequence, kind, source) and EARLIEST <= at <= LATEST and sequence > 0
        if len(key or "") <= limits.key_length and len(source) <= max(limits.key_length, SOURCE_LENGTH)
        if kind not in _WITH_VALUE or (value is not None and math.isfinite(value))
    ]


class Inflow:
    """The newest value of each item from each giver. `lease`: how long a silent giver is trusted, microseconds."""

    def __init__(self, ways: Mapping[str, tuple[CopyRoute, ...]], lease: int) -> None:
        self._ways, self._lease = ways, lease
        self._newest: dict[tuple[str, str], ReceivedRow] = {}  # by giver and item
        self._last_heard: dict[tuple[str, str], int] = {}  # by giver and source
        self._epochs: dict[tuple[str, str], int] = {}
        self._restarted = False

    def receive(self, row: ReceivedRow) -> str | None:
        """Apply a row; return its item if the row is news of it."""
        sender = (row.giver, row.source)
        epoch = epoch_of(row.sequence)
        known = self._epochs.get(sender, epoch)
        if epoch < known:
            return None
        self._restarted |= epoch > known
        self._epochs[sender] = epoch
        self._last_heard[sender] = max(self._last_heard.get(sender, row.at), row.at)
        if row.key not in self._ways:
            return None
        before = self._newest.get((row.giver, row.key))
        if before is not None and before.source == row.source and row.sequence <= before.sequence:
            return None
        self._newest[row.giver, row.key] = row
        return row.key

    def drain_restart(self) -> bool:
        """Return whether any sender has restarted since the last call: its earlier rows no longer count."""
        restarted, self._restarted = self._restarted, False
        return restarted

    def silences(self) -> list[int]:
        """Return when the leases of all senders run out, if they send nothing more."""
        return [last + self._lease + 1 for last in self._last_heard.values()]

    def value(self, item: str, at: int) -> tuple[float, float] | None:
        """Return an item's value and how far a copy may be behind it; None if no giver can be trusted at `at`."""
        for way in self._ways[item]:
            row = self._newest.get((way.giver or "", item))
            if row is None or row.kind not in _WITH_VALUE:
                continue
            sender = (row.giver, row.source)
            if epoch_of(row.sequence) == self._epochs[sender] and self._last_heard[sender] + self._lease >= at:
                return row.value, way.step
        return None
