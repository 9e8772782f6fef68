"""The filters of many items as arrays: `docs/design/filters.md` §2.1, with the widths of `docs/design/pipeline.md` §4.

A centre is level + slope · (ticks since it was sent), to the bit as the pipeline computes it; without prediction the
slope is 0. A value passes iff `abs(value - centre) > width / 2` in float64. Two sentinels keep the hot path to one
comparison: an item without a value has half-width −1, so that its first value passes; an item without a grant has 0, so
that every change does. A suppressed item (`docs/design/filters.md` §5.3) does not pass on its suppressed side either,
until it has sent a row.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tolerant.edge.recent_ranges import RecentRanges
from tolerant.filters.source_forecasts import Forecasts
from tolerant.kernels.decay import decayed_many
from tolerant.transport.rows import TimedRange

_UNKNOWN = -1.0
_ROOM = 16


class FilterState(NamedTuple):
    """One item's filter, and the grant of its width (version 0: none; `since` in adjustment periods passed)."""

    centre: float
    """The current centre."""
    value: float
    """The value offered last."""
    width: float
    """The current width."""
    version: int
    granted: float
    shrink: float
    since: int
    level: float = 0.0
    slope: float = 0.0
    sent: int = 0
    """The tick at which level and slope were sent."""
    suppress_side: int = 0
    """1: the item stays silent above `suppress_beyond`, −1: below."""
    suppress_beyond: float = 0.0

    def centre_at(self, tick: int) -> float:
        """Return the centre at a tick, if nothing is sent until then."""
        return self.level + self.slope * (tick - self.sent)


_ARRAYS = (
    "centre", "level", "slope", "sent", "last", "half", "width", "unit", "shrink", "since", "version", "known",
    "suppress_side", "suppress_beyond", "observed", "saving",
)  # fmt: skip


