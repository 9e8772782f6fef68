"""Applies changes of rows to the index and computes their messages (§2.3 to §2.5).

An absent row has the height +∞. All messages are lines of `out`, float64[n, 5].
"""

from __future__ import annotations

import numpy as np

from tolerant.kernels.compiled import compiled, compiled_no_refcount
from tolerant.notifications.block_search import left_end, lowest_at, right_end
from tolerant.notifications.hull import emit, grown, leaving
from tolerant.notifications.pair_blocks import USED, PairBlocks, insert, remove
from tolerant.notifications.range_arguments import Floats, Integers

IGNORABLE, EASY, DIFFICULT = 0, 1, 2


@compiled
def change(
    b: PairBlocks, x_o: float, y_o: float, x_n: float, y_n: float, out: Floats, n: int
) -> tuple[Floats, int, int]:
    """Apply a change and append its messages; return the lines, their number, the class of the change.

    An insertion has y_o = +∞, a deletion y_n = +∞; the x of that side is ignored. One block must be free.
    """
    first, had, has = n, y_o < np.inf, y_n < np.inf
    moves, rises = had and has and x_o != x_n, y_n > y_o
    if not (had or has) or (had and has and not moves and y_o == y_n):
        return out, n, IGNORABLE
    if had:
        remove(b, x_o, y_o)
    arrives = has and (moves or not rises) and lowest_at(b, x_n) > y_n
    low = left_end(b, x_n, y_n) if arrives else 0.0
    high = right_end(b, x_n, y_n) if arrives else 0.0
    if moves and y_n >= y_o:  # a range with both places gets the new answer from the message about the old place
        low = max(low, x_o) if x_o < x_n else low
        high = min(high, x_o) if x_n < x_o else high
    if has:
        insert(b, x_n, y_n)
    if had and (moves or rises):
        peak = lowest_at(b, x_o)
        if peak > y_o:
            wall_left = x_n if moves and not rises and x_n < x_o else -np.inf
            wall_right = x_n if moves and not rises and x_o < x_n else np.inf
            out, n = leaving(b, x_o, peak, y_o, wall_left, wall_right, out, n)
    if arrives:
        out, n = _arriving(out, first, n, x_o, x_n, y_n, low, high)
    return out, n, _class_of(out, first, n, y_n)


@compiled_no_refcount
def _class_of(out: Floats, before: int, n: int, y_n: float) -> int:
    if n == before:
        return IGNORABLE
    return EASY if n == before + 1 and out[before, 0] == y_n else DIFFICULT


@compiled
def _arriving(
    out: Floats, first: int, n: int, x_o: float, x_n: float, y_n: float, low: float, high: float
) -> tuple[Floats, int]:
    """Append the message about the new place, merged with that about it as an exposed row where they adjoin."""
    for m in range(first + 1, n):  # the first one is the peak's
        if out[m, 0] != y_n:
            continue
        if x_o < x_n and out[m, 2] == x_n and out[m, 4] == high and out[m, 1] == low:
            low = out[m, 3]
        elif x_n < x_o and out[m, 1] == x_n and out[m, 3] == low and out[m, 2] == high:
            high = out[m, 4]
        else:
            continue
        n -= 1
        for i in range(m, n):
            for j in range(5):
                out[i, j] = out[i + 1, j]
        break
    out = grown(out, n + 1)
    return out, emit(out, n, y_n, x_n, x_n, low, high)


@compiled
def change_many(  # noqa: PLR0913
    b: PairBlocks,
    begin: int,
    slots: Integers,
    xs: Floats,
    ys: Floats,
    row_x: Floats,
    row_y: Floats,
    counts: Integers,
    out: Floats,
    change_of: Integers,
    n: int,
) -> tuple[int, Floats, Integers, int]:
    """Apply changes from `begin` on, while a block is free; return the next change, the messages and the change of
    each.

    A change gives the row in `slots[i]` the place `xs[i]` and the height `ys[i]`, NaN to delete it; `row_x`, `row_y`
    are the rows by slot. `counts` counts the classes.
    """
    for i in range(begin, len(slots)):
        if b.sizes[USED] == len(b.order):
            return i, out, change_of, n
        slot, before = slots[i], n
        y = np.inf if np.isnan(ys[i]) else ys[i]
        out, n, kind = change(b, row_x[slot], row_y[slot], xs[i], y, out, n)
        row_x[slot], row_y[slot] = xs[i], y
        counts[kind] += 1
        if n > len(change_of):
            larger = np.empty(len(out), np.int64)
            for m in range(before):
                larger[m] = change_of[m]
            change_of = larger
        for m in range(before, n):
            change_of[m] = i
    return len(slots), out, change_of, n
