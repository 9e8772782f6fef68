"""Computes the messages of a row that leaves its height: walks both hulls, one rectangle per point (§2.4)."""

from __future__ import annotations

import numpy as np

from tolerant.kernels.compiled import compiled, compiled_no_refcount
from tolerant.notifications.block_search import first_behind, first_from, lowest_at, next_below, previous_below
from tolerant.notifications.pair_blocks import USED, PairBlocks
from tolerant.notifications.range_arguments import Floats


@compiled
def grown(lines: Floats, needed: int) -> Floats:
    """Return the same lines with room for `needed` of them, at least doubled."""
    # A loop, not slices: Numba's slices take seconds to compile at every use.
    if needed <= len(lines):
        return lines
    width = lines.shape[1]
    larger = np.empty((max(needed, 2 * len(lines)), width))
    for i in range(len(lines)):
        for j in range(width):
            larger[i, j] = lines[i, j]
    return larger


@compiled_no_refcount
def emit(
    out: Floats, n: int, value: float, inner_low: float, inner_high: float, outer_low: float, outer_high: float
) -> int:
    """Append a message to the n in `out`, float64[…, 5], which must have room; return the new number."""
    out[n, 0] = value
    out[n, 1] = inner_low
    out[n, 2] = inner_high
    out[n, 3] = outer_low
    out[n, 4] = outer_high
    return n + 1


@compiled
def _left_hull(b: PairBlocks, x: float, peak: float, floor: float, wall: float) -> tuple[Floats, int, float]:
    """Return points (x, y) left of x, nearest first, each lower than all nearer ones and the peak, and x_l.

    The walk ends at the first point of height ≤ floor, which is x_l, or at the wall.
    """
    hull, n = np.empty((8, 2)), 0
    if b.sizes[USED] == 0:
        return hull, 0, wall
    k, i = first_from(b, x)
    while True:
        k, i = previous_below(b, k, i, peak)
        if k < 0:
            return hull, n, wall
        at = b.xs[b.order[k], i]
        if at <= wall:
            return hull, n, wall
        # Walking left meets the highest qualifying row of an x first; the lowest one counts.
        alone = i > 0 and b.xs[b.order[k], i - 1] < at
        peak = b.ys[b.order[k], i] if alone else lowest_at(b, at)
        if peak <= floor:
            return hull, n, at
        hull = grown(hull, n + 1)
        hull[n, 0], hull[n, 1] = at, peak
        n += 1


@compiled
def _right_hull(b: PairBlocks, x: float, peak: float, floor: float, wall: float) -> tuple[Floats, int, float]:
    """Return the mirror image: points right of x, and x_r."""
    hull, n = np.empty((8, 2)), 0
    used = b.sizes[USED]
    if used == 0:
        return hull, 0, wall
    k, i = first_behind(b, x)
    while True:
        k, i = next_below(b, k, i, peak)
        if k == used:
            return hull, n, wall
        at = b.xs[b.order[k], i]
        if at >= wall:
            return hull, n, wall
        peak = b.ys[b.order[k], i]
        if peak <= floor:
            return hull, n, at
        hull = grown(hull, n + 1)
        hull[n, 0], hull[n, 1] = at, peak
        n += 1


@compiled
def leaving(
    b: PairBlocks, x: float, peak: float, floor: float, wall_left: float, wall_right: float, out: Floats, n: int
) -> tuple[Floats, int]:
    """Append the messages of a row at x that left the height `floor`, where `peak` > floor is now the lowest.

    Peak first, then the left hull outwards, then the right one. Walls are further ends of the affected range.
    """
    left, lefts, x_l = _left_hull(b, x, peak, floor, wall_left)
    right, rights, x_r = _right_hull(b, x, peak, floor, wall_right)
    begin = left[0, 0] if lefts else x_l
    end = right[0, 0] if rights else x_r
    out = grown(out, n + 1 + lefts + rights)
    n = emit(out, n, peak, x, x, begin, end)
    j = 0
    for i in range(lefts):
        while j < rights and right[j, 1] >= left[i, 1]:
            j += 1
        begin = left[i + 1, 0] if i + 1 < lefts else x_l
        end = right[j, 0] if j < rights else x_r
        n = emit(out, n, left[i, 1], left[i, 0], x, begin, end)
    i = 0
    for j in range(rights):
        # Of two equal heights the left point covers ranges that contain both: < above, ≤ here.
        while i < lefts and left[i, 1] > right[j, 1]:
            i += 1
        begin = left[i, 0] if i < lefts else x_l
        end = right[j + 1, 0] if j + 1 < rights else x_r
        n = emit(out, n, right[j, 1], x, right[j, 0], begin, end)
    return out, n
