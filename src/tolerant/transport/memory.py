"""`MemoryLog`: the log's contract in the memory of one process, for tests and the simulator. Nothing survives the
process."""

from __future__ import annotations

import threading
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from heapq import merge
from itertools import islice
from uuid import uuid4

import pyarrow as pa

from tolerant.transport import rows
from tolerant.transport.common import (
    abandoned,
    check_fence,
    check_reached,
    compacted_changes,
    compacted_entry,
    epoch_after,
    furthest,
    owner_of,
    passed_by_all,
    registration,
    wall_clock,
)
from tolerant.transport.log import START, Entry, Fence, LogError, Record
from tolerant.transport.topics import EPOCHS, POSITIONS, is_compacted, is_kept


class MemoryLog:
    """A `Log` in memory, safe over threads. `now` gives the wall clock in microseconds, by which entries age."""

    def __init__(self, now: Callable[[], int] = wall_clock) -> None:
        self.uri, self.id = "memory:", uuid4().hex
        self._now = now
        self._lock = threading.RLock()
        self._end = START
        self._positions: dict[str, list[int]] = {}  # topic → positions of its entries, ascending
        self._entries: dict[int, tuple[int, Entry]] = {}  # position → (appended at, entry)
        self._compacted: dict[
            str, dict[str, tuple[int, int, int, bytes | None]]
        ] = {}  # key → version, position, at, body
        self._batches: dict[str, int] = {}
        self._trimmed: dict[str, int] = {}
        self._closed = False

    def append(self, topic: str, batch: pa.RecordBatch) -> int:
        """See `Log.append`."""
        return self.append_packed([(topic, rows.pack(batch))])

    def append_packed(self, entries: Sequence[tuple[str, bytes]]) -> int:
        """See `Log.append_packed`."""
        changes = [(topic, payload, compacted_changes(topic, payload)) for topic, payload in entries]
        with self._open():
            for topic, payload, changed in changes:
                self._end += 1
                if changed is None:
                    self._positions.setdefault(topic, []).append(self._end)
                    self._entries[self._end] = (self._now(), Entry(topic, 0, self._end, bytes(payload)))
                else:
                    for change in changed:
                        self._upsert(*change)
            return self._end

    def append_once(
        self, checkpoint: str, batch: int, entries: Sequence[tuple[str, bytes]], fence: Fence | None = None
    ) -> bool:
        """See `Log.append_once`."""
        with self._open():
            if fence is not None:
                newest = self.latest(EPOCHS, fence.name)
                check_fence(fence, newest.version if newest else 0)
            if batch <= self._batches.get(checkpoint, -1):
                return False
            self.append_packed(entries)
            self._batches[checkpoint] = batch
            return True

    def last_batch(self, checkpoint: str) -> int:
        """See `PipelineLog.last_batch`."""
        with self._open():
            return self._batches.get(checkpoint, -1)

    def read(self, topics: str | Iterable[str], position: int = START, limit: int | None = None) -> list[Entry]:
        """See `Log.read`."""
        names = {topics} if isinstance(topics, str) else set(topics)
        with self._open():
            per_topic = [self._changed(t, position) if is_compacted(t) else self._after(t, position) for t in names]
            return list(islice(merge(*per_topic, key=lambda entry: entry.position), limit))

    def latest(self, topic: str, key: str) -> Record | None:
        """See `Log.latest`."""
        with self._open():
            record = self._compacted.get(topic, {}).get(key)
        return None if record is None or record[3] is None else Record(key, record[0], record[3])

    def end(self) -> int:
        """See `Log.end`."""
        with self._open():
            return self._end

    def topics(self) -> list[str]:
        """See `Log.topics`."""
        with self._open():
            return sorted(
                {t for t, entries in self._positions.items() if entries}
                | {t for t, records in self._compacted.items() if records}
            )

    def next_epoch(self, name: str, owner: str = "") -> int:
        """See `Log.next_epoch`."""
        with self._open():
            epoch = epoch_after(self.latest(EPOCHS, name), name)
            self._end += 1
            self._upsert(EPOCHS, name, epoch, owner.encode())
            return epoch

    def advance(self, topics: Iterable[str], position: int, entries: int, size: int) -> int:
        """See `Log.advance`."""
        with self._open():
            check_reached(position, self._end, self.uri)
            following = self.read(topics, position)
            return furthest(((entry.position, len(entry.payload)) for entry in following), position, entries, size)

    def register(self, checkpoint: str, stream: str, topics: Sequence[str]) -> None:
        """See `Log.register`."""
        with self._open():
            if self.latest(POSITIONS, checkpoint) is None:
                self._end += 1
                self._compacted.setdefault(POSITIONS, {}).pop(checkpoint, None)
                self._upsert(POSITIONS, checkpoint, START, registration(stream, topics))

    def pass_position(self, checkpoint: str, position: int) -> None:
        """See `Log.pass_position`."""
        with self._open():
            known = self.latest(POSITIONS, checkpoint)
            if known is not None and position > known.version:
                self._end += 1
                self._upsert(POSITIONS, checkpoint, position, known.body)

    def forget(self, checkpoint: str) -> None:
        """See `Log.forget`."""
        with self._open():
            known = self.latest(POSITIONS, checkpoint)
            if known is not None:
                self._end += 1
                self._upsert(POSITIONS, checkpoint, known.version, None)

    def trim(self, topic: str, before: int, limit: int = 1000) -> int:
        """See `Log.trim`."""
        with self._open():
            if topic == POSITIONS:
                self._forget_abandoned(before)
            if is_compacted(topic):
                records = self._compacted.get(topic, {})
                forgotten = [key for key, (_, _, at, body) in records.items() if body is None and at < before][:limit]
                for key in forgotten:
                    del records[key]
                return len(forgotten)
            if is_kept(topic):
                return 0
            known = self._compacted.get(POSITIONS, {}).items()
            passed = passed_by_all({key: (v, body) for key, (v, _, _, body) in known if body is not None}, topic)
            return self._delete(topic, before, passed, limit)

    def trimmed(self, topics: Iterable[str]) -> int:
        """See `Log.trimmed`."""
        with self._open():
            return max((self._trimmed.get(topic, START) for topic in topics), default=START)

    def close(self) -> None:
        """See `Log.close`."""
        self._closed = True

    @contextmanager
    def _open(self) -> Iterator[None]:
        if self._closed:
            raise LogError("this memory log is closed")
        with self._lock:
            yield

    def _upsert(self, topic: str, key: str, version: int, body: bytes | None) -> None:
        records = self._compacted.setdefault(topic, {})
        if key not in records or version >= records[key][0]:
            records[key] = (version, self._end, self._now(), body)

    def _after(self, topic: str, position: int) -> Iterator[Entry]:
        positions = self._positions.get(topic, [])
        return (self._entries[p][1] for p in positions[bisect_right(positions, position) :])

    def _changed(self, topic: str, position: int) -> Iterator[Entry]:
        appends: dict[int, list[tuple[str, int, bytes | None]]] = {}
        for key, (version, changed_at, _, body) in sorted(self._compacted.get(topic, {}).items()):
            if changed_at > position:
                appends.setdefault(changed_at, []).append((key, version, body))
        return (compacted_entry(topic, at, changed) for at, changed in sorted(appends.items()))

    def _forget_abandoned(self, before: int) -> None:
        known = self._compacted.get(POSITIONS, {}).items()
        old = {key: (version, body) for key, (version, _, at, body) in known if body is not None and at < before}

        def owner(name: str) -> str | None:
            return owner_of(self.latest(EPOCHS, name))

        for key in abandoned(old, owner):
            self.forget(key)

    def _delete(self, topic: str, before: int, passed: int | None, limit: int) -> int:
        positions = self._positions.get(topic, [])
        count = 0
        for position in positions[:limit]:
            if self._entries[position][0] >= before or (passed is not None and position > passed):
                break
            del self._entries[position]
            self._trimmed[topic] = position
            count += 1
        del positions[:count]
        return count
