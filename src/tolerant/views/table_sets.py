"""Enumerates the minimal sets of tables to empty when the limit is broken, and implements the rules that choose one.

A set of tables is an integer, bit i for table i. `counts` are the pending rows before the action; `extra` are rows that
are expected before the next possible action and count too (0 without `lead`).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tolerant.kernels.compiled import compiled, compiled_no_refcount
from tolerant.views.cost_curves import PackedCurves, cost_of

Counts = NDArray[np.int64]
Floats = NDArray[np.float64]

NAIVE, HISTORY, PER_TICK, CHEAPEST = range(4)
"""Rules: all tables; H of [DISS]; cost per tick until the limit breaks again; least cost now."""

FARTHEST = 100_000
"""Ticks ahead that a prediction looks."""

MOST_TABLES = 16
"""For n tables there are up to 2ⁿ − 1 sets to examine."""


@compiled_no_refcount
def price_of(curves: PackedCurves, counts: Counts, mask: int) -> float:
    """Return the cost of emptying the tables of `mask`."""
    price = 0.0
    for i in range(len(counts)):
        if mask >> i & 1:
            price += cost_of(curves, i, counts[i])
    return price


@compiled_no_refcount
def everything(counts: Counts) -> int:
    """Return the set of tables that have pending rows."""
    mask = 0
    for i in range(len(counts)):
        if counts[i] > 0:
            mask |= 1 << i
    return mask


@compiled_no_refcount
def left_over(curves: PackedCurves, counts: Counts, extra: Counts, mask: int) -> float:
    """Return the pending work when the tables of `mask` are emptied."""
    work = 0.0
    for i in range(len(counts)):
        work += cost_of(curves, i, extra[i] + (0 if mask >> i & 1 else counts[i]))
    return work


@compiled
def minimal_sets(
    curves: PackedCurves, counts: Counts, extra: Counts, bound: float, recompute: float
) -> tuple[NDArray[np.int64], Floats, int]:
    """Return the minimal sets whose emptying restores the limit, the cost of each, and their number (the arrays are
    longer).

    All tables where no set restores it (one tick may exceed the limit). With a finite `recompute`, which empties
    all at one price, sets that cost more are omitted and that one is added. None where the limit is not broken.
    """
    whole = everything(counts)
    masks, prices = np.empty(whole + 1, np.int64), np.empty(whole + 1)
    restores = np.zeros(whole + 1, np.bool_)
    count, mask = 0, 0
    while True:
        restores[mask] = left_over(curves, counts, extra, mask) <= bound
        minimal = restores[mask] or mask == whole
        for i in range(len(counts)):
            if mask >> i & 1 and restores[mask ^ (1 << i)]:
                minimal = False
        if minimal and mask > 0:
            price = price_of(curves, counts, mask)
            if price <= recompute:
                masks[count], prices[count] = mask, price
                count += 1
        if mask == whole:
            break
        mask = (mask - whole) & whole  # the next subset of `whole`
    if whole > 0 and not restores[0] and price_of(curves, counts, whole) > recompute:
        masks[count], prices[count] = whole, recompute
        count += 1
    return masks, prices, count


@compiled
def comes_first(mask: int, other: int) -> bool:
    """Return whether the sorted tuple of one set is lexicographically smaller than that of another."""
    differ = mask ^ other
    if differ == 0:
        return False
    lowest = differ & -differ
    if mask & lowest:
        return other > lowest  # the other one continues with a larger table
    return mask < lowest  # this one is a prefix


@compiled_no_refcount
def ticks_until_broken(curves: PackedCurves, left: Counts, extra: Counts, rates: Floats, bound: float) -> int:
    """Return the predicted number of ticks until the limit is broken again, 1 … `FARTHEST`."""
    low, high = 0, 1
    while high < FARTHEST and not _breaks(curves, left, extra, rates, bound, high):
        low, high = high, 2 * high
    high = min(high, FARTHEST)
    while high - low > 1:
        middle = (low + high) // 2
        if _breaks(curves, left, extra, rates, bound, middle):
            high = middle
        else:
            low = middle
    return high


@compiled_no_refcount
def _breaks(curves: PackedCurves, left: Counts, extra: Counts, rates: Floats, bound: float, ticks: int) -> bool:
    work = 0.0
    for i in range(len(left)):
        work += cost_of(curves, i, extra[i] + int(np.floor(left[i] + rates[i] * ticks + 1e-9)))
    return work > bound


@compiled
def choose(  # noqa: PLR0913
    curves: PackedCurves,
    counts: Counts,
    extra: Counts,
    rates: Floats,
    tick: int,
    spent: float,
    bound: float,
    recompute: float,
    rule: int,
) -> tuple[int, float]:
    """Return the set that `rule` empties at `tick`, and its price; `spent` was paid before (`docs/design/views.md`
    §2.5, §5).

    Ties: the smaller price, then the lexicographically smaller tuple.
    """
    if rule == NAIVE:
        whole = everything(counts)
        return whole, min(price_of(curves, counts, whole), recompute)
    masks, prices, sets = minimal_sets(curves, counts, extra, bound, recompute)
    best = -1
    least = 0.0
    left = np.empty_like(counts)
    for which in range(sets):
        score = prices[which]
        if rule != CHEAPEST and sets > 1:
            for i in range(len(counts)):
                left[i] = 0 if masks[which] >> i & 1 else counts[i]
            ticks = ticks_until_broken(curves, left, extra, rates, bound)
            score = (spent + score) / (tick + ticks) if rule == HISTORY else score / ticks
        if best >= 0:
            if score > least:
                continue
            if score == least and prices[which] > prices[best]:
                continue
            if score == least and prices[which] == prices[best] and comes_first(masks[best], masks[which]):
                continue
        best, least = which, score
    if best < 0:
        return 0, 0.0
    return masks[best], prices[best]
