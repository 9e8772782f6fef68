"""Finds which of many ranges contain a value: ranges by increasing low, with a tree of the largest highs
(docs/design/joins.md §2.6).

[DISS] uses a priority search tree. Here the ranges with low ≤ x are a prefix, and blocks of it whose largest high is
below x are skipped, in larger and larger steps: close to O(log n + k).
"""

from __future__ import annotations

import numpy as np

from tolerant.kernels.array_types import Floats
from tolerant.kernels.compiled import compiled_no_refcount

FANOUT_BITS = 3
FANOUT = 1 << FANOUT_BITS


def tree_size(count: int) -> int:
    """Return the number of blocks in all levels above `count` entries.

    >>> tree_size(0), tree_size(8), tree_size(9)
    (0, 1, 3)
    """
    size = 0
    while count > 0:
        count = (count + FANOUT - 1) >> FANOUT_BITS
        size += count
        if count == 1:
            break
    return size


@compiled_no_refcount
def maxima_of(high: Floats, tree: Floats) -> None:
    """Fill the tree: the largest high of each block of eight entries, then of each eight blocks, up to one."""
    count = (len(high) + 7) >> 3
    for block in range(count):
        largest = -np.inf
        for i in range(block * 8, min(block * 8 + 8, len(high))):
            largest = max(largest, high[i])
        tree[block] = largest
    below = 0
    while count > 1:
        above = below + count
        fewer = (count + 7) >> 3
        for block in range(fewer):
            largest = -np.inf
            for i in range(below + block * 8, below + min(block * 8 + 8, count)):
                largest = max(largest, tree[i])
            tree[above + block] = largest
        below, count = above, fewer


@compiled_no_refcount
def next_at_least(high: Floats, tree: Floats, at: int, stop: int, x: float) -> int:
    """Return the first entry in [at, stop) whose high is ≥ x, else `stop` or a larger number."""
    size = len(high)
    while at < stop:
        if at & 7 == 0:
            block, offset, count, span = at >> 3, 0, (size + 7) >> 3, 8
            if tree[block] < x:
                # Skip the largest block that begins here and contains nothing.
                while block & 7 == 0 and count > 1:
                    above = offset + count
                    if tree[above + (block >> 3)] >= x:
                        break
                    block >>= 3
                    offset = above
                    count = (count + 7) >> 3
                    span <<= 3
                at += span
                continue
        if high[at] >= x:
            return at
        at += 1
    return stop


def maxima(high: Floats) -> Floats:
    """Return the tree of largest highs over ranges that are sorted by low."""
    tree = np.empty(tree_size(len(high)))
    maxima_of(high, tree)
    return tree
