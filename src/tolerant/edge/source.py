"""`Source`: the items of one process, sent only when they have to be (`specs/0-pipeline.md` §6)."""

from __future__ import annotations

import threading
import warnings
from collections.abc import Callable, Sequence
from types import TracebackType

import numpy as np
from numpy.typing import NDArray

from tolerant.edge.carrier import Carrier, ConflictWarning, SourceConflict
from tolerant.edge.definition import default_name, find_stream
from tolerant.edge.feeding import check_served, core_of
from tolerant.edge.keys import ItemKey, item_text
from tolerant.edge.post import SourcePost
from tolerant.edge.values import as_numbers
from tolerant.edge.warming import warm_source
from tolerant.streams import SECOND
from tolerant.transport import Log, open_log
from tolerant.transport.common import wall_clock

_LISTED = 5  # items that a message names


class Source:
    """Feeds items of a stream into the log: values go in by `set`, and are sent only if they have to be.

    stream: the stream's name; its definition is read from the log, and waited for up to `timeout` seconds.
    log: a URI, or an open log.
    name: who this is: the same after a restart, and different from every other running source of the stream; default
        `host/program`. An item belongs to one source.
    on_conflict: what to do when another source has said hello with an item of this one. "warn": a `ConflictWarning`,
        and the item's next value takes it back. "raise": the next call raises `SourceConflict` and takes nothing; the
        item's next value after that takes it back.
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
            self._post = post = SourcePost(self._core, self._log, self.stream, self._lock, self._clock)
            # To the end of the topic, before the first hello.
            news = post.receive()
            self._core.form(news.forms, now=0)
            self._core.grant(news.grants, now=0)
        except BaseException:
            self._let_go()
            raise
        self._handles: dict[object, int] = {}
        self._carrier = Carrier(
            f"source {self.name!r}",
            self._log.uri,
            post,
            self._lock,
            self.stream.options.lease / SECOND,
            background=clock is None,
            passing=lambda: self._core.advance(self._core.wait_for_readings(self._clock())),
        )

    def register(self, items: Sequence[ItemKey]) -> NDArray[np.int64]:
        """Handles of these items, for `set_many` with arrays; nothing is sent before an item's first value."""
        texts = [item_text(item, self.stream) for item in items]
        if self.stream.networked:
            check_served(texts, self.stream)
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

        Readings that are taken once a tick cost least in one call at the tick (whole seconds, for ticks of a second):
        within a twentieth of a tick after it their event time is the tick's.

        Raises:
            ValueError: an item or a value is not what it should be; nothing of the call was taken.
            SourceError: rows cannot be sent; nothing of the call was taken.
            SourceConflict: another source has taken items of this one, which raises (`on_conflict`).
        """
        with self._lock:
            self._check()
            handles = self._find(items)
            at = self._core.offer(handles, as_numbers(values, items), self._now())
            self._carrier.look()
            return at

    def remove(self, item: ItemKey) -> None:
        """The item no longer exists: queries go on without it."""
        with self._lock:
            self._check()
            text = item_text(item, self.stream)
            if self._core.filter_of(text) is None:
                raise ValueError(f"item {item!r} has no value here, so it cannot be removed")
            self._core.remove(int(self._core.register([text])[0]), self._clock())
            self._carrier.look()

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
        if self._carrier.in_background:
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
        self._carrier.flush(timeout)

    def close(self, timeout: float = 30.0) -> None:
        """Send what there is to send, and end. The items stay, and are stale after the lease. Twice does no harm.

        Raises:
            SourceError: some rows could not be sent in `timeout` seconds; they are lost.
        """
        try:
            self._carrier.close(timeout)
        finally:
            self._let_go()

    def __enter__(self) -> Source:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _check(self) -> None:
        """Raise if rows cannot be sent; tell of items that another source has taken, each time once."""
        self._carrier.check()
        conflicts, self._post.conflicts = self._post.conflicts, []
        if not conflicts:
            return
        listed = ", ".join(f"{one.item!r} by {one.owner!r}" for one in conflicts[:_LISTED])
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
        return self._core.nearest(now) if self._carrier.in_background else now

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

    def _let_go(self) -> None:
        if self._owns_log:
            self._log.close()
