"""Packed R-trees: rectangles (a_low, a_high, c_low, c_high) in an order that keeps near ones together, and bounding
boxes of each eight, each sixty-four, and so on. A forest has one tree per group of rectangles, all in the same arrays.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tolerant.joins.maxima_tree import FANOUT, tree_size
from tolerant.kernels.array_types import Floats, Integers
from tolerant.kernels.compiled import compiled


class Forest(NamedTuple):
    """Rectangles group by group; a removed one has a_low = NaN, so that it contains nothing."""

    box: Floats  # [n, 4]
    id: Integers
    starts: Integers  # of the groups' rectangles, [g + 1]
    node: Floats  # [nodes, 4]: bounding boxes of eight, level by level, a group's root last
    node_starts: Integers  # [g + 1]


def forest(box: Floats, ids: Integers, starts: Integers) -> Forest:
    """Build the trees over rectangles that are in their final order."""
    sizes = _tree_sizes(np.diff(starts))
    node_starts = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    node = np.empty((int(node_starts[-1]), 4))
    _enclose(box, starts, node, node_starts)
    return Forest(box, ids, starts, node, node_starts)


def tiled(box: Floats) -> Integers:
    """Return an order for one tree over all: slabs by the middle of c, in each by the middle of a
    (sort-tile-recursive).
    """
    if not len(box):
        return np.zeros(0, np.int64)
    by_c = np.argsort(middles(box[:, 2], box[:, 3]))
    slab = max(int(np.ceil(np.sqrt(len(box) / FANOUT))) * FANOUT, FANOUT)
    number = np.empty(len(box), np.int64)
    number[by_c] = np.arange(len(box)) // slab
    return np.lexsort((middles(box[:, 0], box[:, 1]), number))


def middles(low: Floats, high: Floats) -> Floats:
    """Return the middle of each range, for sorting only: infinite ends are clamped to the hull of the finite ones."""
    ends = np.concatenate([low[np.isfinite(low)], high[np.isfinite(high)]])
    least, most = (ends.min(), ends.max()) if len(ends) else (0.0, 0.0)
    return np.clip(low, least, most) / 2 + np.clip(high, least, most) / 2


def _tree_sizes(counts: Integers) -> Integers:
    known, where = np.unique(counts, return_inverse=True)
    return np.array([tree_size(int(count)) for count in known], np.int64)[where]


@compiled
def _cover(source: Floats, start: int, stop: int, node: Floats, at: int) -> None:
    """Write the bounding box of source[start:stop] to node[at]."""
    a_low, a_high, c_low, c_high = np.inf, -np.inf, np.inf, -np.inf
    for i in range(start, stop):
        a_low = min(a_low, source[i, 0])
        a_high = max(a_high, source[i, 1])
        c_low = min(c_low, source[i, 2])
        c_high = max(c_high, source[i, 3])
    node[at, 0], node[at, 1], node[at, 2], node[at, 3] = a_low, a_high, c_low, c_high


@compiled
def _enclose(box: Floats, starts: Integers, node: Floats, node_starts: Integers) -> None:
    for g in range(len(starts) - 1):
        count = (starts[g + 1] - starts[g] + 7) >> 3
        below = node_starts[g]
        for block in range(count):
            first = starts[g] + 8 * block
            _cover(box, first, min(first + 8, starts[g + 1]), node, below + block)
        while count > 1:
            fewer = (count + 7) >> 3
            for block in range(fewer):
                first = below + 8 * block
                _cover(node, first, min(first + 8, below + count), node, below + count + block)
            below += count
            count = fewer
