"""Which tables may be emptied when the limit is broken: the minimal sets, and the rules that choose among them.

A set of tables is an integer, bit i for table i. `counts` are the pending rows before the action; `extra` are rows that
are expected before one can act again and must be borne as well (0 without `lead`).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tolerant.kernels.compiled import borrowing, compiled
from tolerant.views.curves import Packed, cost_of

Counts = NDArray[np.int64]
Floats = NDArray[np.float64]

NAIVE, HISTORY, PER_TICK, CHEAPEST = range(4)
"""Rules: all tables; the seed's H; cost per tick of peace; least cost now."""

FARTHEST = 100_000
"""Ticks ahead that a prediction looks."""

MOST_TABLES = 16
"""There may be 2ⁿ − 1 sets to look at for n tables."""


@borrowing
def price_of(curves: Packed, counts: Counts, mask: int) -> float:
    """What emptying the tables of `mask` costs."""
    price = 0.0
    for i in range(len(counts)):
        if mask >> i & 1:
            price += cost_of(curves, i, counts[i])
    return price


@borrowing
def everything(counts: Counts) -> int:
    """The set of tables that have pending rows."""
    mask = 0
    for i in range(len(counts)):
        if counts[i] > 0:
            mask |= 1 << i
    return mask


@borrowing
def left_over(curves: Packed, counts: Counts, extra: Counts, mask: int) -> float:
    """The pending work when the tables of `mask` are emptied."""
    work = 0.0
    for i in range(len(counts)):
        work += cost_of(curves, i, extra[i] + (0 if mask >> i & 1 else counts[i]))
    return work


@compiled
def minimal_sets(
    curves: Packed, counts: Counts, extra: Counts, bound: float, recompute: float
) -> tuple[NDArray[np.int64], Floats, int]:
    """The minimal sets whose emptying mends the limit, what each costs, and how many there are (the arrays are longer).

    All tables where no set mends it (one tick may bring more than the limit). With a finite `recompute`, which empties
    all at one price, sets that cost more are left out and that one is added. None where the limit is not broken.
    """
    whole = everything(counts)
    masks, prices = np.empty(whole + 1, np.int64), np.empty(whole + 1)
    mends = np.zeros(whole + 1, np.bool_)
    found, mask = 0, 0
    while True:
        mends[mask] = left_over(curves, counts, extra, mask) <= bound
        minimal = mends[mask] or mask == whole
        for i in range(len(counts)):
            if mask >> i & 1 and mends[mask ^ (1 << i)]:
                minimal = False
        if minimal and mask > 0:
            price = price_of(curves, counts, mask)
            if price <= recompute:
                masks[found], prices[found] = mask, price
                found += 1
        if mask == whole:
            break
        mask = (mask - whole) & whole  # the next subset of `whole`
    if whole > 0 and not mends[0] and price_of(curves, counts, whole) > recompute:
        masks[found], prices[found] = whole, recompute
        found += 1
    return masks, prices, found


@compiled
def comes_first(one: int, other: int) -> bool:
    """Whether the sorted tuple of one set is lexicographically smaller than that of another."""
    differ = one ^ other
    if differ == 0:
        return False
    lowest = differ & -differ
    if one & lowest:
        return other > lowest  # the other one goes on, with a larger table
    return one < lowest  # this one has ended: it is a prefix


@borrowing
def peace(curves: Packed, left: Counts, extra: Counts, rates: Floats, bound: float) -> int:
    """The predicted number of ticks until the limit is broken again, 1 … `FARTHEST`."""
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


@borrowing
def _breaks(curves: Packed, left: Counts, extra: Counts, rates: Floats, bound: float, ticks: int) -> bool:
    work = 0.0
    for i in range(len(left)):
        work += cost_of(curves, i, extra[i] + int(np.floor(left[i] + rates[i] * ticks + 1e-9)))
    return work > bound


@compiled
def choose(
    curves: Packed,
    counts: Counts,
    extra: Counts,
    rates: Floats,
    tick: int,
    spent: float,
    bound: float,
    recompute: float,
    rule: int,
) -> tuple[int, float]:
    """The set that `rule` empties at `tick`, and its price; `spent` was paid in the ticks before (`specs` §2.5, §5).

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
            ticks = peace(curves, left, extra, rates, bound)
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
