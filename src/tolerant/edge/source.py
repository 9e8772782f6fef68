"""`Source`: feeds the items of one process into the log (`docs/design/pipeline.md` §6)."""

from __future__ import annotations

import threading
import warnings
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from types import TracebackType

import numpy as np
from numpy.typing import NDArray

import tolerant.edge.arrow_memory  # noqa: F401  # first, before Arrow
from tolerant.edge.background_sender import BackgroundSender, ConflictWarning, SourceConflict
from tolerant.edge.definition import default_name, find_stream
from tolerant.edge.initial_filters import check_served, core_of
from tolerant.edge.keys import ItemKey, item_text
from tolerant.edge.source_transport import SourceTransport
from tolerant.edge.values import as_numbers
from tolerant.edge.warm_up import warm_source
from tolerant.streams import SECOND
from tolerant.transport import Log, open_log
from tolerant.transport.common import wall_clock

_LISTED = 5  # items that a message names


class Source:
    """Feeds items of a stream into the log: `set` takes values, and a value is sent only when it leaves its filter.

    stream: the stream's name; its definition is read from the log, and waited for up to `timeout` seconds.
    log: a URI, or an open log.
    name: the source's name: the same after a restart, and different from every other running source of the stream;
        default `host/program`. An item belongs to one source.
    on_conflict: what to do when another source has sent a hello for an item of this one. "warn": a `ConflictWarning`,
        and the item's next value takes it back. "raise": the next call raises `SourceConflict` and applies nothing; the
        item's next value after that takes it back.
    clock: the source's time in microseconds. Default: the wall clock, and a background thread that sends rows and
        advances time. With a given clock there is no thread: call `advance` as time passes.

    A value that has to be sent is in the log within about 50 ms, in order. While the log cannot be used, rows wait and
    are retried; once that has lasted longer than the stream's lease, calls raise `SourceError` until the log can be
    used again. Threads may share a source.
    """

    def __init__(
        self,
        stream: str,
        log: str | Log,
        name: str | None = None,
        *,
        on_conflict: str = "warn",
        clock: Callable[[], int] | None = None,
        timeout: float = 10.0,
    ) -> None:
        if on_conflict not in ("warn", "raise"):
            raise ValueError(f'on_conflict must be "warn" or "raise", got {on_conflict!r}')
        self._on_conflict = on_conflict
        self._log = open_log(log) if isinstance(log, str) else log
        self._owns_log = isinstance(log, str)
        self.name = default_name() if name is None else name
        try:
            self.stream = find_stream(self._log, stream, timeout)
            warm_source(self.stream.options)
            self.epoch = self._log.next_epoch(f"source/{stream}/{self.name}")
            self._core = core_of(self.stream, self.name, self.epoch)
            self._lock = threading.Condition()
            self._clock = clock or wall_clock
            self._transport = transport = SourceTransport(self._core, self._log, self.stream, self._lock, self._clock)
            # To the end of the topic, before the first hello.
            inbound = transport.receive()
            self._core.apply_sum_offers(inbound.sum_offers, now=0)
            self._core.grant(inbound.grants, now=0)
        except BaseException:
            self._close_log()
            raise
        self._handles: dict[object, int] = {}
        self._sender = BackgroundSender(
            f"source {self.name!r}",
            self._log.uri,
            transport,
            self._lock,
            self.stream.options.lease / SECOND,
            background=clock is None,
            on_wake=lambda: self._core.advance(self._core.wait_for_readings(self._clock())),
        )

    def register(self, items: Sequence[ItemKey]) -> NDArray[np.int64]:
        """Return handles of these items, for `set_many` with arrays; nothing is sent before an item's first value."""
        texts = [item_text(item, self.stream) for item in items]
        if self.stream.networked:
            check_served(texts, self.stream)
        with self._lock:
            handles = self._core.register(texts)
            self._handles.update(zip(items, handles.tolist(), strict=True))
            return handles

    def set(self, item: ItemKey, value: float) -> int:
        """Set the item's value; return its event time, microseconds.

        NaN, infinities and other types than numbers: `ValueError`, and nothing changes.
        """
        return self.set_many([item], [value])

    def set_many(self, items: Sequence[ItemKey] | NDArray[np.int64], values: object) -> int:
        """Set the values of many items at one event time, which is returned; `items` are keys, or an array of handles.

        Readings that are taken once per tick cost least in one call at the tick (whole seconds, for ticks of a second):
        within a twentieth of a tick after it their event time is the tick's.

        Raises:
            ValueError: an item or a value is not valid; nothing of the call was applied.
            SourceError: rows cannot be sent; nothing of the call was applied.
            SourceConflict: another source has taken items of this one, and `on_conflict` is "raise".
        """
        with self._lock:
            self._check()
            handles = self._handles_of(items)
            at = self._core.offer(handles, as_numbers(values, items), self._now())
            self._sender.wake_if_full()
            return at

    def remove(self, item: ItemKey) -> None:
        """Remove an item: queries continue without it."""
        with self._lock:
            self._check()
            text = item_text(item, self.stream)
            if self._core.filter_of(text) is None:
                raise ValueError(f"item {item!r} has no value here, so it cannot be removed")
            self._core.remove(int(self._core.register([text])[0]), self._clock())
            self._sender.wake_if_full()

    def items(self) -> list[str]:
        """Return the key texts of all items that have a value."""
        with self._lock:
            return self._core.items()

    def due(self) -> int | None:
        """Return when `advance` has to be called at the latest, with a given clock; None: not before the next value."""
        with self._lock:
            return self._core.due()

    def advance(self, now: int | None = None) -> None:
        """Advance time to `now` (default: the clock's time), for a source with a given clock.

        Does what is due up to then, applies new grants, and returns when all rows are in the log.
        """
        if self._sender.in_background:
            raise ValueError("advance is for a source with a clock of its own; this one uses the wall clock")
        with self._lock:
            self._check()
            self._core.advance(self._clock() if now is None else now)
        self.flush()

    def flush(self, timeout: float = 30.0) -> None:
        """Return when the log has accepted all rows so far.

        Raises:
            SourceError: it has not within `timeout` seconds.
        """
        self._sender.flush(timeout)

    def close(self, timeout: float = 30.0) -> None:
        """Send all waiting rows, and end. The items stay, and are stale after the lease. Closing twice does no harm.

        Raises:
            SourceError: some rows could not be sent in `timeout` seconds; they are lost.
        """
        try:
            self._sender.close(timeout)
        finally:
            self._close_log()

    def __enter__(self) -> Source:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _check(self) -> None:
        """Raise if rows cannot be sent; report items that another source has taken, once per takeover."""
        self._sender.check()
        conflicts, self._transport.conflicts = self._transport.conflicts, []
        if not conflicts:
            return
        # With the time: Python shows a warning of the same text only once.
        listed = ", ".join(
            f"{conflict.item!r} by {conflict.owner!r} at "
            f"{datetime.fromtimestamp(conflict.since / SECOND, UTC):%F %T.%f} UTC"
            for conflict in conflicts[:_LISTED]
        )
        more = f" and {len(conflicts) - _LISTED} more" if len(conflicts) > _LISTED else ""
        text = (
            f"source {self.name!r} has lost items of stream {self.stream.name!r} to others that said hello with them: "
            f"{listed}{more}. An item belongs to one source; the next value set here takes it back"
        )
        if self._on_conflict == "raise":
            raise SourceConflict(text)
        warnings.warn(text, ConflictWarning, stacklevel=4)

    def _now(self) -> int:
        now = self._clock()
        return self._core.nearest(now) if self._sender.in_background else now

    def _handles_of(self, items: Sequence[ItemKey] | NDArray[np.int64]) -> NDArray[np.int64]:
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

    def _close_log(self) -> None:
        if self._owns_log:
            self._log.close()
