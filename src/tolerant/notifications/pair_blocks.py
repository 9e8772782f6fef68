"""Implements the flat index: an ordered multiset of pairs (x, y) in blocks, with minima per block and run (§2.7).

Pairs are sorted by x, then y, so that the lowest row at an x is the first of its group. The directory lists the blocks
in order; every step of a search is a scan of adjacent memory. A block stays in place while the directory moves.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tolerant.kernels.compiled import compiled, compiled_no_refcount
from tolerant.notifications.range_arguments import Floats, Integers

SIZE = 128
"""Pairs that a block holds."""
RUN = 64
"""Directory entries that share a minimum."""
FILL = 96
"""Pairs per block after loading, which leaves room before most blocks split."""
FEW = SIZE // 4
"""A block with fewer pairs merges with a neighbour where both fit into three quarters of one."""

ROWS, USED = 0, 1


class PairBlocks(NamedTuple):
    """The arrays of the index. `order[: sizes[USED]]` are the blocks in order of their pairs, the rest are free."""

    xs: Floats  # [blocks, SIZE]
    ys: Floats  # [blocks, SIZE]
    counts: Integers  # pairs of each block
    order: Integers  # the directory: which block comes k-th
    first_x: Floats  # first pair of the k-th block
    first_y: Floats
    low: Floats  # smallest y of the k-th block
    runs: Floats  # smallest y of RUN directory entries
    sizes: Integers  # rows, blocks in use


def blank(blocks: int) -> PairBlocks:
    """Return an empty index with room for this many blocks."""
    return PairBlocks(
        np.zeros((blocks, SIZE)), np.zeros((blocks, SIZE)), np.zeros(blocks, np.int64), np.arange(blocks),
        np.zeros(blocks), np.zeros(blocks), np.zeros(blocks), np.zeros(blocks // RUN + 1), np.zeros(2, np.int64),
    )  # fmt: skip


def loaded(xs: Floats, ys: Floats) -> PairBlocks:
    """Return an index of pairs that are sorted already."""
    blocks = blank(len(xs) // FILL * 9 // 8 + 4)
    _fill(blocks, xs, ys)
    return blocks


def resized(old: PairBlocks, blocks: int) -> PairBlocks:
    """Return the same pairs with room for `blocks` blocks, stored in their order."""
    new, used = blank(blocks), int(old.sizes[USED])
    order = old.order[:used]
    new.xs[:used], new.ys[:used], new.counts[:used] = old.xs[order], old.ys[order], old.counts[order]
    new.first_x[:used], new.first_y[:used], new.low[:used] = old.first_x[:used], old.first_y[:used], old.low[:used]
    new.sizes[:] = old.sizes
    remake_runs(new, 0)
    return new


@compiled_no_refcount
def _fill(b: PairBlocks, xs: Floats, ys: Floats) -> None:
    n = len(xs)
    used = (n + FILL - 1) // FILL
    for k in range(used):
        begin = k * FILL
        size = min(FILL, n - begin)
        for i in range(size):
            b.xs[k, i] = xs[begin + i]
            b.ys[k, i] = ys[begin + i]
        b.counts[k] = size
        b.first_x[k], b.first_y[k] = xs[begin], ys[begin]
        b.low[k] = _smallest(b, k)
    b.sizes[ROWS], b.sizes[USED] = n, used
    remake_runs(b, 0)


@compiled
def pairs(b: PairBlocks) -> tuple[Floats, Floats]:
    """Return all pairs in order: xs, ys."""
    xs, ys = np.empty(b.sizes[ROWS]), np.empty(b.sizes[ROWS])
    at = 0
    for k in range(b.sizes[USED]):
        block = b.order[k]
        size = b.counts[block]
        for i in range(size):
            xs[at + i] = b.xs[block, i]
            ys[at + i] = b.ys[block, i]
        at += size
    return xs, ys


@compiled_no_refcount
def remake_runs(b: PairBlocks, run: int) -> None:
    """Recompute the minima of this run and all later ones."""
    used = b.sizes[USED]
    for r in range(run, used // RUN + 1):
        lowest = np.inf
        for k in range(r * RUN, min((r + 1) * RUN, used)):
            lowest = min(lowest, b.low[k])
        b.runs[r] = lowest


@compiled_no_refcount
def _smallest(b: PairBlocks, k: int) -> float:
    block = b.order[k]
    lowest = np.inf
    for i in range(b.counts[block]):
        lowest = min(lowest, b.ys[block, i])
    return lowest


@compiled_no_refcount
def block_of(b: PairBlocks, x: float, y: float) -> int:
    """Return the last directory entry whose first pair is at most (x, y); 0 if none is."""
    low, high = 0, b.sizes[USED]
    while low < high:
        middle = (low + high) >> 1
        if b.first_x[middle] < x or (b.first_x[middle] == x and b.first_y[middle] <= y):
            low = middle + 1
        else:
            high = middle
    return max(low - 1, 0)


@compiled_no_refcount
def place_in(b: PairBlocks, block: int, x: float, y: float) -> int:
    """Return the first place in a block whose pair is at least (x, y)."""
    low, high = 0, b.counts[block]
    while low < high:
        middle = (low + high) >> 1
        if b.xs[block, middle] < x or (b.xs[block, middle] == x and b.ys[block, middle] < y):
            low = middle + 1
        else:
            high = middle
    return low


@compiled_no_refcount
def insert(b: PairBlocks, x: float, y: float) -> None:
    """Add a pair. One block must be free."""
    if b.sizes[USED] == 0:
        b.sizes[USED] = 1
        b.counts[b.order[0]] = 0
        b.low[0] = b.runs[0] = np.inf
    k = block_of(b, x, y)
    if b.counts[b.order[k]] == SIZE:
        _split(b, k)
        if b.first_x[k + 1] < x or (b.first_x[k + 1] == x and b.first_y[k + 1] <= y):
            k += 1
    block = b.order[k]
    i = place_in(b, block, x, y)
    for j in range(b.counts[block], i, -1):
        b.xs[block, j] = b.xs[block, j - 1]
        b.ys[block, j] = b.ys[block, j - 1]
    b.xs[block, i] = x
    b.ys[block, i] = y
    b.counts[block] += 1
    b.sizes[ROWS] += 1
    if i == 0:
        b.first_x[k], b.first_y[k] = x, y
    if y < b.low[k]:
        b.low[k] = y
        b.runs[k // RUN] = min(b.runs[k // RUN], y)


@compiled_no_refcount
def remove(b: PairBlocks, x: float, y: float) -> None:
    """Remove one pair, which must be present."""
    k = block_of(b, x, y)
    block = b.order[k]
    i = place_in(b, block, x, y)
    b.counts[block] -= 1
    b.sizes[ROWS] -= 1
    size = b.counts[block]
    for j in range(i, size):
        b.xs[block, j] = b.xs[block, j + 1]
        b.ys[block, j] = b.ys[block, j + 1]
    if size == 0:
        _drop(b, k)
        return
    if i == 0:
        b.first_x[k], b.first_y[k] = b.xs[block, 0], b.ys[block, 0]
    if y == b.low[k]:
        b.low[k] = _smallest(b, k)
        _remake_run(b, k // RUN)
    if size < FEW:
        _join_a_neighbour(b, k)


@compiled_no_refcount
def _remake_run(b: PairBlocks, run: int) -> None:
    lowest = np.inf
    for k in range(run * RUN, min((run + 1) * RUN, b.sizes[USED])):
        lowest = min(lowest, b.low[k])
    b.runs[run] = lowest


@compiled_no_refcount
def _split(b: PairBlocks, k: int) -> None:
    """Halve the k-th block; the upper half becomes the next entry."""
    used = b.sizes[USED]
    free = b.order[used]
    for j in range(used, k + 1, -1):
        b.order[j] = b.order[j - 1]
        b.first_x[j], b.first_y[j], b.low[j] = b.first_x[j - 1], b.first_y[j - 1], b.low[j - 1]
    block, half = b.order[k], SIZE // 2
    b.order[k + 1] = free
    for i in range(SIZE - half):
        b.xs[free, i] = b.xs[block, half + i]
        b.ys[free, i] = b.ys[block, half + i]
    b.counts[block], b.counts[free] = half, SIZE - half
    b.first_x[k + 1], b.first_y[k + 1] = b.xs[free, 0], b.ys[free, 0]
    b.low[k], b.low[k + 1] = _smallest(b, k), _smallest(b, k + 1)
    b.sizes[USED] = used + 1
    remake_runs(b, k // RUN)


@compiled_no_refcount
def _drop(b: PairBlocks, k: int) -> None:
    """Remove the k-th block from the directory and free it."""
    used = b.sizes[USED]
    block = b.order[k]
    for j in range(k, used - 1):
        b.order[j] = b.order[j + 1]
        b.first_x[j], b.first_y[j], b.low[j] = b.first_x[j + 1], b.first_y[j + 1], b.low[j + 1]
    b.order[used - 1] = block
    b.sizes[USED] = used - 1
    remake_runs(b, k // RUN)


@compiled_no_refcount
def _join_a_neighbour(b: PairBlocks, k: int) -> None:
    size = b.counts[b.order[k]]
    if k + 1 < b.sizes[USED] and size + b.counts[b.order[k + 1]] <= FILL:
        _join(b, k)
    elif k > 0 and size + b.counts[b.order[k - 1]] <= FILL:
        _join(b, k - 1)


@compiled_no_refcount
def _join(b: PairBlocks, k: int) -> None:
    """Append the pairs of entry k + 1 to those of entry k."""
    into, other = b.order[k], b.order[k + 1]
    begin, size = b.counts[into], b.counts[other]
    for i in range(size):
        b.xs[into, begin + i] = b.xs[other, i]
        b.ys[into, begin + i] = b.ys[other, i]
    b.counts[into] = begin + size
    b.low[k] = min(b.low[k], b.low[k + 1])
    _drop(b, k + 1)
