"""The filters of many items as arrays: `specs/1-filters.md` §2.1, with the widths of `specs/0-pipeline.md` §4.

A centre is level + slope · (ticks since it was sent), to the bit as the pipeline computes it; without prediction the
slope is 0. A value passes iff `abs(value - centre) > width / 2` in float64. Two sentinels keep the hot path to one
comparison: an item without a value has half-width −1, so that its first value passes; an item without a grant has 0, so
that every change does. An item on leave (`specs/1-filters.md` §5.3) does not pass beyond its floor either, until it has
sent a row.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tolerant.edge.recent import Recent
from tolerant.filters.forecasts import Forecasts
from tolerant.kernels.decay import decayed_many
from tolerant.transport.rows import Piece

_UNKNOWN = -1.0
_ROOM = 16


class FilterState(NamedTuple):
    """One item's filter, and the grant that gives its width (version 0: none; `since` in boundaries passed)."""

    centre: float
    """Where it stands now."""
    value: float
    """The value offered last."""
    width: float
    """The width now."""
    version: int
    granted: float
    shrink: float
    since: int
    level: float = 0.0
    slope: float = 0.0
    sent: int = 0
    """The tick at which level and slope were sent."""
    far: int = 0
    """1: it may be anything above `leave`, −1: below."""
    leave: float = 0.0

    def centre_at(self, tick: int) -> float:
        """Where it stands at a tick, if nothing is sent until then."""
        return self.level + self.slope * (tick - self.sent)


_ARRAYS = (
    "centre", "level", "slope", "sent", "last", "half", "width", "unit", "shrink", "since", "version", "known", "far",
    "leave", "watched", "pull",
)  # fmt: skip


