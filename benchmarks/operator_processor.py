"""Hosts any `Hosted` core in `transformWithStateInPandas` (`docs/design/pipeline.md` §5).

State of a shard: a snapshot, the deltas since, and a stamp that names this state and counts their bytes. Each call to
the state store is a round trip to the JVM, so a batch makes three: read the stamp, append the delta, write the stamp.
A new snapshot is written when the deltas outweigh it, and read only when the core is not in this worker's memory.
The first is of the new core: a later run would create another, under its own epoch.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from pyspark.sql.streaming import StatefulProcessor, StatefulProcessorHandle

from tolerant.pipeline.entry_by_entry import Careful, rows_at_fault
from tolerant.pipeline.hosting import Hosted, Output, pack_outputs
from tolerant.spark import cache
from tolerant.transport.log import Entry
from tolerant.transport.quarantine import WaitingRow

if TYPE_CHECKING:
    import pandas as pd
    from pyspark.sql.streaming.stateful_processor import TimerValues

OUTPUT = "outputs BINARY"
"""The output of a shard: one row, all its outputs packed. A row each would take Spark longer than the core."""

_LIGHT = 512 << 10  # bytes of deltas that are never worth a snapshot
_MANY = 1_000  # deltas that take long to take again, however small


@dataclass(frozen=True)
class _Stamp:
    """Names a state, and says what it is made of."""

    name: bytes
    snapshot: int  # bytes
    deltas: int  # bytes
    count: int  # of deltas

    def outweighed(self) -> bool:
        # Snapshots are compressed, and take longer to make than their bytes tell.
        return self.deltas > max(4 * self.snapshot, _LIGHT) or self.count > _MANY


class StateError(Exception):
    """What the state store holds cannot be made a shard of."""


class HostProcessor(StatefulProcessor):  # type: ignore[misc]
    """Runs the shards that `factory` makes. `pipeline` names this run of the pipeline, as no other is named.

    `careful`: how to find the entry that a batch has failed at before.
    """

    def __init__(self, factory: Callable[[int], Hosted], pipeline: str, careful: Careful | None = None) -> None:
        self._factory = factory
        self._pipeline = pipeline
        self._careful = careful

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Name the state variables; runs once on the driver too, so it does nothing else."""
        self._snapshot = handle.getValueState("snapshot", "data BINARY")
        self._deltas = handle.getListState("deltas", "data BINARY")
        self._stamp = handle.getValueState("stamp", "name BINARY, snapshot BIGINT, deltas BIGINT, count BIGINT")

    def handleInputRows(
        self, key: Any, rows: Iterator[pd.DataFrame], timerValues: TimerValues
    ) -> Iterator[pd.DataFrame]:
        """Apply a batch of a shard's entries; the outputs as rows."""
        import pandas as pd  # what Spark asks for the names of the state variables does without

        (shard,) = key
        entries = _entries(rows)
        stamp, core = self._current(int(shard))
        if stamp is None:
            born = core.snapshot()
            self._snapshot.update((born,))
            stamp = _Stamp(b"", len(born), 0, 0)
        if self._careful is not None and self._careful.covers(entries):
            outputs, delta = self._apply_carefully(int(shard), stamp, core, entries), None
        else:
            outputs, delta = core.apply(entries)
        written = self._write(stamp, core, delta)
        cache.put(self._pipeline, int(shard), written, core)
        if outputs:
            yield pd.DataFrame({"outputs": [pack_outputs(outputs)]})

    def close(self) -> None:
        """Nothing is held."""

    def _apply_carefully(self, shard: int, stamp: _Stamp, core: Hosted, entries: list[Entry]) -> list[Output]:
        """Apply entries one at a time; if one fails, find out which of the rows that waited for it is at fault."""
        assert self._careful is not None

        def waiting(number: int) -> tuple[WaitingRow, ...] | None:
            return rows_at_fault(entries[number], lambda: self._rebuilt(shard, stamp, entries[:number]))

        return self._careful.each(entries, lambda entry: core.apply([entry]), waiting)

    def _rebuilt(self, shard: int, stamp: _Stamp, entries: list[Entry]) -> Hosted:
        """The shard as the store has it, with entries applied."""
        core = self._rebuild(shard, stamp)
        core.apply(entries)
        return core

    def _current(self, shard: int) -> tuple[_Stamp | None, Hosted]:
        """The shard as the store has it, from memory if it can be."""
        stored = self._stamp.get()
        stamp = None if stored is None else _Stamp(bytes(stored[0]), *map(int, stored[1:]))
        core = cache.take(self._pipeline, shard, stamp.name if stamp else None)
        return stamp, core or self._rebuild(shard, stamp)

    def _rebuild(self, shard: int, stamp: _Stamp | None) -> Hosted:
        core = self._factory(shard)
        snapshot = self._snapshot.get() if stamp else None
        deltas = [bytes(data) for (data,) in self._deltas.get()] if stamp and stamp.count else []
        try:
            core.restore(None if snapshot is None else bytes(snapshot[0]), deltas)
        except Exception as error:  # whatever an older layout makes of the code that reads it
            raise StateError(
                f"the checkpoint's state of shard {shard} cannot be read ({type(error).__name__}: {error}). If another "
                "version of Tolerant wrote it, run with an empty --checkpoint folder: the log is read again"
            ) from error
        cache.settle()
        return core

    def _write(self, stamp: _Stamp, core: Hosted, delta: bytes | None) -> bytes:
        """Bring the store to the state of the core; the name of that state. Without a delta, by a snapshot."""
        now = replace(stamp, name=os.urandom(16))
        now = replace(now, deltas=now.deltas + len(delta or b""), count=now.count + 1)
        if delta is None or now.outweighed():
            snapshot = core.snapshot()
            self._snapshot.update((snapshot,))
            self._deltas.clear()
            now = _Stamp(now.name, len(snapshot), 0, 0)
        else:
            self._deltas.appendValue((delta,))
        self._stamp.update((now.name, now.snapshot, now.deltas, now.count))
        return now.name


def _entries(rows: Iterator[pd.DataFrame]) -> list[Entry]:
    """The entries of a batch, in log order: on their way through Spark they may have lost it."""
    columns = ("topic", "partition", "position", "payload")
    entries = [
        Entry(topic, int(partition), int(position), bytes(payload))
        for frame in rows
        for topic, partition, position, payload in zip(*(frame[name] for name in columns), strict=True)
    ]
    entries.sort(key=lambda entry: (entry.partition, entry.position))
    return entries
