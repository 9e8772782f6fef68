"""Identical subscriptions as one unit with a count: some optimum keeps them together (`docs/design/merging.md`
§2.4).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tolerant.kernels.array_types import Floats, Integers
from tolerant.kernels.compiled import compiled
from tolerant.kernels.random import mixed


@dataclass(frozen=True)
class Units:
    """Distinct rectangles (and periods), numbered by their first query.

    `boxes` float[k, 2d], `counts` float[k] queries each, `periods` int[k], `of` int[n]: the unit of each query.
    """

    boxes: Floats
    counts: Floats
    periods: Integers
    of: Integers

    def __len__(self) -> int:
        return len(self.boxes)


def collapsed(rectangles: Floats, periods: Integers | None = None) -> Units:
    """Return the units of these queries, in O(n)."""
    every = np.ones(len(rectangles), np.int64) if periods is None else periods
    keys = rectangles if periods is None else np.column_stack([rectangles, periods.astype(np.float64)])
    of, first = _numbered(np.ascontiguousarray(keys).view(np.uint64))
    counts = np.bincount(of, minlength=len(first)).astype(np.float64)
    return Units(np.ascontiguousarray(rectangles[first]), counts, every[first], of)


def separate(rectangles: Floats, periods: Integers | None = None) -> Units:
    """Return every query as a unit of its own."""
    n = len(rectangles)
    every = np.ones(n, np.int64) if periods is None else periods
    return Units(rectangles, np.ones(n), every, np.arange(n))


def expanded(units: Units, labels: Integers) -> tuple[tuple[int, ...], ...]:
    """Return groups of queries from a label per unit: members ascending, groups by first member.

    >>> expanded(separate(np.zeros((3, 4))), np.array([7, 5, 7]))
    ((0, 2), (1,))
    """
    of = labels[units.of]
    if len(of) == 0:
        return ()
    order = np.argsort(of, kind="stable")
    starts = np.flatnonzero(np.diff(of[order], prepend=of[order[0]] - 1))
    by_first = np.argsort(order[starts], kind="stable")
    ends = np.append(starts[1:], len(order))
    members = order.tolist()
    pairs = zip(starts[by_first].tolist(), ends[by_first].tolist(), strict=True)
    return tuple(tuple(members[start:end]) for start, end in pairs)


@compiled
def _numbered(words: NDArray[np.uint64]) -> tuple[Integers, Integers]:
    """Give equal rows equal numbers, counted from the first row on; returns the numbers, and the first row of each."""
    n, width = words.shape
    capacity = 16
    while capacity < 2 * n:
        capacity *= 2
    slots = np.full(capacity, -1, np.int64)
    of, first, used = np.empty(n, np.int64), np.empty(n, np.int64), 0
    for i in range(n):
        word = np.uint64(0)
        for c in range(width):
            word = mixed(word ^ words[i, c])
        place = np.int64(word & np.uint64(capacity - 1))
        while slots[place] >= 0:
            other = first[slots[place]]
            same = True
            for c in range(width):
                same = same and words[i, c] == words[other, c]
            if same:
                break
            place = (place + 1) & (capacity - 1)
        if slots[place] < 0:
            slots[place] = used
            first[used] = i
            used += 1
        of[i] = slots[place]
    return of, first[:used].copy()
