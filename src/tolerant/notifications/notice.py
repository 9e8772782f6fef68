"""Packs the messages of one change in place into one notice: the whole hull, for the affected range (§2.6)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from tolerant.notifications.message import LARGEST, Message
from tolerant.notifications.plain_search import tiles

LIMIT = 8
"""Largest number of messages for which packing saves bytes too: every receiver gets the whole list."""


class Notice(NamedTuple):
    """The new answer of all ranges in (outer_low, x] × [x, outer_high): the best of `value` and the points inside.

    `points`: the places and heights of the exposed rows; lower than `value` for a minimum, higher for a maximum.

    >>> notice = Notice(50, 20, 100, 9, ((30, 8), (70, 6)))
    >>> notice.affects(25, 60), notice.answer(25, 60), notice.answer(35, 80), notice.answer(45, 60)
    (True, 8, 6, 9)
    """

    x: float
    outer_low: float
    outer_high: float
    value: float
    points: tuple[tuple[float, float], ...]

    def affects(self, x1: float, x2: float) -> bool:
        """Return whether the answer of the subscription [x1, x2] changes."""
        x1, x2 = max(x1, -LARGEST), min(x2, LARGEST)
        return self.outer_low < x1 <= self.x <= x2 < self.outer_high

    def answer(self, x1: float, x2: float) -> float:
        """Return the new answer of an affected subscription."""
        best = max if any(y > self.value for _, y in self.points) else min
        return best([self.value, *(y for x, y in self.points if x1 <= x <= x2)])

    def split(self) -> list[Message]:
        """Return the equivalent messages, one per height."""
        sign = -1 if any(y > self.value for _, y in self.points) else 1
        left = [(x, sign * y) for x, y in self.points if x < self.x]
        right = [(x, sign * y) for x, y in self.points if x > self.x]
        lines = tiles(self.x, sign * self.value, left, right, self.outer_low, self.outer_high)
        return [Message(sign * line[0], line[1], line[2], line[3], line[4]) for line in lines]


def pack(messages: Iterable[Message], limit: int = LIMIT) -> list[Notice | Message]:
    """Return one `Notice` if the messages come from one change in place and number 2 to `limit`; else the messages.

    >>> pack([Message(9, 50, 50, 30, 70), Message(8, 30, 50, 20, 70), Message(6, 50, 70, 20, 100)])
    [Notice(x=50, outer_low=20, outer_high=100, value=9, points=((30, 8), (70, 6)))]
    """
    messages = list(messages)
    if 2 <= len(messages) <= limit:
        first = messages[0]
        x = first.inner_low
        points = tuple((m.inner_high if m.inner_low == x else m.inner_low, m.value) for m in messages[1:])
        low, high = min(m.outer_low for m in messages), max(m.outer_high for m in messages)
        notice = Notice(x, low, high, first.value, points)
        if not any(m.gone for m in messages) and notice.split() == messages:
            return [notice]
    return [*messages]
