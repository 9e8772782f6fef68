"""The filters of many items as arrays: `specs/1-filters.md` §2.1, with the widths of `specs/0-pipeline.md` §4.

A value passes iff `abs(value - centre) > width / 2` in float64. Two sentinels keep the hot path to one comparison: an
item without a value has half-width −1, so that its first value passes; an item without a grant has 0, so that every
change does.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tolerant.kernels.decay import decayed_many

_UNKNOWN = -1.0
_ROOM = 16


class FilterState(NamedTuple):
    """One item's filter, and the grant that gives its width (version 0: none; `since` in boundaries passed)."""

    centre: float
    """The value sent last."""
    value: float
    """The value offered last."""
    width: float
    """The width now."""
    version: int
    granted: float
    shrink: float
    since: int


class FilterBank:
    """Filters addressed by small integers, the *handles*, that count up from 0; all arrays are indexed by handle."""

    def __init__(self) -> None:
        self.size = 0
        self.centre = np.zeros(_ROOM)
        self.last = np.zeros(_ROOM)
        self.half = np.full(_ROOM, _UNKNOWN)
        self.width = np.zeros(_ROOM)
        self.shrink = np.zeros(_ROOM)
        self.since = np.zeros(_ROOM, np.int64)  # boundaries passed at the grant's `since`
        self.version = np.zeros(_ROOM, np.int64)
        self.known = np.zeros(_ROOM, bool)
        self._shrinks = {0.0}

    def add(self, count: int) -> NDArray[np.int64]:
        """Make room for `count` more items, without value and grant; their handles."""
        start, self.size = self.size, self.size + count
        if self.size > len(self.centre):
            room = max(self.size, 2 * len(self.centre))
            for name in ("centre", "last", "half", "width", "shrink", "since", "version", "known"):
                old = getattr(self, name)
                new = np.full(room, _UNKNOWN) if name == "half" else np.zeros(room, old.dtype)
                new[: len(old)] = old
                setattr(self, name, new)
        return np.arange(start, self.size)

    def offer(self, handles: NDArray[np.int64], values: NDArray[np.float64]) -> NDArray[np.int64]:
        """Take new values; the handles of those that have to be sent, each once (of a repeated handle the last value
        counts).
        """
        self.last[handles] = values
        gap = np.abs(self.last[handles] - self.centre[handles])
        passed = handles[gap > self.half[handles]]
        return self._recentre(np.unique(passed)) if len(passed) else passed

    def begin(self, handles: NDArray[np.int64], passed: int) -> None:
        """From now on these items have a value; `passed`: the boundaries passed so far."""
        self.known[handles] = True
        self._set_half(handles, passed)

    def forget(self, handle: int) -> None:
        """The item has no value any more; its grant stays."""
        self.known[handle] = False
        self.half[handle] = _UNKNOWN
        self.centre[handle] = self.last[handle] = 0.0

    def enforce(
        self,
        handles: NDArray[np.int64],
        width: NDArray[np.float64],
        shrink: NDArray[np.float64],
        since: NDArray[np.int64],
        version: NDArray[np.int64],
        passed: int,
    ) -> None:
        """Put grants in force (`since` in boundaries passed); nothing is sent: see `outside` and `recentre`."""
        self.width[handles] = width
        self.shrink[handles] = shrink
        self.since[handles] = since
        self.version[handles] = version
        self._shrinks.update(shrink.tolist())
        self._set_half(handles, passed)

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
        return self._recentre(handles[(gap > self.half[handles]) & self.known[handles]])

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
        )

    def _recentre(self, handles: NDArray[np.int64]) -> NDArray[np.int64]:
        self.centre[handles] = self.last[handles]
        return handles

    def _set_half(self, handles: NDArray[np.int64], passed: int) -> None:
        shrinks = self.shrink[handles]
        for shrink in self._shrinks:
            some = handles if len(self._shrinks) == 1 else handles[shrinks == shrink]
            width = decayed_many(self.width[some], shrink, passed - self.since[some])
            self.half[some] = np.where(self.known[some], width / 2, _UNKNOWN)
