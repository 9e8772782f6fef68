"""Brings a shard from one position of the log to another: the log is its state, in memory there is a copy of it.

A batch is a range of positions. A core that stands at its start continues; one that stands anywhere else is thrown
away, and the shard is restored: from the newest snapshot before, by the batches since. A core is taken out before its
first change and put back at the end, so a task that dies half-way leaves nothing behind.
"""

from __future__ import annotations

import struct
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Protocol

from tolerant.pipeline.entry_by_entry import Careful, rows_at_fault
from tolerant.pipeline.hosting import Hosted, Output
from tolerant.pipeline.snapshot_files import Snapshot, SnapshotStore
from tolerant.pipeline.splitter import Splitter
from tolerant.transport.batches import DoneBatch, done_batches
from tolerant.transport.log import START, Deleted, Entry, Log
from tolerant.transport.quarantine import WaitingRow, bodies, marked

DUE = 5.0
"""Seconds of work that may have to be done again: a snapshot is due then."""

_CHUNK = 2_000  # entries that are read at a time
_DIGEST = 16  # bytes


class StateError(Exception):
    """A shard cannot be restored: what its checkpoint holds does not fit the log or this release."""


class Diverged(StateError):
    """A shard that was restored has published something else than it did the first time."""


@dataclass(frozen=True)
class AppliedBatch:
    """What became of a batch of a shard.

    end: the position up to which it has read. digest: of all outputs up to there. one_by_one: whether its entries were
    applied one at a time. needed: the position from which the log must be kept, so that the shard can be restored.
    """

    shard: int
    end: int
    outputs: list[Output]
    digest: bytes
    one_by_one: bool
    needed: int


class ShardInput(Protocol):
    """What a shard reads: the entries of its pipeline's topics, and what its batches were."""

    def entries(self, start: int, end: int) -> list[Entry]:
        """The entries after `start` up to `end`, those in quarantine in their marked form."""
        ...

    def done(self, after: int, until: int) -> list[DoneBatch]:
        """The batches that were written, by their ends."""
        ...

    def trimmed(self) -> int:
        """The greatest position that has been deleted."""
        ...


@dataclass(frozen=True)
class LogInput:
    """The input of a shard on a log with one order."""

    log: Log
    pipeline: str
    checkpoint: str
    topics: Sequence[str]
    shard: int

    def entries(self, start: int, end: int) -> list[Entry]:
        """See `ShardInput.entries`."""
        return marked(self._read(start, end), bodies(self.log, self.pipeline, self.shard))

    def _read(self, position: int, end: int) -> Iterator[Entry]:
        while position < end:
            entries = [entry for entry in self.log.read(self.topics, position, _CHUNK) if entry.position <= end]
            if not entries:
                return
            yield from entries
            position = entries[-1].position

    def done(self, after: int, until: int) -> list[DoneBatch]:
        """See `ShardInput.done`."""
        return done_batches(self.log, self.pipeline, self.checkpoint, self.shard, after, until)

    def trimmed(self) -> int:
        """See `ShardInput.trimmed`."""
        return self.log.trimmed(self.topics)


@dataclass
class _Core:
    """A core and the state that it is in."""

    core: Hosted
    position: int
    digest: bytes
    unsaved: float  # seconds of work since the last snapshot


