"""Searches the flat index: the nearest lower row on either side, the lowest row of a range (§2.7).

A place is (k, i): the i-th pair of the k-th block. All bounds are strict, y < bound; `just_above` converts y ≤ y0 into
one.
"""

from __future__ import annotations

import numpy as np

from tolerant.kernels.compiled import compiled, compiled_no_refcount
from tolerant.notifications.pair_blocks import RUN, USED, PairBlocks, block_of, place_in
from tolerant.notifications.range_arguments import Floats


@compiled
def just_above(y: float) -> float:
    """Return the bound for which y' < bound means y' ≤ y."""
    return np.nextafter(y, np.inf)


@compiled_no_refcount
def first_from(b: PairBlocks, x: float) -> tuple[int, int]:
    """Return the place of the first pair with X ≥ x; it may be one past the last pair of its block."""
    k = block_of(b, x, -np.inf)
    return k, place_in(b, b.order[k], x, -np.inf)


@compiled_no_refcount
def first_behind(b: PairBlocks, x: float) -> tuple[int, int]:
    """Return the place of the first pair with X > x; it may be one past the last pair of its block."""
    k = block_of(b, x, np.inf)
    return k, place_in(b, b.order[k], x, np.inf)


@compiled_no_refcount
def next_below(b: PairBlocks, k: int, i: int, bound: float) -> tuple[int, int]:
    """Return the first place from (k, i) on with y < bound; k is the number of blocks if there is none."""
    used = b.sizes[USED]
    if k < used and b.low[k] < bound:
        block = b.order[k]
        for j in range(i, b.counts[block]):
            if b.ys[block, j] < bound:
                return k, j
    k += 1
    while k < used and k % RUN != 0 and not b.low[k] < bound:
        k += 1
    if k < used and k % RUN == 0:
        run = k // RUN
        while run * RUN < used and not b.runs[run] < bound:
            run += 1
        k = run * RUN
        while k < used and not b.low[k] < bound:
            k += 1
    if k >= used:
        return used, 0
    block, j = b.order[k], 0
    while not b.ys[block, j] < bound:
        j += 1
    return k, j


@compiled_no_refcount
def previous_below(b: PairBlocks, k: int, i: int, bound: float) -> tuple[int, int]:
    """Return the last place before (k, i) with y < bound; k is −1 if there is none."""
    if k < b.sizes[USED] and b.low[k] < bound:
        block = b.order[k]
        for j in range(i - 1, -1, -1):
            if b.ys[block, j] < bound:
                return k, j
    k -= 1
    while k >= 0 and (k + 1) % RUN != 0 and not b.low[k] < bound:
        k -= 1
    if k >= 0 and (k + 1) % RUN == 0:
        run = k // RUN
        while run >= 0 and not b.runs[run] < bound:
            run -= 1
        k = run * RUN + RUN - 1
        while k >= 0 and not b.low[k] < bound:
            k -= 1
    if k < 0:
        return -1, 0
    block = b.order[k]
    j = b.counts[block] - 1
    while not b.ys[block, j] < bound:
        j -= 1
    return k, j


@compiled_no_refcount
def lowest_at(b: PairBlocks, x: float) -> float:
    """Return the smallest y at x; +∞ if there is no row."""
    used = b.sizes[USED]
    if used == 0:
        return np.inf
    k, i = first_from(b, x)
    if i == b.counts[b.order[k]]:
        k, i = k + 1, 0
    if k < used and b.xs[b.order[k], i] == x:
        return b.ys[b.order[k], i]
    return np.inf


@compiled_no_refcount
def left_end(b: PairBlocks, x: float, y: float) -> float:
    """Return the x of the nearest row left of x with y' ≤ y, or −∞ (Definition 7)."""
    if b.sizes[USED] == 0:
        return -np.inf
    k, i = first_from(b, x)
    k, i = previous_below(b, k, i, just_above(y))
    return b.xs[b.order[k], i] if k >= 0 else -np.inf


@compiled_no_refcount
def right_end(b: PairBlocks, x: float, y: float) -> float:
    """Return the x of the nearest row right of x with y' ≤ y, or +∞."""
    if b.sizes[USED] == 0:
        return np.inf
    k, i = first_behind(b, x)
    k, i = next_below(b, k, i, just_above(y))
    return b.xs[b.order[k], i] if k < b.sizes[USED] else np.inf


@compiled_no_refcount
def lowest_in(b: PairBlocks, x1: float, x2: float) -> float:
    """Return the smallest y of the rows with x1 ≤ x ≤ x2; +∞ if there is none."""
    if b.sizes[USED] == 0:
        return np.inf
    k, i = first_from(b, x1)
    last, end = first_behind(b, x2)
    lowest = np.inf
    if k == last:
        return _lowest_of(b, k, i, end, lowest)
    lowest = _lowest_of(b, k, i, b.counts[b.order[k]], lowest)
    lowest = _lowest_of(b, last, 0, end, lowest)
    k += 1
    while k < last:
        if k % RUN == 0 and k + RUN <= last:
            lowest = min(lowest, b.runs[k // RUN])
            k += RUN
        else:
            lowest = min(lowest, b.low[k])
            k += 1
    return lowest


@compiled_no_refcount
def _lowest_of(b: PairBlocks, k: int, begin: int, end: int, lowest: float) -> float:
    if b.low[k] < lowest:
        block = b.order[k]
        for i in range(begin, end):
            lowest = min(lowest, b.ys[block, i])
    return lowest


@compiled
def lowest_in_each(b: PairBlocks, x1s: Floats, x2s: Floats) -> Floats:
    """Return `lowest_in` for many ranges."""
    lowest = np.empty(len(x1s))
    for n in range(len(x1s)):
        lowest[n] = lowest_in(b, x1s[n], x2s[n])
    return lowest