class FilterArray:
    """Filters addressed by small integers, the *handles*, that count up from 0; all arrays are indexed by handle.

    `predicts`: whether to forecast levels and slopes, and to report what other widths would send. `moves_from`: the
    updates per tick that all slopes together must save; below that no centre moves.
    """

    def __init__(self, predicts: bool = False, moves_from: float = 0.0) -> None:
        self._moves_from = moves_from
        self.size = 0
        self.now = 0
        """The time, microseconds."""
        self.tick = 0
        self.forecasts = Forecasts() if predicts else None
        self.recent_ranges = RecentRanges()
        self._any_suppressed = False  # whether any item may be suppressed
        self.centre = np.zeros(_ROOM)
        self.level = np.zeros(_ROOM)
        self.slope = np.zeros(_ROOM)
        self.sent = np.zeros(_ROOM, np.int64)
        self.last = np.zeros(_ROOM)
        self.half = np.full(_ROOM, _UNKNOWN)
        self.width = np.zeros(_ROOM)
        self.shrink = np.zeros(_ROOM)
        self.unit = np.zeros(_ROOM)  # the uniform width in the grant
        self.since = np.zeros(_ROOM, np.int64)  # adjustment periods passed at the grant's `since`
        self.version = np.zeros(_ROOM, np.int64)
        self.known = np.zeros(_ROOM, bool)
        self.suppress_side = np.zeros(_ROOM, np.int8)
        self.suppress_beyond = np.zeros(_ROOM)
        self.observed = np.zeros(_ROOM, np.int64)  # the last tick whose value the forecasts have observed
        self.saving = np.zeros(_ROOM)  # updates per tick that a slope would save: its share of a width
        self._shrinks = {0.0}

    def add(self, count: int) -> NDArray[np.int64]:
        """Add `count` items without value and grant; return their handles."""
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
        """Apply new values; return the handles that have to be sent, each once (of a repeated handle the last value
        counts).
        """
        self.last[handles] = values
        if self._any_suppressed:
            self._record_ranges(handles[self.suppress_side[handles] != 0])
        gap = np.abs(self.last[handles] - self.centre[handles])
        passed = self._not_suppressed(handles[gap > self.half[handles]])
        return self._recentre(np.unique(passed)) if len(passed) else passed

    def set_suppression(self, handles: NDArray[np.int64], side: NDArray[np.int8], beyond: NDArray[np.float64]) -> None:
        """Keep items silent on one side of `beyond` until their next row; a side of 0 ends the suppression."""
        self.suppress_side[handles], self.suppress_beyond[handles] = side, beyond
        suppressed = handles[side != 0]
        self.recent_ranges.begin(suppressed, self.last[suppressed], self.now)
        self._any_suppressed = bool(self.suppress_side.any())

    def _record_ranges(self, handles: NDArray[np.int64]) -> None:
        self.recent_ranges.observe(handles, self.last[handles], self._widths(handles), self.now)

    def histories(self, handles: NDArray[np.int64], since: int) -> list[list[TimedRange] | None]:
        """Return the ranges in which each item has been after `since`; None for items that are not suppressed."""
        suppressed = self.suppress_side[handles] != 0
        self._record_ranges(handles[suppressed])
        return [
            self.recent_ranges.history(handle, since) if is_suppressed else None
            for handle, is_suppressed in zip(handles.tolist(), suppressed.tolist(), strict=True)
        ]

    def _not_suppressed(self, handles: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return those of the handles that are not suppressed, or have left their suppressed side."""
        side = self.suppress_side[handles]
        if not side.any():
            return handles
        return handles[(side == 0) | (side * self.last[handles] < side * self.suppress_beyond[handles])]

    def pass_tick(
        self, tick: int, handles: NDArray[np.int64] | None = None, values: NDArray[np.float64] | None = None
    ) -> NDArray[np.int64]:
        """Advance to `tick` and move the centres; return the handles that have to be sent.

        `handles` get new `values` at that tick. A moved centre is where the new value is expected, so it is compared
        with that one and not with the old.
        """
        known = np.flatnonzero(self.known[: self.size])
        self._observe(known)
        self.tick = tick
        if handles is not None:
            self.last[handles] = values
        moving = known[self.slope[known] != 0.0]
        self.centre[moving] = self.level[moving] + self.slope[moving] * (tick - self.sent[moving])
        return self.outside(moving)

    def _observe(self, handles: NDArray[np.int64]) -> None:
        """Pass this tick's values to the forecasts, once: when the tick ends, or earlier if a forecast is needed."""
        if self.forecasts:
            new = handles[self.observed[handles] != self.tick]
            self.forecasts.observe(new, self.last[new])
            self.observed[new] = self.tick

    def reports(self, handles: NDArray[np.int64], *, whole: bool) -> NDArray[np.void] | None:
        """Return what other widths would have sent, of type `REPORT`; zeros where nothing has changed, unless `whole`;
        None without prediction.
        """
        if self.forecasts is None:
            return None
        return self.forecasts.reports(handles, self._widths(handles), whole=whole)

    def begin(self, handles: NDArray[np.int64], passed: int) -> None:
        """Mark these items as having a value; `passed`: the adjustment periods passed so far."""
        self.known[handles] = True
        self._set_half(handles, passed)
        if self.forecasts:
            self.forecasts.begin(handles, self.unit[handles], self.last[handles])
            self.observed[handles] = self.tick
            self._recentre(handles)

    def forget(self, handle: int) -> None:
        """Remove the item's value and grant; its newest grant is put in force when it has a value again."""
        self.known[handle] = False
        self.version[handle] = self.since[handle] = 0
        self.width[handle] = self.shrink[handle] = self.unit[handle] = 0.0
        self.half[handle] = _UNKNOWN
        self.suppress_side[handle] = 0
        self.saving[handle] = 0.0
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
        """Put grants in force (`since` in adjustment periods passed); sends nothing: see `outside` and `recentre`."""
        self.width[handles] = width
        self.shrink[handles] = shrink
        self.since[handles] = since
        self.version[handles] = version
        self._shrinks.update(shrink.tolist())
        self._set_half(handles, passed)
        self.unit[handles] = unit
        if self.forecasts:
            present = handles[self.known[handles]]
            self.forecasts.retune(present, self.unit[present], self.last[present])

    def decay(self, passed: int) -> None:
        """Set every filter to its width after `passed` adjustment periods."""
        self._set_half(np.flatnonzero(self.known[: self.size]), passed)

    def outside(self, handles: NDArray[np.int64] | None = None) -> NDArray[np.int64]:
        """Apply filters (default: all) again to the last offered values; recentre and return the handles that have to
        be sent.
        """
        if handles is None:
            handles = np.arange(self.size)
        gap = np.abs(self.last[handles] - self.centre[handles])
        return self._recentre(self._not_suppressed(handles[(gap > self.half[handles]) & self.known[handles]]))

    def moves(self) -> bool:
        """Return whether any centre moves at ticks."""
        return bool(np.any(self.known[: self.size] & (self.slope[: self.size] != 0.0)))

    def shrinks(self) -> bool:
        """Return whether any width shrinks at the end of a period."""
        n = self.size
        return bool(
            np.any(self.known[:n] & (self.shrink[:n] > 0.0) & (self.half[:n] > 0.0) & np.isfinite(self.half[:n]))
        )

    def can_leave(self) -> bool:
        """Return whether the shrinking of widths alone could put any value outside its filter."""
        n = self.size
        return bool(np.any(self.known[:n] & (self.last[:n] != self.centre[:n]) & (self.shrink[:n] > 0)))

    def recentre(self, handles: NDArray[np.int64]) -> NDArray[np.int64]:
        """Move the centres onto the last offered values; return the same handles."""
        return self._recentre(handles)

    def state(self, handle: int) -> FilterState | None:
        """Return the filter of one item; None while it has no value."""
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
            int(self.suppress_side[handle]),
            float(self.suppress_beyond[handle]),
        )

    def _recentre(self, handles: NDArray[np.int64]) -> NDArray[np.int64]:
        values = self.last[handles]
        if self.forecasts and len(handles):
            self._observe(handles)
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
        """Return whether slopes save as much as they cost: while any centre moves, one row per tick must confirm it."""
        if self._moves_from > 0.0:
            some = (widths > 0.0) & np.isfinite(widths)
            self.saving[handles] = np.where(some, np.minimum(np.abs(slopes) / np.where(some, widths, 1.0), 1.0), 0.0)
        return bool(self.saving[: self.size].sum() >= self._moves_from)

    def _widths(self, handles: NDArray[np.int64]) -> NDArray[np.float64]:
        return 2.0 * np.maximum(self.half[handles], 0.0)

    def _set_half(self, handles: NDArray[np.int64], passed: int) -> None:
        shrinks = self.shrink[handles]
        for shrink in self._shrinks:
            some = handles if len(self._shrinks) == 1 else handles[shrinks == shrink]
            width = decayed_many(self.width[some], shrink, passed - self.since[some])
            self.half[some] = np.where(self.known[some], width / 2, _UNKNOWN)
