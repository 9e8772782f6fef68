"""Walks over recorded arrivals: where the limit breaks next, and plans that are made as the ticks go by."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tolerant.kernels.compiled import borrowing, compiled
from tolerant.views.curves import Packed, cost_of
from tolerant.views.sets import Counts, Floats, choose, everything, price_of


@borrowing
def next_broken(look: NDArray[np.int64], base: Counts, curves: Packed, bound: float, start: int) -> int:
    """The first tick ≥ `start` that breaks the limit before an action, or the last tick.

    `look` int64[ticks, tables] are the rows that have come or are expected, from the beginning; `base` those pushed.
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


@borrowing
def _broken(seen: Counts, base: Counts, curves: Packed, bound: float) -> bool:
    work = 0.0
    for i in range(len(base)):
        work += cost_of(curves, i, seen[i] - base[i])
    return work > bound


@compiled
def run(
    total: NDArray[np.int64],
    look: NDArray[np.int64],
    rates: Floats,
    curves: Packed,
    bound: float,
    recompute: float,
    rule: int,
) -> tuple[NDArray[np.int64], NDArray[np.int64], float]:
    """Ticks and sets of the actions that `rule` takes, and their whole cost.

    `total` int64[ticks, tables]: rows that have come up to and with a tick. `rates` float64[ticks, tables], or
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
            continue  # nothing is pending: what breaks the limit is expected, not there
        ticks[taken], masks[taken] = tick, mask
        taken += 1
        spent += price
        for i in range(n):
            if mask >> i & 1:
                base[i] = total[tick, i]
    return ticks[:taken], masks[:taken], spent


@compiled
def averages(arrivals: NDArray[np.int64], memory: int) -> Floats:
    """Exponential averages of the arrivals over about `memory` ticks (the plain mean until then), float64[ticks, n]."""
    rates = np.empty(arrivals.shape)
    for i in range(arrivals.shape[1]):
        mean = 0.0
        for tick in range(len(arrivals)):
            mean += (arrivals[tick, i] - mean) / min(tick + 1, memory)
            rates[tick, i] = mean
    return rates
