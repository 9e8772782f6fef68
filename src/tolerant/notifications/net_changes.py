"""Computes the net effect of a batch by comparing how rows tile the plane of ranges before and after (§5).

Every row owns the ranges whose answer it is: (l, x] × [x, r), with l the nearest place to the left that is as low, r
the nearest to the right that is lower. These rectangles tile all ranges that hold a row: they are the nodes of the
table's Cartesian tree. A batch affects the ranges that were in another tile, of another height, before it.
"""

from __future__ import annotations

import numpy as np

from tolerant.kernels.compiled import compiled, compiled_no_refcount
from tolerant.notifications.hull import emit, grown
from tolerant.notifications.range_arguments import Floats, Integers


def net_messages(old_x: Floats, old_y: Floats, new_x: Floats, new_y: Floats) -> Floats:
    """Return the messages, float64[k, 5], that turn one table's answers into the other's; both sorted by x, then y."""
    old_x, old_y = _lowest_by_place(old_x, old_y)
    new_x, new_y = _lowest_by_place(new_x, new_y)
    old_l, old_r = _tiles(old_x, old_y)
    new_l, new_r = _tiles(new_x, new_y)
    of_old, of_new = _differing(old_x, old_y, old_l, old_r, new_x, new_y, new_l, new_r)
    of_old = of_old[np.lexsort((old_x[of_old], old_y[of_old]))]
    old = np.stack([part[of_old] for part in (old_y, old_x, old_l, old_r)], axis=1)
    new = np.stack([part[of_new] for part in (new_y, new_x, new_l, new_r)], axis=1)
    return _differences(old, new, old_x, new_x)


@compiled
def merged(
    xs: Floats, ys: Floats, gone_x: Floats, gone_y: Floats, come_x: Floats, come_y: Floats
) -> tuple[Floats, Floats]:
    """Return sorted pairs without the gone ones and with those that came; all are sorted by x, then y."""
    size = len(xs) - len(gone_x) + len(come_x)
    out_x, out_y = np.empty(size), np.empty(size)
    n = g = c = 0
    for i in range(len(xs)):
        if g < len(gone_x) and gone_x[g] == xs[i] and gone_y[g] == ys[i]:
            g += 1
            continue
        while c < len(come_x) and (come_x[c] < xs[i] or (come_x[c] == xs[i] and come_y[c] < ys[i])):
            out_x[n], out_y[n] = come_x[c], come_y[c]
            n += 1
            c += 1
        out_x[n], out_y[n] = xs[i], ys[i]
        n += 1
    for i in range(c, len(come_x)):
        out_x[n], out_y[n] = come_x[i], come_y[i]
        n += 1
    return out_x, out_y


@compiled
def _lowest_by_place(xs: Floats, ys: Floats) -> tuple[Floats, Floats]:
    out_x, out_y, n = np.empty(len(xs)), np.empty(len(xs)), 0
    for i in range(len(xs)):
        if i == 0 or xs[i] != xs[i - 1]:
            out_x[n], out_y[n] = xs[i], ys[i]
            n += 1
    return out_x[:n], out_y[:n]


@compiled
def _tiles(xs: Floats, ys: Floats) -> tuple[Floats, Floats]:
    """Return l and r of every row, in one pass with a stack of rows whose r is not known yet."""
    n = len(xs)
    left, right, stack, top = np.empty(n), np.full(n, np.inf), np.empty(n, np.int64), 0
    for i in range(n):
        while top and ys[stack[top - 1]] > ys[i]:
            top -= 1
            right[stack[top]] = xs[i]
        left[i] = xs[stack[top - 1]] if top else -np.inf
        stack[top] = i
        top += 1
    return left, right


@compiled
def _differing(
    old_x: Floats, old_y: Floats, old_l: Floats, old_r: Floats,
    new_x: Floats, new_y: Floats, new_l: Floats, new_r: Floats,
) -> tuple[Integers, Integers]:  # fmt: skip
    """Return the rows whose tile is not the same in the other table. All other tiles are equal in both."""
    of_old, of_new = np.empty(len(old_x), np.int64), np.empty(len(new_x), np.int64)
    a = b = i = j = 0
    while i < len(old_x) or j < len(new_x):
        if j == len(new_x) or (i < len(old_x) and old_x[i] < new_x[j]):
            of_old[a] = i
            a += 1
            i += 1
        elif i == len(old_x) or new_x[j] < old_x[i]:
            of_new[b] = j
            b += 1
            j += 1
        else:
            if old_y[i] != new_y[j] or old_l[i] != new_l[j] or old_r[i] != new_r[j]:
                of_old[a], of_new[b] = i, j
                a += 1
                b += 1
            i += 1
            j += 1
    return of_old[:a], of_new[:b]


@compiled
def _differences(old: Floats, new: Floats, old_x: Floats, new_x: Floats) -> Floats:
    """Return new tiles (y, x, l, r) less the old ones of the same height, and ranges that no longer contain a row.

    The old tiles are sorted by height, then x: of one height their sides (l, x] do not overlap.
    """
    out, n = np.empty((2 * len(new) + 4, 5)), 0
    for i in range(len(new)):
        y, x, left, right = new[i, 0], new[i, 1], new[i, 2], new[i, 3]
        done = left
        j = _first_of(old, y, left)
        while j < len(old) and old[j, 0] == y and old[j, 2] < x:
            place, low, high, end = old[j, 1], max(old[j, 2], left), min(old[j, 1], x), old[j, 3]
            j += 1
            if not max(place, x) < min(end, right):
                continue
            out = grown(out, n + 4)
            if done < low:
                n = emit(out, n, y, low, x, done, right)
            if x < place:
                n = emit(out, n, y, high, x, low, place)
            if end < right:
                n = emit(out, n, y, high, end, low, right)
            done = high
        if done < x:
            out = grown(out, n + 1)
            n = emit(out, n, y, x, x, done, right)
    return _emptied(old_x, new_x, out, n)


@compiled_no_refcount
def _first_of(old: Floats, y: float, left: float) -> int:
    """Return the first old tile of height y whose x is right of `left`."""
    low, high = 0, len(old)
    while low < high:
        middle = (low + high) >> 1
        if old[middle, 0] < y or (old[middle, 0] == y and old[middle, 1] <= left):
            low = middle + 1
        else:
            high = middle
    return low


@compiled
def _emptied(old_x: Floats, new_x: Floats, out: Floats, n: int) -> Floats:
    """Append a message per vanished place, for the ranges that are now empty and in which it was the first."""
    j, before = 0, -np.inf
    for i in range(len(old_x)):
        x = old_x[i]
        while j < len(new_x) and new_x[j] < x:
            before = max(before, new_x[j])
            j += 1
        if j == len(new_x) or new_x[j] != x:
            out = grown(out, n + 1)
            n = emit(out, n, np.inf, x, x, before, new_x[j] if j < len(new_x) else np.inf)
            before = x
    return out[:n]
