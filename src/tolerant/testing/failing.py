"""A log that fails on cue, to test what an application does when its log cannot be used."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

import pyarrow as pa

from tolerant.transport import Entry, Log, LogError, Record
from tolerant.transport.log import START


class Call(NamedTuple):
    """A call of a log's method: which, the topics it is about, and how many calls of this method were before."""

    method: str
    topics: tuple[str, ...]
    number: int


class FailingLog:
    """A log that passes every call on to another, except where `fail` says that it shall fail with `LogError`.

    log: the log to pass calls on to.
    fail: called with each `Call`; True makes it fail. Raise in it to make the call fail in a way of your own.
    after: failing appends are made first, so that the rows are accepted and the caller does not know: the
        network's favourite.

    >>> from tolerant.transport import MemoryLog
    >>> log = FailingLog(MemoryLog(), fail=lambda call: call.method == "append" and call.number < 2)
    >>> log.append("updates.traffic", pa.record_batch({"kind": ["heartbeat"]}))
    Traceback (most recent call last):
        ...
    tolerant.transport.log.LogError: append number 0 failed on cue
    """

    def __init__(self, log: Log, fail: Callable[[Call], bool], *, after: bool = False) -> None:
        self.uri, self.id = log.uri, log.id
        self._log = log
        self._fail = fail
        self._after = after
        self._counts: dict[str, int] = {}

    def append(self, topic: str, batch: pa.RecordBatch) -> int:
        """See `Log.append`."""
        return self._write("append", (topic,), lambda: self._log.append(topic, batch))

    def append_packed(self, entries: Sequence[tuple[str, bytes]]) -> int:
        """See `Log.append_packed`."""
        topics = tuple(topic for topic, _ in entries)
        return self._write("append_packed", topics, lambda: self._log.append_packed(entries))

    def read(self, topics: str | Iterable[str], position: int = START, limit: int | None = None) -> list[Entry]:
        """See `Log.read`."""
        names = (topics,) if isinstance(topics, str) else tuple(topics)
        self._cue("read", names)
        return self._log.read(names, position, limit)

    def latest(self, topic: str, key: str) -> Record | None:
        """See `Log.latest`."""
        self._cue("latest", (topic,))
        return self._log.latest(topic, key)

    def end(self) -> int:
        """See `Log.end`."""
        self._cue("end", ())
        return self._log.end()

    def topics(self) -> list[str]:
        """See `Log.topics`."""
        self._cue("topics", ())
        return self._log.topics()

    def next_epoch(self, name: str, owner: str = "") -> int:
        """See `Log.next_epoch`."""
        return self._write("next_epoch", (), lambda: self._log.next_epoch(name, owner))

    def close(self) -> None:
        """See `Log.close`."""
        self._log.close()

    def _write(self, method: str, topics: tuple[str, ...], call: Callable[[], int]) -> int:
        if not self._after:
            self._cue(method, topics)
            return call()
        position = call()
        self._cue(method, topics)
        return position

    def _cue(self, method: str, topics: tuple[str, ...]) -> None:
        number = self._counts.get(method, 0)
        self._counts[method] = number + 1
        if self._fail(Call(method, topics, number)):
            raise LogError(f"{method} number {number} failed on cue")
