"""Implements the baseline of [DISS]: scans sorted rows outwards from the change, O(log n + affected rows)."""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterable, Iterator
from math import inf

from tolerant.notifications.plain_search import Point


class Scan:
    """Pairs in one sorted list.

    >>> Scan([(1, 5), (2, 3), (4, 2)]).find_left(4, 4)
    (2, 3)
    """

    def __init__(self, pairs: Iterable[Point] = ()) -> None:
        self._pairs = sorted(pairs)

    def insert(self, x: float, y: float) -> None:
        """Add a pair."""
        insort(self._pairs, (x, y))

    def remove(self, x: float, y: float) -> None:
        """Remove one pair, which must be present."""
        del self._pairs[bisect_left(self._pairs, (x, y))]

    def lowest_at(self, x: float) -> float:
        """Return the smallest y at x, +∞ if there is none."""
        at = bisect_left(self._pairs, (x, -inf))
        return self._pairs[at][1] if at < len(self._pairs) and self._pairs[at][0] == x else inf

    def find_left(self, x: float, y: float, strict: bool = False) -> Point | None:
        """Return the nearest place left of x with a height ≤ y (< y if strict), and the smallest height there."""
        for at in range(bisect_left(self._pairs, (x, -inf)) - 1, -1, -1):
            place, height = self._pairs[at]
            if height < y or (height == y and not strict):
                return place, self.lowest_at(place)
        return None

    def find_right(self, x: float, y: float, strict: bool = False) -> Point | None:
        """Return the nearest place right of x with a height ≤ y (< y if strict), and the smallest height there."""
        for at in range(bisect_right(self._pairs, (x, inf)), len(self._pairs)):
            place, height = self._pairs[at]
            if height < y or (height == y and not strict):
                return place, height
        return None

    def minimum(self, x1: float, x2: float) -> float:
        """Return the smallest y with x1 ≤ x ≤ x2, +∞ if there is none."""
        inside = self._pairs[bisect_left(self._pairs, (x1, -inf)) : bisect_right(self._pairs, (x2, inf))]
        return min((y for _, y in inside), default=inf)

    def pairs(self) -> Iterator[Point]:
        """Return all pairs, sorted."""
        return iter(self._pairs)
