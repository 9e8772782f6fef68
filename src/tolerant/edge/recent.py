"""Where items on leave have been lately, which an item that is asked can tell (`specs/1-filters.md` §5.3).

The reply to a question says what the item is; the answer that waits for it is of a moment before. So an item on leave
remembers between which values it has been for at least a span of time: the extremes of the stretch of time that it is
in, and of a few stretches before that make up the span.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

_ROOM = 16
_STRETCHES = 4
"""That make up a span: with more of them, what is told is of little more than the span, and can be told sooner."""


class Recent:
    """The extremes of items, by handle, over the last `span` microseconds at least; of those that `begin` and have not
    been forgotten. `watching`: whether there are any.
    """

    def __init__(self, span: int) -> None:
        self._length = -(-span // _STRETCHES)  # rounded up
        self._stretch = 0
        self._handles = np.zeros(0, np.int64)
        self._least = np.zeros((_STRETCHES + 1, _ROOM))  # of this stretch, and of those before
        self._most = np.zeros((_STRETCHES + 1, _ROOM))

    @property
    def watching(self) -> bool:
        """Whether there is any item to remember something of."""
        return len(self._handles) > 0

    def begin(self, handles: NDArray[np.int64]) -> None:
        """Remember these items from now on: where they were before is not known."""
        if not len(handles):
            return
        size = int(handles.max()) + 1
        if size > self._least.shape[1]:
            more = ((0, 0), (0, max(size, 2 * self._least.shape[1]) - self._least.shape[1]))
            self._least, self._most = np.pad(self._least, more), np.pad(self._most, more)
        self._least[:, handles], self._most[:, handles] = -np.inf, np.inf
        self._handles = np.union1d(self._handles, handles)

    def see(self, handles: NDArray[np.int64], values: NDArray[np.float64]) -> None:
        """These items, all of which have begun, have these values from now on."""
        self._least[0, handles] = np.minimum(self._least[0, handles], values)
        self._most[0, handles] = np.maximum(self._most[0, handles], values)

    def reach(self, at: int, far: NDArray[np.int8], last: NDArray[np.float64]) -> None:
        """Time comes to `at`, until which values were those of `last`; those not `far` any more are forgotten."""
        stretch = at // self._length
        if stretch != self._stretch and self.watching:
            self._handles = handles = self._handles[far[self._handles] != 0]
            passed = min(stretch - self._stretch, _STRETCHES + 1)
            for extremes in (self._least, self._most):
                before = extremes[: _STRETCHES + 1 - passed, handles]
                extremes[:passed, handles] = last[handles]
                extremes[passed:, handles] = before
        self._stretch = stretch

    def ends(
        self, handles: NDArray[np.int64], last: NDArray[np.float64]
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """The least and the greatest value that each of these items, all of which have begun, has had over the last
        span, `last` included; infinite where that is not known.
        """
        least = np.minimum(self._least[:, handles].min(axis=0), last[handles])
        most = np.maximum(self._most[:, handles].max(axis=0), last[handles])
        return least, most
