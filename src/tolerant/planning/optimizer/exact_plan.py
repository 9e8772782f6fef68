"""Finds the cheapest of all assignments of a small query's items (`docs/design/planning.md` §2.7).

A price μ on the bound makes the parts independent, so that the cheapest partition is a sum over subsets; its cost less
μ·within is below that of any plan (Lagrange). At the best price this lower bound is within a few percent, and a
depth-first search that it cuts short visits a few dozen plans, whose bounds are then divided exactly.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from tolerant.kernels.compiled import compiled, compiled_no_refcount
from tolerant.planning.optimizer.assignment import PartRates, total_cost
from tolerant.planning.optimizer.part_blocks import PartBlocks, blocks_of
from tolerant.planning.optimizer.plan_problem import PlanProblem
from tolerant.planning.planning_arrays import SLACK, Floats, Integers

LARGEST = 14
"""The most items for which the optimum is guaranteed."""


class PricedPartitions(NamedTuple):
    """At one price: phi float64[choices] of each choice; block float64[2^n] the best of a block, choice which that is;
    rest float64[2^n] the cheapest partition of a set, split its block that has the lowest item.
    """

    phi: Floats
    block: Floats
    choice: Integers
    rest: Floats
    split: Integers


def improve(problem: PlanProblem, fixed: PartRates, price: float, cost: float, owner: Integers) -> float:
    """Write the cheapest assignment into `owner` if it costs less than `cost`; return the least cost.

    fixed: parts of other items, which share the bound and get no further items. price: where the search for μ begins.
    """
    blocks = blocks_of(problem)
    count = blocks.slope.size
    priced = PricedPartitions(
        np.empty(blocks.mask.size),
        np.empty(count),
        np.zeros(count, np.int64),
        np.zeros(count),
        np.zeros(count, np.int64),
    )
    if problem.extreme:
        return _improve_extreme(problem.within, blocks, priced, fixed, cost, owner)
    best, bound = _best_price(problem.within, blocks, priced, fixed, price, cost)
    if bound >= cost * (1.0 - SLACK):
        return cost
    base = _value(problem.within, blocks, priced, fixed, best)[0] - priced.rest[-1]
    return _visit(problem, blocks, priced, fixed, base, cost, owner)


def _best_price(
    within: float, blocks: PartBlocks, priced: PricedPartitions, fixed: PartRates, price: float, cost: float
) -> tuple[float, float]:
    """Return the μ with nearly the highest lower bound, and that bound, by bisection."""
    best, bound, low, high = price, -np.inf, 0.0, 0.0
    for _ in range(40):
        lower, spent = _value(within, blocks, priced, fixed, price)
        if lower > bound:
            best, bound = price, lower
        if bound >= cost * (1.0 - SLACK) or abs(spent - within) <= 1e-9 * within:
            break
        if spent > within:
            low = price
        else:
            high = price
        if low > 0.0 and high > 0.0:
            if high < 1.03 * low:
                break
            price = math.sqrt(low * high)
        else:
            price = low * 4.0 if low > 0.0 else high / 4.0
    return best, bound


@compiled
def _phi(slope: float, floor: float, offset: float, price: float, reach: float) -> float:
    """Return the minimum over C ≥ X of A/(C − h)² + μC; reach = (2/μ)^⅓."""
    if offset + slope * reach >= floor:
        return price * (offset + 1.5 * slope * reach)
    return slope**3 / (floor - offset) ** 2 + price * floor


@compiled_no_refcount
def _value(
    within: float, blocks: PartBlocks, priced: PricedPartitions, fixed: PartRates, price: float
) -> tuple[float, float]:
    """Return L(μ), the cheapest partition at this price with the fixed parts, less μ·within; and how much of the bound
    it uses. Fills `priced`.
    """
    reach = np.cbrt(2.0 / price)
    for mask in range(priced.block.size):
        priced.block[mask] = np.inf
    for e in range(blocks.mask.size):
        mask = blocks.mask[e]
        priced.phi[e] = _phi(blocks.slope[mask], blocks.floor[e], blocks.offset[e], price, reach)
        if priced.phi[e] < priced.block[mask]:
            priced.block[mask], priced.choice[mask] = priced.phi[e], e
    _partition(blocks, priced)
    left = priced.rest.size - 1
    total, spent = priced.rest[left] - price * within, 0.0
    while left > 0:
        block = priced.split[left]
        e = priced.choice[block]
        spent += max(blocks.floor[e], blocks.offset[e] + blocks.slope[block] * reach)
        left ^= block
    for k in range(fixed.slopes.size):
        if fixed.slopes[k] > 0.0:
            total += _phi(fixed.slopes[k], fixed.floors[k], fixed.offsets[k], price, reach)
            spent += max(fixed.floors[k], fixed.offsets[k] + fixed.slopes[k] * reach)
    return total, spent


@compiled_no_refcount
def _partition(blocks: PartBlocks, priced: PricedPartitions) -> None:
    """Compute the cheapest partition of every set: the block of its lowest item, then the cheapest of the rest."""
    priced.rest[0] = 0.0
    for mask in range(1, priced.rest.size):
        i = blocks.lowest[mask]
        others = mask ^ (1 << i)
        best, split = np.inf, 0
        begin, end = blocks.first[i], blocks.first[i + 1]
        if end - begin <= 1 << (blocks.size[mask] - 1):  # fewer blocks that are served than subsets
            for k in range(begin, end):
                block = blocks.served[k]
                if block & ~mask == 0:
                    cost = priced.block[block] + priced.rest[mask ^ block]
                    if cost < best:
                        best, split = cost, block
        else:
            some = others
            while True:
                block = some | (1 << i)
                cost = priced.block[block] + priced.rest[mask ^ block]
                if cost < best:
                    best, split = cost, block
                if some == 0:
                    break
                some = (some - 1) & others
        priced.rest[mask], priced.split[mask] = best, split


@compiled
def _visit(
    problem: PlanProblem,
    blocks: PartBlocks,
    priced: PricedPartitions,
    fixed: PartRates,
    base: float,
    cost: float,
    owner: Integers,
) -> float:
    """Search (block, aggregator) choices depth first, cut where even the lower bound of the rest is no better."""
    m, n = problem.floors.shape
    others = fixed.slopes.size
    leaf = PartRates(np.zeros(others + n), np.zeros(others + n), np.zeros(others + n))
    for k in range(others):
        leaf.slopes[k], leaf.floors[k], leaf.offsets[k] = fixed.slopes[k], fixed.floors[k], fixed.offsets[k]
    tightest = _tightest(problem)
    rest, at, chosen = np.zeros(n + 1, np.int64), np.zeros(n + 1, np.int64), np.zeros(n + 1, np.int64)
    spent, floor = np.zeros(n + 1), np.zeros(n + 1)
    used = np.zeros(m, np.bool_)
    rest[0], at[0], spent[0], floor[0] = priced.rest.size - 1, blocks.start[0], base, fixed.floors.sum()
    depth = 0
    while depth >= 0:
        if at[depth] == blocks.start[blocks.lowest[rest[depth]] + 1]:
            leaf.slopes[others + depth], leaf.floors[others + depth], leaf.offsets[others + depth] = 0.0, 0.0, 0.0
            depth -= 1
            if depth >= 0:
                used[blocks.who[chosen[depth]]] = False
            continue
        e = at[depth]
        at[depth] += 1
        block = blocks.mask[e]
        if block & ~rest[depth] or used[blocks.who[e]]:
            continue
        left = rest[depth] ^ block
        if spent[depth] + priced.phi[e] + priced.rest[left] >= cost * (1.0 - SLACK):
            continue
        if floor[depth] + blocks.floor[e] + tightest[left] > problem.within * (1.0 + SLACK):
            continue
        chosen[depth] = e
        leaf.slopes[others + depth] = blocks.slope[block]
        leaf.floors[others + depth] = blocks.floor[e]
        leaf.offsets[others + depth] = blocks.offset[e]
        if left:
            used[blocks.who[e]] = True
            rest[depth + 1], at[depth + 1] = left, blocks.start[blocks.lowest[left]]
            spent[depth + 1] = spent[depth] + priced.phi[e]
            floor[depth + 1] = floor[depth] + blocks.floor[e]
            depth += 1
            continue
        leaf_cost = total_cost(False, problem.within, leaf)
        if leaf_cost < cost:
            cost = leaf_cost
            for d in range(depth + 1):
                _move_items(blocks, chosen[d], owner)
    return cost


@compiled_no_refcount
def _move_items(blocks: PartBlocks, choice: int, owner: Integers) -> None:
    for i in range(owner.size):
        if blocks.mask[choice] >> i & 1:
            owner[i] = blocks.who[choice]


@compiled
def _tightest(problem: PlanProblem) -> Floats:
    """Return the least sum of floors of every set of items, float64[2^n]."""
    n = problem.apart.size
    least = np.zeros(1 << n)
    for i in range(n):
        tight = np.inf
        for a in range(problem.floors.shape[0]):
            tight = min(tight, problem.floors[a, i])
        for mask in range(1 << i, 1 << (i + 1)):
            least[mask] = least[mask ^ (1 << i)] + tight
    return least


def _improve_extreme(
    within: float, blocks: PartBlocks, priced: PricedPartitions, fixed: PartRates, cost: float, owner: Integers
) -> float:
    """Improve the assignment of a min or max, whose costs add up and whose bounds are not divided: one partition. With
    unit weights two parts at one aggregator cost no less than one, so that nothing is lost by joining them.
    """
    order = np.lexsort((blocks.floor, blocks.mask))[::-1]  # the tightest choice of a block comes last, and stays
    priced.choice[blocks.mask[order]] = order
    priced.block[:] = math.inf
    priced.block[blocks.mask] = blocks.slope[blocks.mask] ** 3 / within**2
    _partition(blocks, priced)
    total = float(priced.rest[-1] + (fixed.slopes**3).sum() / within**2)
    if total >= cost * (1.0 - SLACK):
        return cost
    left = priced.rest.size - 1
    while left > 0:
        _move_items(blocks, priced.choice[priced.split[left]], owner)
        left ^= priced.split[left]
    return total
