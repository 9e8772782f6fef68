"""`Source`: the items of one process, sent only when they have to be (`specs/0-pipeline.md` §6)."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from types import TracebackType

import numpy as np
from numpy.typing import NDArray

from tolerant.edge.core import SourceCore
from tolerant.edge.definition import default_name, find_stream
from tolerant.edge.keys import ItemKey, item_text
from tolerant.edge.post import Post
from tolerant.edge.values import as_numbers
from tolerant.streams import SECOND
from tolerant.transport import Log, open_log

FLUSH_ROWS = 10_000
"""So many rows are sent at once, without waiting for more."""

FLUSH_AFTER = 0.05
"""Seconds that a row waits for others at most; also how often grants and time are looked at."""

_LONGEST_PAUSE = 1.0  # seconds between two tries of an append that fails


class SourceError(Exception):
    """A source cannot go on, for now or at all; the message says which, and what to do."""


class Source:
    """Feeds items of a stream into the log: values go in by `set`, and are sent only if they have to be.

    stream: the stream's name; its definition is read from the log, and waited for up to `timeout` seconds.
    log: a URI, or an open log.
    name: who this is: the same after a restart, and different from every other running source of the stream; default
        `host/program`. An item belongs to one source.
    clock: the source's time in microseconds. Default: the wall clock, and a thread that does in the background what
        time asks for. With a clock of one's own there is no thread: call `advance` as time passes.

    What was set is in the log within about 50 ms, in order. While the log cannot be used, rows wait and are tried
    again; once that has lasted longer than the stream's lease, calls raise `SourceError` until it can. Threads may
    share a source.
    """

    def __init__(
        self,
        stream: str,
        log: str | Log,
        name: str | None = None,
        *,
        clock: Callable[[], int] | None = None,
        timeout: float = 10.0,
    ) -> None:
        self._log = open_log(log) if isinstance(log, str) else log
        self._owns_log = isinstance(log, str)
        self.name = default_name() if name is None else name
        try:
            self.stream = find_stream(self._log, stream, timeout)
            self.epoch = self._log.next_epoch(f"source/{stream}/{self.name}")
            self._core = SourceCore(self.name, self.epoch, self.stream.options)
            self._lock = threading.Condition()
            self._post = Post(self._core, self._log, stream, self._lock)
            # To the end of the topic, before the first hello.
            self._core.grant(self._post.receive(), now=0)
        except BaseException:
            self._let_go()
            raise
        self._handles: dict[object, int] = {}
        self._clock = clock or wall_clock
        self._failure: Exception | None = None
        self._hurry = self._closing = self._closed = False
        self._thread: threading.Thread | None = None
        if clock is None:
            self._thread = threading.Thread(target=self._run, name=f"tolerant source {self.name}", daemon=True)
            self._thread.start()

    def register(self, items: Sequence[ItemKey]) -> NDArray[np.int64]:
        """Handles of these items, for `set_many` with arrays; nothing is sent before an item's first value."""
        texts = [item_text(item, self.stream) for item in items]
        with self._lock:
            handles = self._core.register(texts)
            self._handles.update(zip(items, handles.tolist(), strict=True))
            return handles

    def set(self, item: ItemKey, value: float) -> int:
        """The item has this value now: at the event time returned, microseconds.

        NaN, infinities and what is no number: `ValueError`, and nothing changes.
        """
        return self.set_many([item], [value])

    def set_many(self, items: Sequence[ItemKey] | NDArray[np.int64], values: object) -> int:
        """The items have these values, all at the event time returned; `items` are keys, or an array of handles.

        Raises:
            ValueError: an item or a value is not what it should be; nothing of the call was taken.
            SourceError: rows cannot be sent; nothing of the call was taken.
        """
        with self._lock:
            self._check()
            handles = self._find(items)
            at = self._core.offer(handles, as_numbers(values, items), self._clock())
            self._look_at_size()
            return at

    def remove(self, item: ItemKey) -> None:
        """The item no longer exists: queries go on without it."""
        with self._lock:
            self._check()
            text = item_text(item, self.stream)
            if self._core.filter_of(text) is None:
                raise ValueError(f"item {item!r} has no value here, so it cannot be removed")
            self._core.remove(int(self._core.register([text])[0]), self._clock())
            self._look_at_size()

    def items(self) -> list[str]:
        """The key texts of all items that have a value."""
        with self._lock:
            return self._core.items()

    def due(self) -> int | None:
        """With a clock of one's own: when `advance` has to be called at the latest; None: not before the next value."""
        with self._lock:
            return self._core.due()

    def advance(self, now: int | None = None) -> None:
        """With a clock of one's own: time has come to `now` (default: what the clock says).

        Does what is due up to then, takes new grants, and returns when everything said is in the log.
        """
        if self._thread is not None:
            raise ValueError("advance is for a source with a clock of its own; this one goes by the wall clock")
        with self._lock:
            self._check()
            self._core.advance(self._clock() if now is None else now)
        self.flush()

    def flush(self, timeout: float = 30.0) -> None:
        """Return when everything said so far has been accepted by the log.

        Raises:
            SourceError: it was not, for `timeout` seconds.
        """
        deadline = time.monotonic() + timeout
        if self._thread is None:
            self._exchange_until(deadline)
        with self._lock:
            self._hurry = True
            self._lock.notify_all()
            while self._post.unsent and self._failure is None:
                if not self._lock.wait(max(0.0, deadline - time.monotonic())):
                    raise self._unsent(f"in {timeout:g} s")
            self._check()

    def close(self, timeout: float = 30.0) -> None:
        """Send what there is to send, and end. The items stay, and are stale after the lease. Twice does no harm.

        Raises:
            SourceError: some rows could not be sent in `timeout` seconds; they are lost.
        """
        if self._closed:
            return
        try:
            if self._failure is None:
                self.flush(timeout)
        finally:
            with self._lock:
                self._closing = self._closed = True
                self._lock.notify_all()
            if self._thread is not None:
                self._thread.join()
            self._let_go()

    def __enter__(self) -> Source:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _find(self, items: Sequence[ItemKey] | NDArray[np.int64]) -> NDArray[np.int64]:
        if isinstance(items, np.ndarray):
            if items.dtype.kind not in "iu" or items.ndim != 1:
                raise ValueError(f"an array of items must hold the handles that register gave, got {items.dtype}")
            return items.astype(np.int64, copy=False)
        if isinstance(items, str | bytes):
            raise ValueError(f"items must be a sequence of keys, got {items!r}. Was set meant?")
        try:
            return np.array([self._handles[item] for item in items], np.int64)
        except (KeyError, TypeError):
            return self.register(items)

    def _look_at_size(self) -> None:
        if len(self._core) >= FLUSH_ROWS:
            self._hurry = True
            self._lock.notify_all()

    def _check(self) -> None:
        """Raise what went wrong in the background."""
        if self._closed:
            raise SourceError(f"source {self.name!r} is closed")
        if self._failure is not None:
            raise SourceError(f"source {self.name!r} has failed: {self._failure}") from self._failure
        trouble = self._post.trouble
        if trouble is not None and time.monotonic() - trouble.since > self.stream.options.lease / SECOND:
            raise self._unsent("for longer than the stream's lease") from trouble.error

    def _unsent(self, span: str) -> SourceError:
        why = f": {self._post.trouble.error}" if self._post.trouble else ""
        return SourceError(
            f"source {self.name!r} could not append {self._post.unsent} rows to {self._log.uri} {span}{why}. "
            "They are kept, and tried again until the source is closed"
        )

    def _exchange_until(self, deadline: float) -> None:
        pause = FLUSH_AFTER
        while not self._post.exchange(self._clock):
            if time.monotonic() + pause > deadline:
                raise self._unsent("in time")
            time.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE)

    def _run(self) -> None:
        try:
            pause = FLUSH_AFTER
            while self._wait(pause):
                reached = self._post.exchange(self._clock)
                pause = FLUSH_AFTER if reached else min(2 * pause, _LONGEST_PAUSE)
        except Exception as error:
            self._failure = error
        finally:
            with self._lock:
                self._lock.notify_all()

    def _wait(self, seconds: float) -> bool:
        """Tell those who wait for a flush, wait for something to do, and let time pass; False: the source is
        closing.
        """
        with self._lock:
            self._lock.notify_all()
            if not (self._hurry or self._closing):
                self._lock.wait(seconds)
            self._hurry = False
            self._core.advance(self._clock())
            return not self._closing

    def _let_go(self) -> None:
        if self._owns_log:
            self._log.close()


def wall_clock() -> int:
    """Microseconds since 1970."""
    return time.time_ns() // 1000
