"""The flat index: an ordered multiset of pairs (x, y) in blocks, with minima over blocks and over runs of them (§2.7).

Pairs are sorted by x, then y, so that the lowest row at an x is the first of its group. The directory lists the blocks
in order; every step of a search is a scan of adjacent memory. A block stays in place while the directory moves.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tolerant.kernels.compiled import borrowing, compiled
from tolerant.notifications.arguments import Floats, Integers

SIZE = 128
"""Pairs that a block holds."""
RUN = 64
"""Directory entries that share a minimum."""
FILL = 96
"""Pairs of a block after loading: room for as many again as will do before most blocks split."""
FEW = SIZE // 4
"""A block with fewer pairs joins a neighbour where both fit into three quarters of one."""

ROWS, USED = 0, 1


class Blocks(NamedTuple):
    """The arrays of the index. `order[: sizes[USED]]` are the blocks in order of their pairs, the rest are free."""

    xs: Floats  # [blocks, SIZE]
    ys: Floats  # [blocks, SIZE]
    held: Integers  # pairs of each block
    order: Integers  # the directory: which block comes k-th
    first_x: Floats  # first pair of the k-th block
    first_y: Floats
    low: Floats  # smallest y of the k-th block
    runs: Floats  # smallest y of RUN directory entries
    sizes: Integers  # rows, blocks in use


def blank(blocks: int) -> Blocks:
    """An empty index with room for this many blocks."""
    return Blocks(
        np.zeros((blocks, SIZE)), np.zeros((blocks, SIZE)), np.zeros(blocks, np.int64), np.arange(blocks),
        np.zeros(blocks), np.zeros(blocks), np.zeros(blocks), np.zeros(blocks // RUN + 1), np.zeros(2, np.int64),
    )  # fmt: skip


def loaded(xs: Floats, ys: Floats) -> Blocks:
    """An index of pairs that are sorted already."""
    blocks = blank(len(xs) // FILL * 9 // 8 + 4)
    _fill(blocks, xs, ys)
    return blocks


def resized(old: Blocks, blocks: int) -> Blocks:
    """The same pairs with room for `blocks` blocks, which then stand in memory in their order."""
    new, used = blank(blocks), int(old.sizes[USED])
    order = old.order[:used]
    new.xs[:used], new.ys[:used], new.held[:used] = old.xs[order], old.ys[order], old.held[order]
    new.first_x[:used], new.first_y[:used], new.low[:used] = old.first_x[:used], old.first_y[:used], old.low[:used]
    new.sizes[:] = old.sizes
    remake_runs(new, 0)
    return new


@borrowing
def _fill(b: Blocks, xs: Floats, ys: Floats) -> None:
    n = len(xs)
    used = (n + FILL - 1) // FILL
    for k in range(used):
        begin = k * FILL
        size = min(FILL, n - begin)
        for i in range(size):
            b.xs[k, i] = xs[begin + i]
            b.ys[k, i] = ys[begin + i]
        b.held[k] = size
        b.first_x[k], b.first_y[k] = xs[begin], ys[begin]
        b.low[k] = _smallest(b, k)
    b.sizes[ROWS], b.sizes[USED] = n, used
    remake_runs(b, 0)


@compiled
def pairs(b: Blocks) -> tuple[Floats, Floats]:
    """All pairs in order: xs, ys."""
    xs, ys = np.empty(b.sizes[ROWS]), np.empty(b.sizes[ROWS])
    at = 0
    for k in range(b.sizes[USED]):
        block = b.order[k]
        size = b.held[block]
        for i in range(size):
            xs[at + i] = b.xs[block, i]
            ys[at + i] = b.ys[block, i]
        at += size
    return xs, ys


@borrowing
def remake_runs(b: Blocks, run: int) -> None:
    """Make the minima of this run and all later ones anew."""
    used = b.sizes[USED]
    for r in range(run, used // RUN + 1):
        lowest = np.inf
        for k in range(r * RUN, min((r + 1) * RUN, used)):
            lowest = min(lowest, b.low[k])
        b.runs[r] = lowest


@borrowing
def _smallest(b: Blocks, k: int) -> float:
    block = b.order[k]
    lowest = np.inf
    for i in range(b.held[block]):
        lowest = min(lowest, b.ys[block, i])
    return lowest


@borrowing
def block_of(b: Blocks, x: float, y: float) -> int:
    """The last directory entry whose first pair is at most (x, y); 0 if none is."""
    low, high = 0, b.sizes[USED]
    while low < high:
        middle = (low + high) >> 1
        if b.first_x[middle] < x or (b.first_x[middle] == x and b.first_y[middle] <= y):
            low = middle + 1
        else:
            high = middle
    return max(low - 1, 0)


@borrowing
def place_in(b: Blocks, block: int, x: float, y: float) -> int:
    """The first place in a block whose pair is at least (x, y)."""
    low, high = 0, b.held[block]
    while low < high:
        middle = (low + high) >> 1
        if b.xs[block, middle] < x or (b.xs[block, middle] == x and b.ys[block, middle] < y):
            low = middle + 1
        else:
            high = middle
    return low


@borrowing
def insert(b: Blocks, x: float, y: float) -> None:
    """Add a pair. One block must be free."""
    if b.sizes[USED] == 0:
        b.sizes[USED] = 1
        b.held[b.order[0]] = 0
        b.low[0] = b.runs[0] = np.inf
    k = block_of(b, x, y)
    if b.held[b.order[k]] == SIZE:
        _split(b, k)
        if b.first_x[k + 1] < x or (b.first_x[k + 1] == x and b.first_y[k + 1] <= y):
            k += 1
    block = b.order[k]
    i = place_in(b, block, x, y)
    for j in range(b.held[block], i, -1):
        b.xs[block, j] = b.xs[block, j - 1]
        b.ys[block, j] = b.ys[block, j - 1]
    b.xs[block, i] = x
    b.ys[block, i] = y
    b.held[block] += 1
    b.sizes[ROWS] += 1
    if i == 0:
        b.first_x[k], b.first_y[k] = x, y
    if y < b.low[k]:
        b.low[k] = y
        b.runs[k // RUN] = min(b.runs[k // RUN], y)


@borrowing
def remove(b: Blocks, x: float, y: float) -> None:
    """Take one pair out, which must be there."""
    k = block_of(b, x, y)
    block = b.order[k]
    i = place_in(b, block, x, y)
    b.held[block] -= 1
    b.sizes[ROWS] -= 1
    size = b.held[block]
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


@borrowing
def _remake_run(b: Blocks, run: int) -> None:
    lowest = np.inf
    for k in range(run * RUN, min((run + 1) * RUN, b.sizes[USED])):
        lowest = min(lowest, b.low[k])
    b.runs[run] = lowest


@borrowing
def _split(b: Blocks, k: int) -> None:
    """Halve the k-th block; the upper half becomes the entry behind it."""
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
    b.held[block], b.held[free] = half, SIZE - half
    b.first_x[k + 1], b.first_y[k + 1] = b.xs[free, 0], b.ys[free, 0]
    b.low[k], b.low[k + 1] = _smallest(b, k), _smallest(b, k + 1)
    b.sizes[USED] = used + 1
    remake_runs(b, k // RUN)


@borrowing
def _drop(b: Blocks, k: int) -> None:
    """Take the k-th block out of the directory; it is free then."""
    used = b.sizes[USED]
    block = b.order[k]
    for j in range(k, used - 1):
        b.order[j] = b.order[j + 1]
        b.first_x[j], b.first_y[j], b.low[j] = b.first_x[j + 1], b.first_y[j + 1], b.low[j + 1]
    b.order[used - 1] = block
    b.sizes[USED] = used - 1
    remake_runs(b, k // RUN)


@borrowing
def _join_a_neighbour(b: Blocks, k: int) -> None:
    size = b.held[b.order[k]]
    if k + 1 < b.sizes[USED] and size + b.held[b.order[k + 1]] <= FILL:
        _join(b, k)
    elif k > 0 and size + b.held[b.order[k - 1]] <= FILL:
        _join(b, k - 1)


@borrowing
def _join(b: Blocks, k: int) -> None:
    """Move the pairs of entry k + 1 behind those of entry k."""
    into, other = b.order[k], b.order[k + 1]
    begin, size = b.held[into], b.held[other]
    for i in range(size):
        b.xs[into, begin + i] = b.xs[other, i]
        b.ys[into, begin + i] = b.ys[other, i]
    b.held[into] = begin + size
    b.low[k] = min(b.low[k], b.low[k + 1])
    _drop(b, k + 1)
