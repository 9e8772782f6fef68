"""Computes the same messages as `row_changes.py` in plain, readable Python over any index (§2.3 to §2.5).

It serves the indexes that exist for comparison (`a2b_tree.py`, `scan.py`), and tests check the compiled one against it.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import inf
from typing import Protocol

Line = tuple[float, float, float, float, float]
"""value, inner_low, inner_high, outer_low, outer_high."""
Point = tuple[float, float]
"""A place and the smallest height there."""


class Index(Protocol):
    """An ordered multiset of pairs (x, y)."""

    def insert(self, x: float, y: float) -> None:
        """Add a pair."""

    def remove(self, x: float, y: float) -> None:
        """Remove one pair, which must be present."""

    def lowest_at(self, x: float) -> float:
        """Return the smallest y at x, +∞ if there is none."""

    def find_left(self, x: float, y: float, strict: bool = False) -> Point | None:
        """Return the nearest place left of x with a height ≤ y (< y if strict), and the smallest height there."""

    def find_right(self, x: float, y: float, strict: bool = False) -> Point | None:
        """Return the nearest place right of x with a height ≤ y (< y if strict), and the smallest height there."""

    def minimum(self, x1: float, x2: float) -> float:
        """Return the smallest y with x1 ≤ x ≤ x2, +∞ if there is none."""

    def pairs(self) -> Iterator[Point]:
        """Return all pairs, sorted."""


def change(index: Index, x_o: float, y_o: float, x_n: float, y_n: float) -> list[Line]:
    """Apply a change to the index; return its messages. An absent row has the height +∞."""
    had, has = y_o < inf, y_n < inf
    moves, rises = had and has and x_o != x_n, y_n > y_o
    if not (had or has) or (had and has and (x_o, y_o) == (x_n, y_n)):
        return []
    if had:
        index.remove(x_o, y_o)
    arrives = affected_range(index, x_n, y_n) if has and (moves or not rises) else None
    if has:
        index.insert(x_n, y_n)
    lines: list[Line] = []
    if had and (moves or rises) and (peak := index.lowest_at(x_o)) > y_o:
        wall = moves and not rises
        walls = x_n if wall and x_n < x_o else -inf, x_n if wall and x_o < x_n else inf
        lines = _leaving(index, x_o, peak, y_o, *walls)
    if arrives is None:
        return lines
    low, high = arrives
    if moves and y_n >= y_o:  # a range with both places gets the new answer from the message about the old place
        low, high = (max(low, x_o), high) if x_o < x_n else (low, min(high, x_o))
    return _merged(lines, (y_n, x_n, x_n, low, high), x_o < x_n)


def affected_range(index: Index, x: float, y: float) -> Point | None:
    """Return Mar(x, y): the largest open interval around x without a row of height ≤ y (Definition 7)."""
    if index.lowest_at(x) <= y:
        return None
    left, right = index.find_left(x, y), index.find_right(x, y)
    return left[0] if left else -inf, right[0] if right else inf


def _leaving(index: Index, x: float, peak: float, floor: float, wall_left: float, wall_right: float) -> list[Line]:
    """Return a row at x left the height `floor`; `peak` is the lowest there now (Definition 8, Theorem 17)."""
    left, right, place, height = [], [], x, peak
    while (nearest := index.find_left(place, height, strict=True)) and nearest[0] > wall_left and nearest[1] > floor:
        left.append(nearest)
        place, height = nearest
    x_l = max(nearest[0], wall_left) if nearest else wall_left
    place, height = x, peak
    while (nearest := index.find_right(place, height, strict=True)) and nearest[0] < wall_right and nearest[1] > floor:
        right.append(nearest)
        place, height = nearest
    x_r = min(nearest[0], wall_right) if nearest else wall_right
    return tiles(x, peak, left, right, x_l, x_r)


def tiles(x: float, peak: float, left: list[Point], right: list[Point], x_l: float, x_r: float) -> list[Line]:
    """Return the rectangle of each hull point: EMar. Of equal heights the left point covers ranges that
    contain both.
    """
    lines: list[Line] = [(peak, x, x, left[0][0] if left else x_l, right[0][0] if right else x_r)]
    for i, (place, height) in enumerate(left):
        begin = left[i + 1][0] if i + 1 < len(left) else x_l
        lines.append((height, place, x, begin, next((at for at, y in right if y < height), x_r)))
    for j, (place, height) in enumerate(right):
        end = right[j + 1][0] if j + 1 < len(right) else x_r
        lines.append((height, x, place, next((at for at, y in left if y <= height), x_l), end))
    return lines


def _merged(lines: list[Line], arriving: Line, right: bool) -> list[Line]:
    """Return the lines, merged with the message about the new place where it is an exposed row with the same bounds."""
    value, x, _, low, high = arriving
    for line in lines[1:]:
        if right and (line[0], line[1], line[2], line[4]) == (value, low, x, high):
            return [*(other for other in lines if other is not line), (value, x, x, line[3], high)]
        if not right and (line[0], line[1], line[2], line[3]) == (value, x, high, low):
            return [*(other for other in lines if other is not line), (value, x, x, low, line[4])]
    return [*lines, arriving]
