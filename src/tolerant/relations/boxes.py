"""Which of many boxes hold a point: a balanced k-d tree over the boxes' ends, in arrays.

A box of d dimensions is a point of 2d coordinates, lows first, then highs; the boxes that hold x are those with every
low ≤ x ≤ high, an orthogonal range. Halved at the median of each coordinate in turn, n boxes answer in
O(n^(1 − 1/2d) + k) for k found, whatever the boxes look like: √n for one dimension. Building takes O(n log n).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tolerant.kernels.compiled import compiled

LEAF = 16
"""Boxes in a leaf, at most: fewer cost more in steps than they save in comparisons."""


@dataclass(frozen=True, eq=False)
class BoxTree:
    """Boxes that do not change. `ends` int64[n, 2d] and `entries` int64[n] in the tree's order; `bounds`
    int64[nodes, 4d]: a node's smallest and largest ends. Children of node i: 2i + 1 and 2i + 2, each with one half.
    """

    ends: NDArray[np.int64]
    entries: NDArray[np.int64]
    bounds: NDArray[np.int64]
    depth: int

    @classmethod
    def of(cls, ends: NDArray[np.int64], entries: NDArray[np.int64]) -> BoxTree:
        """The tree of these boxes; the arrays are its own from now on."""
        depth = max(0, (len(entries) - 1) // LEAF).bit_length()
        bounds = np.empty(((2 << depth) - 1, 2 * ends.shape[1]), np.int64)
        _build(ends, entries, bounds, depth)
        return cls(ends, entries, bounds, depth)

    def __len__(self) -> int:
        return len(self.entries)

    def holding(
        self, points: NDArray[np.int64], alive: NDArray[np.bool_]
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """For points int64[m, d]: pairs (point, entry) of a box that holds it and is alive, in the order of the
        points.
        """
        return _holding(self.ends, self.entries, self.bounds, self.depth, points, alive)


@compiled
def _swap(ends: NDArray[np.int64], entries: NDArray[np.int64], i: int, j: int) -> None:
    entries[i], entries[j] = entries[j], entries[i]
    for c in range(ends.shape[1]):
        ends[i, c], ends[j, c] = ends[j, c], ends[i, c]


@compiled
def _halve(ends: NDArray[np.int64], entries: NDArray[np.int64], start: int, end: int, nth: int, c: int) -> None:
    """Order [start, end) so that what stands before `nth` is at most, and behind it at least, in coordinate c (Hoare's
    selection: it stops at equals, so that many equal ones cost no more).
    """
    low, high = start, end - 1
    while low < high:
        middle = (low + high) // 2
        a, b, m = ends[low, c], ends[high, c], ends[middle, c]
        pivot = max(min(a, b), min(max(a, b), m))
        i, j = low, high
        while i <= j:
            while ends[i, c] < pivot:
                i += 1
            while ends[j, c] > pivot:
                j -= 1
            if i <= j:
                _swap(ends, entries, i, j)
                i += 1
                j -= 1
        if nth <= j:
            high = j
        elif nth >= i:
            low = i
        else:
            return


@compiled
def _bound(ends: NDArray[np.int64], start: int, end: int, bounds: NDArray[np.int64]) -> None:
    width = ends.shape[1]
    for c in range(width):
        least = most = ends[start, c]
        for i in range(start + 1, end):
            least = min(least, ends[i, c])
            most = max(most, ends[i, c])
        bounds[c] = least
        bounds[width + c] = most


@compiled
def _build(ends: NDArray[np.int64], entries: NDArray[np.int64], bounds: NDArray[np.int64], depth: int) -> None:
    spans = np.empty((len(bounds), 2), np.int64)
    spans[0, 0], spans[0, 1] = 0, len(entries)
    level, past = 0, 1  # the first node of the next level
    for node in range(len(bounds)):
        if node == past:
            level, past = level + 1, 2 * past + 1
        start, end = spans[node]
        _bound(ends, start, end, bounds[node])
        if level < depth:
            middle = (start + end) // 2
            _halve(ends, entries, start, end, middle, level % ends.shape[1])
            spans[2 * node + 1, 0], spans[2 * node + 1, 1] = start, middle
            spans[2 * node + 2, 0], spans[2 * node + 2, 1] = middle, end


@compiled
def _holds(ends: NDArray[np.int64], point: NDArray[np.int64]) -> bool:
    d = len(point)
    held = True
    for c in range(d):
        held &= ends[c] <= point[c] <= ends[d + c]
    return held


@compiled
def _apart(bounds: NDArray[np.int64], point: NDArray[np.int64]) -> bool:
    """No box of the node holds the point: the smallest low is above it, or the largest high below."""
    d = len(point)
    apart = False
    for c in range(d):
        apart |= bounds[c] > point[c] or bounds[3 * d + c] < point[c]
    return apart


@compiled
def _inside(bounds: NDArray[np.int64], point: NDArray[np.int64]) -> bool:
    """Every box of the node holds the point: the largest low is not above it, nor the smallest high below."""
    d = len(point)
    inside = True
    for c in range(d):
        inside &= bounds[2 * d + c] <= point[c] <= bounds[d + c]
    return inside


@compiled
def _grown(array: NDArray[np.int64], needed: int) -> NDArray[np.int64]:
    if needed <= len(array):
        return array
    larger = np.empty(2 * needed, np.int64)
    larger[: len(array)] = array
    return larger


@compiled
def _holding(
    ends: NDArray[np.int64],
    entries: NDArray[np.int64],
    bounds: NDArray[np.int64],
    depth: int,
    points: NDArray[np.int64],
    alive: NDArray[np.bool_],
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    events, found = np.empty(64, np.int64), np.empty(64, np.int64)
    stack = np.empty((depth + 2, 3), np.int64)
    leaves = (1 << depth) - 1  # the number of the first leaf
    size = 0
    for event in range(len(points)):
        point = points[event]
        stack[0, 0], stack[0, 1], stack[0, 2] = 0, 0, len(entries)
        waiting = 1
        while waiting:
            waiting -= 1
            node, start, end = stack[waiting]
            if _apart(bounds[node], point):
                continue
            whole = _inside(bounds[node], point)
            if whole or node >= leaves:
                events, found = _grown(events, size + end - start), _grown(found, size + end - start)
                for i in range(start, end):
                    if alive[entries[i]] and (whole or _holds(ends[i], point)):
                        events[size] = event
                        found[size] = entries[i]
                        size += 1
                continue
            middle = (start + end) // 2
            stack[waiting, 0], stack[waiting, 1], stack[waiting, 2] = 2 * node + 2, middle, end
            waiting += 1
            stack[waiting, 0], stack[waiting, 1], stack[waiting, 2] = 2 * node + 1, start, middle
            waiting += 1
    return events[:size].copy(), found[:size].copy()
