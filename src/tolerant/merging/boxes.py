"""The boxes that are worth a channel most, given what each unit in them is worth (`specs/4-merging.md` §5.2)."""

from __future__ import annotations

import numpy as np

from tolerant.kernels.compiled import borrowing, compiled
from tolerant.merging.arrays import Floats, Integers
from tolerant.merging.model import Model
from tolerant.merging.sizes import measure

KEPT = 300
"""Boxes given back, at most."""


def best_boxes(units: Floats, worth: Floats, model: Model) -> tuple[Floats, Floats]:
    """The best box of each range of x that has one with a positive value: values float[k], largest first, and boxes
    float[k, 5], x1 y1 x2 y2 and the size.

    `units` float[n, 6]: box, queries, size. The value of a box is Σ max(0, worth − K_U·S·queries) over the units in it,
    less K_M + K_T·S. Exact: without a box there is none with a positive value (up to rounding).
    """
    least = 1e-9 * (float(worth.max(initial=0.0)) + model.channel)
    order = np.argsort(units[:, 2], kind="stable")
    found = _search(np.ascontiguousarray(units[order]), worth[order], model, least)
    best = np.argsort(-found[:, 5], kind="stable")[:KEPT]
    return found[best, 5], found[best, :5]


@borrowing
def _promising(units: Floats, worth: Floats, by_middle: Integers, m: int, x1: float, x2: float, model: Model) -> bool:
    """Whether some range of y may be worth it: Kadane's scan over the middles of the units, which bounds it from above.

    A range that holds a first and a last unit is at least as large as from the low end of the first to the high end of
    the last.
    """
    each, run, last = model.transfer + model.waste, 0.0, 0.0
    for k in range(m):
        u = by_middle[k]
        middle = 0.5 * (units[u, 1] + units[u, 3])
        alone = worth[u] - each * measure(x1, units[u, 1], x2, middle, model.table)
        if k > 0:
            run = max(alone, run - each * measure(x1, last, x2, middle, model.table) + worth[u])
        else:
            run = alone
        last = middle
        if run - each * measure(x1, middle, x2, units[u, 3], model.table) > model.channel:
            return True
    return False


@borrowing
def _best_range(
    units: Floats, worth: Floats, by_low: Integers, m: int, x1: float, x2: float, model: Model, best: Floats
) -> None:
    """Write the best box of this range of x into `best`: y1, y2, size, value, if its value is larger."""
    each = model.transfer + model.waste
    for a in range(m):
        y1 = units[by_low[a], 1]
        if a > 0 and units[by_low[a - 1], 1] == y1:
            continue
        total = 0.0
        for k in range(a, m):
            total += worth[by_low[k]]
        for t in range(a, m):
            y2 = units[by_low[t], 3]
            size = measure(x1, y1, x2, y2, model.table)
            if total <= model.channel + each * size + best[3]:
                continue
            value = -model.channel - model.transfer * size
            for k in range(a, m):
                u = by_low[k]
                if units[u, 3] <= y2:
                    value += max(0.0, worth[u] - model.waste * size * units[u, 4])
            if value > best[3]:
                best[0], best[1], best[2], best[3] = y1, y2, size, value


@borrowing
def _insert(order: Integers, m: int, keys: Floats, u: int) -> None:
    """Put u into the first m places of `order`, which are in the order of their keys."""
    at = m
    while at > 0 and keys[order[at - 1]] > keys[u]:
        order[at] = order[at - 1]
        at -= 1
    order[at] = u


@compiled
def _search(units: Floats, worth: Floats, model: Model, least: float) -> Floats:
    """The best box of every range of x, [k, 6]: x1 y1 x2 y2 size value; units are in the order of their right ends."""
    n = len(units)
    found, count, best = np.empty((n * n, 6)), 0, np.empty(4)
    lows, middles = np.empty(n), np.empty(n)
    for u in range(n):
        lows[u] = units[u, 1]
        middles[u] = 0.5 * (units[u, 1] + units[u, 3])
    by_low, by_middle = np.empty(n, np.int64), np.empty(n, np.int64)
    for left in range(n):
        x1, m, touched, fresh = units[left, 0], 0, False, False
        again = False
        for u in range(left):
            again = again or units[u, 0] == x1
        if again:
            continue
        for right in range(n):
            if units[right, 0] >= x1 and worth[right] > 0.0:
                _insert(by_low, m, lows, right)
                _insert(by_middle, m, middles, right)
                m += 1
                fresh = True
                touched = touched or units[right, 0] == x1
            x2 = units[right, 2]
            # A box is tight: it has a unit at its left end, and one, the newest, at its right end.
            if not (touched and fresh) or (right + 1 < n and units[right + 1, 2] == x2):
                continue
            fresh = False
            if not _promising(units, worth, by_middle, m, x1, x2, model):
                continue
            best[3] = least
            _best_range(units, worth, by_low, m, x1, x2, model, best)
            if best[3] > least:
                found[count, 0], found[count, 1], found[count, 2], found[count, 3] = x1, best[0], x2, best[1]
                found[count, 4], found[count, 5] = best[2], best[3]
                count += 1
    return found[:count].copy()
