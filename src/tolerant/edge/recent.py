"""Where items on leave have been lately, which an item that is asked can tell (`specs/1-filters.md` §5.3).

The reply to a question says what the item is; the answer that waits for it is of a moment before. So an item on leave
remembers its way: pieces of time, in each of which it has stayed within the width of its filter. That is what it would
have sent without its leave.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tolerant.transport.rows import Piece

_ROOM = 16
_PIECES = 8
"""That are kept of an item; when there are more the two oldest become one."""


class Recent:
    """The ways of items, by handle, from when they `begin` until they are forgotten. Times are microseconds."""

    def __init__(self) -> None:
        self._count = np.zeros(_ROOM, np.int8)  # of pieces; 0: nothing is remembered
        self._since = np.zeros((_PIECES, _ROOM), np.int64)  # the newest piece first
        self._least = np.zeros((_PIECES, _ROOM))
        self._most = np.zeros((_PIECES, _ROOM))

    def begin(self, handles: NDArray[np.int64], values: NDArray[np.float64], at: int) -> None:
        """Remember the ways of these items, which have these values, from now on."""
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

    def see(
        self, handles: NDArray[np.int64], values: NDArray[np.float64], widths: NDArray[np.float64], at: int
    ) -> None:
        """These items, all of which have begun, have these values from now on; `widths`: of their filters."""
        least = np.minimum(self._least[0, handles], values)
        most = np.maximum(self._most[0, handles], values)
        stays = most - least <= widths
        here = handles[stays]
        self._least[0, here], self._most[0, here] = least[stays], most[stays]
        if stays.all():
            return
        gone, values = handles[~stays], values[~stays]
        again = self._since[0, gone] == at  # of several values of one moment the last counts
        self._least[0, gone[again]] = self._most[0, gone[again]] = values[again]
        gone, values = gone[~again], values[~again]
        full = gone[self._count[gone] == _PIECES]
        self._least[-2, full] = np.minimum(self._least[-2, full], self._least[-1, full])
        self._most[-2, full] = np.maximum(self._most[-2, full], self._most[-1, full])
        self._since[-2, full] = self._since[-1, full]
        for array in (self._since, self._least, self._most):
            array[1:, gone] = array[:-1, gone]
        self._since[0, gone] = at
        self._least[0, gone] = self._most[0, gone] = values
        self._count[gone] = np.minimum(self._count[gone] + 1, _PIECES)

    def way(self, handle: int, since: int) -> list[Piece]:
        """Where an item that has begun has been after `since`, the oldest piece first, as far as it remembers."""
        found: list[Piece] = []
        for piece in range(self._count[handle]):
            begun = int(self._since[piece, handle])
            found.append(Piece(begun, float(self._least[piece, handle]), float(self._most[piece, handle])))
            if begun <= since:
                break
        return found[::-1]
