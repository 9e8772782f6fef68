"""Remembers the recent ranges of suppressed items, for the reported history in a probe reply (`docs/design/filters.md`
§5.3).

The reply to a probe carries the item's current value, but the answer that waits for it is of an earlier event time. So
a suppressed item remembers in which ranges it has been: time intervals, in each of which it stayed within the width of
its filter. That is what it would have sent without the suppression.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tolerant.transport.rows import TimedRange

_ROOM = 16
_KEPT = 8
"""Ranges kept per item; when there are more the two oldest are merged."""


class RecentRanges:
    """The recent ranges of items, by handle, since their last `begin`. Times are microseconds."""

    def __init__(self) -> None:
        self._count = np.zeros(_ROOM, np.int8)  # of ranges; 0: none is remembered
        self._since = np.zeros((_KEPT, _ROOM), np.int64)  # the newest range first
        self._least = np.zeros((_KEPT, _ROOM))
        self._most = np.zeros((_KEPT, _ROOM))

    def begin(self, handles: NDArray[np.int64], values: NDArray[np.float64], at: int) -> None:
        """Start the history of these items, which have these values, at `at`."""
        if not len(handles):
            return
        size = int(handles.max()) + 1
        if size > len(self._count):
            more = max(size, 2 * len(self._count)) - len(self._count)
            self._count = np.pad(self._count, (0, more))
            self._since = np.pad(self._since, ((0, 0), (0, more)))
            self._least = np.pad(self._least, ((0, 0), (0, more)))
            self._most = np.pad(self._most, ((0, 0), (0, more)))
        self._count[handles] = 1
        self._since[0, handles] = at
        self._least[0, handles] = self._most[0, handles] = values

    def observe(
        self, handles: NDArray[np.int64], values: NDArray[np.float64], widths: NDArray[np.float64], at: int
    ) -> None:
        """Record that these items, all begun, have these values from `at` on; `widths`: of their filters."""
        least = np.minimum(self._least[0, handles], values)
        most = np.maximum(self._most[0, handles], values)
        stays = most - least <= widths
        inside = handles[stays]
        self._least[0, inside], self._most[0, inside] = least[stays], most[stays]
        if stays.all():
            return
        left, values = handles[~stays], values[~stays]
        again = self._since[0, left] == at  # of several values at one time the last counts
        self._least[0, left[again]] = self._most[0, left[again]] = values[again]
        left, values = left[~again], values[~again]
        full = left[self._count[left] == _KEPT]
        self._least[-2, full] = np.minimum(self._least[-2, full], self._least[-1, full])
        self._most[-2, full] = np.maximum(self._most[-2, full], self._most[-1, full])
        self._since[-2, full] = self._since[-1, full]
        for array in (self._since, self._least, self._most):
            array[1:, left] = array[:-1, left]
        self._since[0, left] = at
        self._least[0, left] = self._most[0, left] = values
        self._count[left] = np.minimum(self._count[left] + 1, _KEPT)

    def history(self, handle: int, since: int) -> list[TimedRange]:
        """Return the remembered ranges of an item after `since`, the oldest first."""
        ranges: list[TimedRange] = []
        for place in range(self._count[handle]):
            begun = int(self._since[place, handle])
            ranges.append(TimedRange(begun, float(self._least[place, handle]), float(self._most[place, handle])))
            if begun <= since:
                break
        return ranges[::-1]