class FilterBank:
    """Filters addressed by small integers, the *handles*, that count up from 0; all arrays are indexed by handle.

    `predicts`: whether levels and slopes are forecast, and reports made of what other widths would send. `moves_from`:
    updates per tick that slopes must be able to save together, or no centre moves.
    """

    def __init__(self, predicts: bool = False, moves_from: float = 0.0) -> None:
        self._moves_from = moves_from
        self.size = 0
        self.now = 0
        """The time, microseconds."""
        self.tick = 0
        self.forecasts = Forecasts() if predicts else None
        self.recent = Recent()
        self._away = False  # whether there may be an item on leave
        self.centre = np.zeros(_ROOM)
        self.level = np.zeros(_ROOM)
        self.slope = np.zeros(_ROOM)
        self.sent = np.zeros(_ROOM, np.int64)
        self.last = np.zeros(_ROOM)
        self.half = np.full(_ROOM, _UNKNOWN)
        self.width = np.zeros(_ROOM)
        self.shrink = np.zeros(_ROOM)
        self.unit = np.zeros(_ROOM)  # the uniform width that the grant tells
        self.since = np.zeros(_ROOM, np.int64)  # boundaries passed at the grant's `since`
        self.version = np.zeros(_ROOM, np.int64)
        self.known = np.zeros(_ROOM, bool)
        self.far = np.zeros(_ROOM, np.int8)
        self.leave = np.zeros(_ROOM)
        self.watched = np.zeros(_ROOM, np.int64)  # the last tick whose value the forecasts have seen
        self.pull = np.zeros(_ROOM)  # updates per tick that a slope would save: how much of a width it is
        self._shrinks = {0.0}

    def add(self, count: int) -> NDArray[np.int64]:
        """Make room for `count` more items, without value and grant; their handles."""
        start, self.size = self.size, self.size + count
        if self.size > len(self.centre):
            room = max(self.size, 2 * len(self.centre))
            for name in _ARRAYS:
                old = getattr(self, name)
                new = np.full(room, _UNKNOWN) if name == "half" else np.zeros(room, old.dtype)
                new[: len(old)] = old
                setattr(self, name, new)
        if self.forecasts:
            self.forecasts.make_room(self.size)
        return np.arange(start, self.size)

    def offer(self, handles: NDArray[np.int64], values: NDArray[np.float64]) -> NDArray[np.int64]:
        """Take new values; the handles of those that have to be sent, each once (of a repeated handle the last value
        counts).
        """
        self.last[handles] = values
        if self._away:
            self._remember(handles[self.far[handles] != 0])
        gap = np.abs(self.last[handles] - self.centre[handles])
        passed = self._beyond_leave(handles[gap > self.half[handles]])
        return self._recentre(np.unique(passed)) if len(passed) else passed

    def let(self, handles: NDArray[np.int64], far: NDArray[np.int8], leave: NDArray[np.float64]) -> None:
        """Let items be anything on the far side of `leave` until their next row; a side of 0 ends it."""
        self.far[handles], self.leave[handles] = far, leave
        away = handles[far != 0]
        self.recent.begin(away, self.last[away], self.now)
        self._away = bool(self.far.any())

    def _remember(self, handles: NDArray[np.int64]) -> None:
        self.recent.see(handles, self.last[handles], self._widths(handles), self.now)

    def ways(self, handles: NDArray[np.int64], since: int) -> list[list[Piece] | None]:
        """Where each of these items has been after `since`, if it is on leave."""
        away = self.far[handles] != 0
        self._remember(handles[away])
        return [
            self.recent.way(handle, since) if on_leave else None
            for handle, on_leave in zip(handles.tolist(), away.tolist(), strict=True)
        ]

    def _beyond_leave(self, handles: NDArray[np.int64]) -> NDArray[np.int64]:
        """Those of the handles that have no leave, or have gone beyond it."""
        far = self.far[handles]
        if not far.any():
            return handles
        return handles[(far == 0) | (far * self.last[handles] < far * self.leave[handles])]

    def pass_tick(
        self, tick: int, handles: NDArray[np.int64] | None = None, values: NDArray[np.float64] | None = None
    ) -> NDArray[np.int64]:
        """Time comes to `tick`: centres move; the handles that have to be sent.

        `handles` have new values just then. A centre that has moved on is where the new value is expected, so it is
        not held against the old one.
        """
        known = np.flatnonzero(self.known[: self.size])
        self._watch(known)
        self.tick = tick
        if handles is not None:
            self.last[handles] = values
        moving = known[self.slope[known] != 0.0]
        self.centre[moving] = self.level[moving] + self.slope[moving] * (tick - self.sent[moving])
        return self.outside(moving)

    def _watch(self, handles: NDArray[np.int64]) -> None:
        """Show the forecasts this tick's values, once: when the tick ends, or when they are needed before."""
        if self.forecasts:
            new = handles[self.watched[handles] != self.tick]
            self.forecasts.observe(new, self.last[new])
            self.watched[new] = self.tick

    def reports(self, handles: NDArray[np.int64], *, whole: bool) -> NDArray[np.void] | None:
        """What other widths would have sent, of type `REPORT`; zeros where that is no news, unless `whole`; None:
        nobody asks.
        """
        if self.forecasts is None:
            return None
        return self.forecasts.reports(handles, self._widths(handles), whole=whole)

    def begin(self, handles: NDArray[np.int64], passed: int) -> None:
        """From now on these items have a value; `passed`: the boundaries passed so far."""
        self.known[handles] = True
        self._set_half(handles, passed)
        if self.forecasts:
            self.forecasts.begin(handles, self.unit[handles], self.last[handles])
            self.watched[handles] = self.tick
            self._recentre(handles)

    def forget(self, handle: int) -> None:
        """The item has neither value nor grant any more; the newest grant is put in force when it comes back."""
        self.known[handle] = False
        self.version[handle] = self.since[handle] = 0
        self.width[handle] = self.shrink[handle] = self.unit[handle] = 0.0
        self.half[handle] = _UNKNOWN
        self.far[handle] = 0
        self.pull[handle] = 0.0
        self.centre[handle] = self.level[handle] = self.slope[handle] = self.last[handle] = 0.0

    def enforce(
        self,
        handles: NDArray[np.int64],
        width: NDArray[np.float64],
        shrink: NDArray[np.float64],
        since: NDArray[np.int64],
        version: NDArray[np.int64],
        unit: NDArray[np.float64],
        passed: int,
    ) -> None:
        """Put grants in force (`since` in boundaries passed); nothing is sent: see `outside` and `recentre`."""
        self.width[handles] = width
        self.shrink[handles] = shrink
        self.since[handles] = since
        self.version[handles] = version
        self._shrinks.update(shrink.tolist())
        self._set_half(handles, passed)
        self.unit[handles] = unit
        if self.forecasts:
            here = handles[self.known[handles]]
            self.forecasts.retune(here, self.unit[here], self.last[here])

    def decay(self, passed: int) -> None:
        """Give every filter the width of the time when `passed` boundaries have passed."""
        self._set_half(np.flatnonzero(self.known[: self.size]), passed)

    def outside(self, handles: NDArray[np.int64] | None = None) -> NDArray[np.int64]:
        """Apply filters (default: all) again to the last offered values; the handles that have to be sent,
        recentred.
        """
        if handles is None:
            handles = np.arange(self.size)
        gap = np.abs(self.last[handles] - self.centre[handles])
        return self._recentre(self._beyond_leave(handles[(gap > self.half[handles]) & self.known[handles]]))

    def moves(self) -> bool:
        """Whether any centre moves at ticks."""
        return bool(np.any(self.known[: self.size] & (self.slope[: self.size] != 0.0)))

    def shrinks(self) -> bool:
        """Whether any width shrinks at boundaries."""
        n = self.size
        return bool(
            np.any(self.known[:n] & (self.shrink[:n] > 0.0) & (self.half[:n] > 0.0) & np.isfinite(self.half[:n]))
        )

    def can_leave(self) -> bool:
        """Whether a mere shrinking of widths could put any value outside its filter."""
        n = self.size
        return bool(np.any(self.known[:n] & (self.last[:n] != self.centre[:n]) & (self.shrink[:n] > 0)))

    def recentre(self, handles: NDArray[np.int64]) -> NDArray[np.int64]:
        """Move the centres onto the last offered values; the same handles."""
        return self._recentre(handles)

    def state(self, handle: int) -> FilterState | None:
        """The filter of one item; None while it has no value."""
        if not self.known[handle]:
            return None
        return FilterState(
            float(self.centre[handle]),
            float(self.last[handle]),
            float(self.half[handle]) * 2,
            int(self.version[handle]),
            float(self.width[handle]),
            float(self.shrink[handle]),
            int(self.since[handle]),
            float(self.level[handle]),
            float(self.slope[handle]),
            int(self.sent[handle]),
            int(self.far[handle]),
            float(self.leave[handle]),
        )

    def _recentre(self, handles: NDArray[np.int64]) -> NDArray[np.int64]:
        values = self.last[handles]
        if self.forecasts and len(handles):
            self._watch(handles)
            widths, off = self._widths(handles), values - self.centre[handles]
            levels, slopes = self.forecasts.propose(handles, values, widths, off)
            moves = self._worth_moving(handles, slopes, widths) & (slopes != 0.0)
            values = np.where(moves | (slopes == 0.0), levels, values)
            self.slope[handles] = np.where(moves, slopes, 0.0)
        self.level[handles] = self.centre[handles] = values
        self.sent[handles] = self.tick
        return handles

    def _worth_moving(
        self, handles: NDArray[np.int64], slopes: NDArray[np.float64], widths: NDArray[np.float64]
    ) -> bool:
        """Whether slopes save as much as they cost: while anything moves, a row every tick must say that it does."""
        if self._moves_from > 0.0:
            some = (widths > 0.0) & np.isfinite(widths)
            self.pull[handles] = np.where(some, np.minimum(np.abs(slopes) / np.where(some, widths, 1.0), 1.0), 0.0)
        return bool(self.pull[: self.size].sum() >= self._moves_from)

    def _widths(self, handles: NDArray[np.int64]) -> NDArray[np.float64]:
        return 2.0 * np.maximum(self.half[handles], 0.0)

    def _set_half(self, handles: NDArray[np.int64], passed: int) -> None:
        shrinks = self.shrink[handles]
        for shrink in self._shrinks:
            some = handles if len(self._shrinks) == 1 else handles[shrinks == shrink]
            width = decayed_many(self.width[some], shrink, passed - self.since[some])
            self.half[some] = np.where(self.known[some], width / 2, _UNKNOWN)