class ShardHost:
    """Hosts one shard.

    split: how rows are divided between shards; None: all are this one's. careful: how to find the entry that a batch
    has failed at before. restored: called when a core has been restored. due: whether a snapshot is, after so many
    seconds of work since the last.
    """

    def __init__(
        self,
        shard: int,
        factory: Callable[[int], Hosted],
        source: ShardInput,
        snapshots: SnapshotStore,
        split: Splitter | None = None,
        careful: Careful | None = None,
        restored: Callable[[], None] = lambda: None,
        due: Callable[[float], bool] = lambda seconds: seconds > DUE,
    ) -> None:
        self._shard, self._factory = shard, factory
        self._source, self._snapshots = source, snapshots
        self._split, self._careful, self._on_restored, self._due = split, careful, restored, due
        self._current: _Core | None = None

    def apply(self, start: int, end: int) -> AppliedBatch:
        """Apply the entries after `start` up to `end`; `start` is where the shard's last written batch ended.

        Raises:
            StateError: the shard cannot be restored to `start`.
            Deleted: the log no longer has what restoring it takes.
            EntryFailed: an entry could not be applied, and this was the try that finds it.
        """
        current, self._current = self._current, None
        written = None
        if current is None or current.position != start:
            current = self._restored(start)
            self._on_restored()
            written = self._written(start, end)
        if self._due(current.unsaved):
            self._snapshots.save(Snapshot(start, current.digest, current.core.snapshot()))
            current.unsaved = 0.0
        begun = time.perf_counter()
        if written is not None:
            one_by_one, outputs = written.one_by_one, self._apply_again(current, written)
        else:
            one_by_one, outputs = self._apply_first(current, end)
        current.unsaved += time.perf_counter() - begun
        self._current = current
        return AppliedBatch(self._shard, end, outputs, current.digest, one_by_one, self._snapshots.prune(start))

    def _apply_first(self, current: _Core, end: int) -> tuple[bool, list[Output]]:
        """Apply a batch that was not written; whether one entry at a time, and the outputs."""
        entries = self._source.entries(current.position, end)
        careful = self._careful is not None and self._careful.covers(entries)
        outputs = self._apply_carefully(current, entries) if careful else self._apply(current.core, entries)
        current.position, current.digest = end, digest_of(current.digest, outputs)
        return careful, outputs

    def _written(self, start: int, end: int) -> DoneBatch | None:
        """The record of this batch, if its outputs are in the log and Spark does not know."""
        done = self._source.done(start, end)
        if done and done[0].end != end:
            raise StateError(
                f"shard {self._shard}: the log has the outputs of a batch up to position {done[0].end}, and Spark's "
                f"checkpoint does not know that batch: its files are older than the log. {_READ_AGAIN}"
            )
        return done[0] if done else None

    def core(self, position: int) -> Hosted:
        """The shard as it is at `position`, the end of a written batch."""
        if self._current is None or self._current.position != position:
            self._current = self._restored(position)
        return self._current.core

    def _apply_carefully(self, current: _Core, entries: list[Entry]) -> list[Output]:
        """Apply entries one at a time; if one fails, find out which of the rows that waited for it is at fault."""
        assert self._careful is not None
        start = current.position

        def waiting(number: int) -> tuple[WaitingRow, ...] | None:
            return rows_at_fault(entries[number], lambda: self._rebuilt(start, entries[:number]))

        return self._careful.each(entries, lambda entry: self._apply(current.core, [entry]), waiting, self._shard)

    def _apply(self, core: Hosted, entries: list[Entry]) -> list[Output]:
        return core.apply(entries if self._split is None else self._split.part(self._shard, entries))

    def _rebuilt(self, start: int, entries: list[Entry]) -> Hosted:
        core = self._restored(start).core
        self._apply(core, entries)
        return core

    # -- restoring -----------------------------------------------------------------------------------------------------

    def _restored(self, position: int) -> _Core:
        """The shard as it is at `position`."""
        begun = time.perf_counter()
        snapshot = self._snapshots.newest(position)
        current = self._first() if snapshot is None and position == START else self._loaded(snapshot, position)
        for done in self._source.done(current.position, position):
            self._apply_again(current, done)
        if current.position != position:
            raise StateError(
                f"shard {self._shard}: the log does not say which batches led from position {current.position} to "
                f"{position}. {_READ_AGAIN}"
            )
        current.unsaved = time.perf_counter() - begun
        return current

    def _first(self) -> _Core:
        """A new core, which is kept as it is: a later run would make another, under its own epoch."""
        core = self._factory(self._shard)
        self._snapshots.save(Snapshot(START, b"", core.snapshot()))
        return _Core(core, START, b"", 0.0)

    def _loaded(self, snapshot: Snapshot | None, position: int) -> _Core:
        if snapshot is None:
            raise StateError(
                f"shard {self._shard}: its checkpoint has no snapshot at or before position {position}. {_READ_AGAIN}"
            )
        if START < snapshot.position < (gone := self._source.trimmed()):
            raise Deleted(
                f"shard {self._shard} must be restored from position {snapshot.position}, and retention has deleted "
                f"entries up to {gone}: start on an empty checkpoint directory"
            )
        core = self._factory(self._shard)
        try:
            core.restore(snapshot.state)
        except Exception as error:  # whatever an older layout makes of the code that reads it
            raise StateError(
                f"the checkpoint's state of shard {self._shard} cannot be read ({type(error).__name__}: {error}). "
                f"If another version of Tolerant wrote it, {_READ_AGAIN[0].lower()}{_READ_AGAIN[1:]}"
            ) from error
        return _Core(core, snapshot.position, snapshot.digest, 0.0)

    def _apply_again(self, current: _Core, done: DoneBatch) -> list[Output]:
        """Apply a batch whose outputs are in the log as it was applied then."""
        entries = self._source.entries(current.position, done.end)
        if done.one_by_one:
            outputs = [output for entry in entries for output in self._apply(current.core, [entry])]
        else:
            outputs = self._apply(current.core, entries)
        current.position, current.digest = done.end, digest_of(current.digest, outputs)
        if current.digest != done.digest:
            raise Diverged(
                f"shard {self._shard} has published something else up to position {done.end} than the first time: "
                f"another processor, library or release of Tolerant. {_READ_AGAIN}"
            )
        return outputs


_READ_AGAIN = "Run with an empty --checkpoint folder: the log is read again"


def digest_of(before: bytes, outputs: Sequence[Output]) -> bytes:
    """The digest of all outputs of a shard, from that of those before and what came since."""
    digest = blake2b(before, digest_size=_DIGEST)
    for output in outputs:
        topic = output.topic.encode()
        digest.update(struct.pack("<qq", len(topic), len(output.payload)))
        digest.update(topic)
        digest.update(output.payload)
    return digest.digest()
