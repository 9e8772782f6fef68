"""Finds which of many boxes contain a point: a balanced k-d tree over the ends of the boxes, in arrays.

A box of d dimensions is a point of 2d coordinates, lows first, then highs; the boxes that contain x are those with
every low ≤ x ≤ high, an orthogonal range. Halved at the median of each coordinate in turn, n boxes answer in O(n^(1 −
1/2d) + k) for k results, whatever the boxes look like: √n for one dimension. Building takes O(n log n).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tolerant.kernels.compiled import compiled

LEAF = 16
"""Largest number of boxes per leaf: with fewer, descending costs more than the comparisons it saves."""


@dataclass(frozen=True, eq=False)
class BoxTree:
    """A fixed set of boxes.

    `ends` int64[n, 2d] and `entries` int64[n] are in the order of the tree. `bounds` int64[nodes, 4d] are the smallest
    and the largest ends of a node. Node i has the children 2i + 1 and 2i + 2, each with one half of its boxes.
    """

    ends: NDArray[np.int64]
    entries: NDArray[np.int64]
    bounds: NDArray[np.int64]
    depth: int

    @classmethod
    def of(cls, ends: NDArray[np.int64], entries: NDArray[np.int64]) -> BoxTree:
        """Build the tree of these boxes; it takes ownership of the arrays and reorders them."""
        depth = max(0, (len(entries) - 1) // LEAF).bit_length()
        bounds = np.empty(((2 << depth) - 1, 2 * ends.shape[1]), np.int64)
        _build(ends, entries, bounds, depth)
        return cls(ends, entries, bounds, depth)

    def __len__(self) -> int:
        return len(self.entries)

    def containing(
        self, points: NDArray[np.int64], alive: NDArray[np.bool_]
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """For points int64[m, d], return the pairs (point, entry) of each point and the boxes that contain it and are
        alive, in the order of the points.
        """
        return _containing(self.ends, self.entries, self.bounds, self.depth, points, alive)


@compiled
def _swap(ends: NDArray[np.int64], entries: NDArray[np.int64], i: int, j: int) -> None:
    entries[i], entries[j] = entries[j], entries[i]
    for c in range(ends.shape[1]):
        ends[i, c], ends[j, c] = ends[j, c], ends[i, c]


@compiled
def _halve(ends: NDArray[np.int64], entries: NDArray[np.int64], start: int, end: int, nth: int, c: int) -> None:
    """Order [start, end) by coordinate c so that nothing before `nth` is larger than it, and nothing behind it smaller.

    Hoare's selection: it stops at equal keys, so that many equal keys do not make it slower.
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
def _contains(ends: NDArray[np.int64], point: NDArray[np.int64]) -> bool:
    d = len(point)
    inside = True
    for c in range(d):
        inside &= ends[c] <= point[c] <= ends[d + c]
    return inside


@compiled
def _apart(bounds: NDArray[np.int64], point: NDArray[np.int64]) -> bool:
    """Whether no box of the node contains the point: the smallest low is above it, or the largest high below."""
    d = len(point)
    apart = False
    for c in range(d):
        apart |= bounds[c] > point[c] or bounds[3 * d + c] < point[c]
    return apart


@compiled
def _inside(bounds: NDArray[np.int64], point: NDArray[np.int64]) -> bool:
    """Whether every box of the node contains the point: no low is above it, and no high is below it."""
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
def _containing(
    ends: NDArray[np.int64],
    entries: NDArray[np.int64],
    bounds: NDArray[np.int64],
    depth: int,
    points: NDArray[np.int64],
    alive: NDArray[np.bool_],
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    matched, boxes = np.empty(64, np.int64), np.empty(64, np.int64)
    stack = np.empty((depth + 2, 3), np.int64)
    leaves = (1 << depth) - 1  # number of the first leaf
    size = 0
    for row in range(len(points)):
        point = points[row]
        stack[0, 0], stack[0, 1], stack[0, 2] = 0, 0, len(entries)
        pending = 1
        while pending:
            pending -= 1
            node, start, end = stack[pending]
            if _apart(bounds[node], point):
                continue
            all_contain = _inside(bounds[node], point)
            if all_contain or node >= leaves:
                matched, boxes = _grown(matched, size + end - start), _grown(boxes, size + end - start)
                for i in range(start, end):
                    if alive[entries[i]] and (all_contain or _contains(ends[i], point)):
                        matched[size] = row
                        boxes[size] = entries[i]
                        size += 1
                continue
            middle = (start + end) // 2
            stack[pending, 0], stack[pending, 1], stack[pending, 2] = 2 * node + 2, middle, end
            pending += 1
            stack[pending, 0], stack[pending, 1], stack[pending, 2] = 2 * node + 1, start, middle
            pending += 1
    return matched[:size].copy(), boxes[:size].copy()
