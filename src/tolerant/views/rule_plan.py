"""Follows recorded arrivals: finds where the limit breaks next, and applies a rule tick by tick."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tolerant.kernels.compiled import compiled, compiled_no_refcount
from tolerant.views.cost_curves import PackedCurves, cost_of
from tolerant.views.table_sets import Counts, Floats, choose, everything, price_of


@compiled_no_refcount
def next_broken(look: NDArray[np.int64], base: Counts, curves: PackedCurves, bound: float, start: int) -> int:
    """Return the first tick ≥ `start` that breaks the limit before an action, or the last tick.

    `look` int64[ticks, tables] are the cumulative rows that arrived or are expected; `base` those pushed.
    Galloping, then bisection: pending work only grows while nothing is pushed.
    """
    last = len(look) - 1
    low, high, step = start - 1, start, 1
    while high < last and not _broken(look[high], base, curves, bound):
        low, high, step = high, high + step, 2 * step
    high = min(high, last)
    while high - low > 1:
        middle = (low + high) // 2
        if _broken(look[middle], base, curves, bound):
            high = middle
        else:
            low = middle
    return high


@compiled_no_refcount
def _broken(seen: Counts, base: Counts, curves: PackedCurves, bound: float) -> bool:
    work = 0.0
    for i in range(len(base)):
        work += cost_of(curves, i, seen[i] - base[i])
    return work > bound


@compiled
def run(
    total: NDArray[np.int64],
    look: NDArray[np.int64],
    rates: Floats,
    curves: PackedCurves,
    bound: float,
    recompute: float,
    rule: int,
) -> tuple[NDArray[np.int64], NDArray[np.int64], float]:
    """Return ticks and sets of the actions that `rule` takes, and their whole cost.

    `total` int64[ticks, tables]: rows that have arrived up to and including a tick. `rates` float64[ticks, tables], or
    float64[0, tables]: the mean so far.
    """
    last, n = len(total) - 1, total.shape[1]
    ticks, masks = np.empty(last + 1, np.int64), np.empty(last + 1, np.int64)
    base, counts, extra, rate = np.zeros(n, np.int64), np.empty(n, np.int64), np.empty(n, np.int64), np.empty(n)
    taken, spent, tick = 0, 0.0, -1
    while tick < last:
        tick = next_broken(look, base, curves, bound, tick + 1)
        for i in range(n):
            counts[i] = total[tick, i] - base[i]
            extra[i] = look[tick, i] - total[tick, i]
            rate[i] = rates[tick, i] if len(rates) else total[tick, i] / (tick + 1)
        if tick == last:
            mask = everything(counts)
            price = min(price_of(curves, counts, mask), recompute)
        else:
            mask, price = choose(curves, counts, extra, rate, tick, spent, bound, recompute, rule)
        if mask == 0:
            continue  # nothing is pending: only expected rows break the limit
        ticks[taken], masks[taken] = tick, mask
        taken += 1
        spent += price
        for i in range(n):
            if mask >> i & 1:
                base[i] = total[tick, i]
    return ticks[:taken], masks[:taken], spent


@compiled
def averages(arrivals: NDArray[np.int64], memory: int) -> Floats:
    """Return exponential averages of the arrivals over about `memory` ticks (the plain mean until then), float64[ticks,
    n].
    """
    rates = np.empty(arrivals.shape)
    for i in range(arrivals.shape[1]):
        mean = 0.0
        for tick in range(len(arrivals)):
            mean += (arrivals[tick, i] - mean) / min(tick + 1, memory)
            rates[tick, i] = mean
    return rates
