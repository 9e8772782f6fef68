"""Messages about a change: rectangles in the plane of subscriptions (`docs/design/notifications.md` §2.2)."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

LARGEST = sys.float_info.max
"""An infinite end of a subscription counts as this: rows are at finite places, so no answer changes."""


def finite_ends(x1s: NDArray[np.float64], x2s: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return ranges as subscription stores keep them: an infinite end becomes the largest float."""
    return np.maximum(x1s, -LARGEST), np.minimum(x2s, LARGEST)


class Message(NamedTuple):
    """A new answer, and the ranges whose answer it is: the rectangle (outer_low, inner_low] × [inner_high, outer_high)
    of ranges.

    `gone` is for DISTINCT: `value` has left the answer instead of entering it.

    >>> message = Message(4.0, 40.0, 40.0, 20.0, 100.0)
    >>> message.affects(25, 60), message.affects(10, 60), message.affects(25, 100)
    (True, False, False)
    """

    value: Any
    inner_low: float
    inner_high: float
    outer_low: float
    outer_high: float
    gone: bool = False

    def affects(self, x1: float, x2: float) -> bool:
        """Return whether the answer of the subscription [x1, x2] changes to `value`; either end may be infinite."""
        x1, x2 = max(x1, -LARGEST), min(x2, LARGEST)
        return self.outer_low < x1 <= self.inner_low and self.inner_high <= x2 < self.outer_high

    def answer(self, x1: float, x2: float) -> Any:
        """Return the new answer of an affected subscription: the same for all."""
        return self.value


@dataclass(frozen=True, eq=False)
class Messages:
    """Many messages, one array per field; iterating yields `Message`s.

    Attributes:
        change: int64[k]: the index of the change in the call; −1 where a message is the net effect of all of them.
        value, inner_low, inner_high, outer_low, outer_high: float64[k].
    """

    change: NDArray[np.int64]
    value: NDArray[np.float64]
    inner_low: NDArray[np.float64]
    inner_high: NDArray[np.float64]
    outer_low: NDArray[np.float64]
    outer_high: NDArray[np.float64]

    @classmethod
    def of(cls, change: NDArray[np.int64], lines: NDArray[np.float64]) -> Messages:
        """Return messages from lines (value, inner_low, inner_high, outer_low, outer_high), float64[k, 5]."""
        return cls(change, *np.ascontiguousarray(lines.T))

    @property
    def lines(self) -> NDArray[np.float64]:
        """Return float64[k, 5]: value, inner_low, inner_high, outer_low, outer_high."""
        parts = (self.value, self.inner_low, self.inner_high, self.outer_low, self.outer_high)
        return np.ascontiguousarray(np.stack(parts, axis=1))

    def take(self, which: NDArray[Any]) -> Messages:
        """Return some of the messages, by index or mask."""
        return Messages.of(self.change[which], self.lines[which])

    def __len__(self) -> int:
        return len(self.value)

    def __iter__(self) -> Iterator[Message]:
        return (Message(*line) for line in self.lines.tolist())
