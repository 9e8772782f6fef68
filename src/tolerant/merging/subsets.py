"""Exact plans by dynamic programming over sets of units ([CBGM] §6.1; `docs/design/merging.md` §2.5)."""

from __future__ import annotations

import numpy as np

from tolerant.kernels.array_types import Floats, Integers
from tolerant.kernels.compiled import compiled
from tolerant.merging.pricing import Pricing
from tolerant.merging.sizes import measured

PARTITION_LIMIT = 18
"""Largest number of units for `best_partition`: 3¹⁸ steps take half a second."""

COVER_LIMIT = 12
"""Largest number of units for `best_cover`: 4¹² steps."""


def best_partition(pricing: Pricing, units: Integers) -> list[Integers]:
    """Return the cheapest partition of these units, as groups of units."""
    _refuse(len(units), PARTITION_LIMIT, "partition")
    chosen = _partition(subset_prices(pricing, units), len(units))
    return _groups(chosen, units)


def best_cover(pricing: Pricing, units: Integers) -> list[Integers]:
    """Return the cheapest collection of groups that covers these units; groups may overlap."""
    _refuse(len(units), COVER_LIMIT, "exhaustive")
    chosen = _cover(subset_prices(pricing, units), len(units))
    return _groups(chosen, units)


def subset_prices(pricing: Pricing, units: Integers) -> Floats:
    """Return c(M) of every subset, float[2^k]: bit i of the index says whether it has units[i]; 0 for the empty one."""
    if pricing.procedure != "box":
        bits = [np.flatnonzero((subset >> np.arange(len(units))) & 1) for subset in range(1, 1 << len(units))]
        return np.concatenate([np.zeros(1), pricing.of([units[chosen] for chosen in bits])])
    total = np.zeros(1 << len(units))
    for weight, due in zip(pricing.due.weights, pricing.due.members, strict=True):
        total += weight * _box_prices(pricing, units, due[units])
    return total


def _box_prices(pricing: Pricing, units: Integers, due: np.ndarray) -> Floats:
    """c of the due members of every subset: the boxes with unit i are those without it, grown."""
    boxes, costs = pricing.units.boxes[units], pricing.costs
    half = boxes.shape[1] // 2
    joint = np.empty((1 << len(units), 2 * half))
    joint[0, :half], joint[0, half:] = np.inf, -np.inf
    counts = np.zeros(len(joint))
    for i in range(len(units)):
        old, new = slice(0, 1 << i), slice(1 << i, 2 << i)
        joint[new], counts[new] = joint[old], counts[old]
        if due[i]:
            np.minimum(joint[old, :half], boxes[i, :half], out=joint[new, :half])
            np.maximum(joint[old, half:], boxes[i, half:], out=joint[new, half:])
            counts[new] += pricing.units.counts[units[i]]
    prices, some = np.zeros(len(joint)), counts > 0
    sizes = measured(pricing.size, joint[some])
    prices[some] = costs.channel + (costs.transfer + costs.waste * counts[some]) * sizes
    prices[some] += pricing.answered(joint[some])
    return prices


def _refuse(units: int, limit: int, method: str) -> None:
    if units > limit:
        raise ValueError(
            f"method {method!r} takes at most {limit} distinct rectangles that belong together, got {units}"
        )


def _groups(chosen: Integers, units: Integers) -> list[Integers]:
    places = np.arange(len(units))
    return [units[((subset >> places) & 1).astype(np.bool_)] for subset in chosen]


@compiled
def _partition(prices: Floats, k: int) -> Integers:
    """best[X] = min over M ⊆ X with the lowest element of X of c(M) + best[X∖M]; 3^(k − 1) steps.

    The first element is in the first M: of the sets that contain it only the whole one is needed. The others are
    numbered without it, so that lookups are close together.
    """
    size = 1 << (k - 1)
    best, choice, later = np.zeros(size), np.zeros(size, np.int64), prices[::2].copy()
    for subset in range(1, size):
        lowest = subset & -subset
        best[subset], choice[subset] = _best_part(later, best, subset ^ lowest, lowest)
    _, first = _best_part(prices[1::2].copy(), best, size - 1, 0)
    chosen, count, subset = np.empty(k, np.int64), 1, (size - 1) & ~first
    chosen[0] = 2 * first + 1
    while subset:
        chosen[count] = 2 * choice[subset]
        subset &= ~choice[subset]
        count += 1
    return chosen[:count].copy()


@compiled
def _best_part(prices: Floats, best: Floats, rest: int, always: int) -> tuple[float, int]:
    """The least c(M) + best[what is left], and M: `always` and any part of `rest`."""
    part, least, chosen = rest, np.inf, rest | always
    while True:
        cost = prices[part | always] + best[rest ^ part]
        if cost < least:
            least, chosen = cost, part | always
        if part == 0:
            break
        part = (part - 1) & rest
    return least, chosen


@compiled
def _cover(prices: Floats, k: int) -> Integers:
    """As `_partition`, but M may reach beyond X: what is covered already is covered twice. 4^k steps."""
    best, choice = np.zeros(1 << k), np.zeros(1 << k, np.int64)
    for subset in range(1, 1 << k):
        lowest = subset & -subset
        least, chosen = np.inf, subset
        for part in range((1 << k) - 1, 0, -1):
            if part & lowest:
                cost = prices[part] + best[subset & ~part]
                # Of equal costs choose the set that covers nothing twice.
                if cost < least or (cost == least and part & ~subset == 0 and chosen & ~subset != 0):
                    least, chosen = cost, part
        best[subset], choice[subset] = least, chosen
    return _unfold(choice, k)


@compiled
def _unfold(choice: Integers, k: int) -> Integers:
    chosen, count, subset = np.empty(k, np.int64), 0, (1 << k) - 1
    while subset:
        chosen[count] = choice[subset]
        subset &= ~choice[subset]
        count += 1
    return chosen[:count].copy()
