"""The boxes that are most worth a channel, given the worth of each unit in them (`docs/design/merging.md` §5.2)."""

from __future__ import annotations

import numpy as np

from tolerant.kernels.array_types import Floats, Integers
from tolerant.kernels.compiled import compiled, compiled_no_refcount
from tolerant.merging.cost_model import CostModel
from tolerant.merging.sizes import measure

KEPT = 300
"""Largest number of boxes returned."""


def best_boxes(units: Floats, worth: Floats, model: CostModel) -> tuple[Floats, Floats]:
    """Return the best box of each range of x that has one with a positive value: values float[k], largest first, and
    boxes float[k, 5], x1 y1 x2 y2 and the size.

    `units` float[n, 6]: box, queries, size. The value of a box is Σ max(0, worth − K_U·S·queries) over the units in it,
    less K_M + K_T·S. Exact: if no box is returned, no box has a positive value (up to rounding).
    """
    least = 1e-9 * (float(worth.max(initial=0.0)) + model.channel)
    order = np.argsort(units[:, 2], kind="stable")
    candidates = _search(np.ascontiguousarray(units[order]), worth[order], model, least)
    best = np.argsort(-candidates[:, 5], kind="stable")[:KEPT]
    return candidates[best, 5], candidates[best, :5]


@compiled_no_refcount
def _promising(
    units: Floats, worth: Floats, by_middle: Integers, m: int, x1: float, x2: float, model: CostModel
) -> bool:
    """Whether some range of y may have a positive value: Kadane's scan over the middles of the units, an upper bound.

    A range with a first and a last unit is at least as large as from the low end of the first to the high end of the
    last.
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


@compiled_no_refcount
def _best_range(
    units: Floats, worth: Floats, by_low: Integers, m: int, x1: float, x2: float, model: CostModel, best: Floats
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


@compiled_no_refcount
def _insert(order: Integers, m: int, keys: Floats, u: int) -> None:
    """Insert u into the first m places of `order`, which are sorted by their keys."""
    at = m
    while at > 0 and keys[order[at - 1]] > keys[u]:
        order[at] = order[at - 1]
        at -= 1
    order[at] = u


@compiled
def _search(units: Floats, worth: Floats, model: CostModel, least: float) -> Floats:
    """Return the best box of every range of x, [k, 6]: x1 y1 x2 y2 size value; units are sorted by their right ends."""
    n = len(units)
    boxes, count, best = np.empty((n * n, 6)), 0, np.empty(4)
    lows, middles = np.empty(n), np.empty(n)
    for u in range(n):
        lows[u] = units[u, 1]
        middles[u] = 0.5 * (units[u, 1] + units[u, 3])
    by_low, by_middle = np.empty(n, np.int64), np.empty(n, np.int64)
    for left in range(n):
        x1, m, has_left, added = units[left, 0], 0, False, False
        repeated = False
        for u in range(left):
            repeated = repeated or units[u, 0] == x1
        if repeated:
            continue
        for right in range(n):
            if units[right, 0] >= x1 and worth[right] > 0.0:
                _insert(by_low, m, lows, right)
                _insert(by_middle, m, middles, right)
                m += 1
                added = True
                has_left = has_left or units[right, 0] == x1
            x2 = units[right, 2]
            # A box is tight: it has a unit at its left end, and one, the newest, at its right end.
            if not (has_left and added) or (right + 1 < n and units[right + 1, 2] == x2):
                continue
            added = False
            if not _promising(units, worth, by_middle, m, x1, x2, model):
                continue
            best[3] = least
            _best_range(units, worth, by_low, m, x1, x2, model, best)
            if best[3] > least:
                boxes[count, 0], boxes[count, 1], boxes[count, 2], boxes[count, 3] = x1, best[0], x2, best[1]
                boxes[count, 4], boxes[count, 5] = best[2], best[3]
                count += 1
    return boxes[:count].copy()
