"""Splits items over several aggregators, which answer a share each (`docs/design/planning.md` §5.2).

Halves of an item in two parts add in quadrature with the other items there, so that the parts together move less than
with the whole item in one of them: of three equal independent items on aggregators {1, 2} and {2, 3} the middle one is
best halved. Begins with whole items and moves shares from part to part while the estimated cost falls.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tolerant.kernels.compiled import compiled, compiled_no_refcount
from tolerant.planning.optimizer.assignment import PartRates, PartSums, total_cost
from tolerant.planning.optimizer.bound_allocation import level_of
from tolerant.planning.optimizer.plan_problem import PlanProblem, offset_of, roughness_of
from tolerant.planning.planning_arrays import Floats, Integers

WORTH = 0.02
"""The least fraction of the cost that a further copy of an item must save: it is work for another aggregator."""

LEAST = 1e-6
"""The least fraction of the cost that any other step must save."""

PASSES = 30
"""The most passes over all items."""

_GRID = 8
_GOLDEN = 12  # steps of the golden section between two points of the grid
_INVERSE = 0.6180339887498949


class SplitParts(NamedTuple):
    """holders int64[k]: the aggregators of the parts; shares float64[k, n] of each item, 1 in all. bounds, floors
    float64[k]: of the parts.
    """

    holders: Integers
    shares: Floats
    bounds: Floats
    floors: Floats
    cost: float


@compiled
def split_items(problem: PlanProblem, owner: Integers) -> SplitParts:
    """Return good shares of a sum's items in the parts that `owner`, int64[n], makes of whole items."""
    holders = np.unique(owner)
    k, n = holders.size, owner.size
    shares, floors = np.zeros((k, n)), np.empty((k, n))
    for p in range(k):
        for i in range(n):
            floors[p, i] = problem.floors[holders[p], i]
            if owner[i] == holders[p]:
                shares[p, i] = 1.0
    for _ in range(PASSES):
        if not _improved(problem, floors, shares):
            break
    parts = _rate_parts(_sums(problem, floors, shares))
    level = level_of(parts.slopes, parts.floors, parts.offsets, problem.within)
    bounds = np.maximum(parts.floors, parts.offsets + level * parts.slopes)
    return SplitParts(holders, shares, bounds, parts.floors, total_cost(False, problem.within, parts))


@compiled
def _improved(problem: PlanProblem, floors: Floats, shares: Floats) -> bool:
    """Try every item and every two parts once, move what saves cost, and return whether anything did."""
    k, n = shares.shape
    sums = _sums(problem, floors, shares)
    parts = _rate_parts(sums)
    trial = PartRates(parts.slopes.copy(), parts.floors.copy(), parts.offsets.copy())
    before = cost = total_cost(False, problem.within, parts)
    for i in range(n):
        for p in range(k):
            for q in range(k):
                if p == q or shares[p, i] == 0.0 or floors[q, i] == np.inf:
                    continue
                moved, lower = _best_move(problem, sums, floors, shares, i, p, q, parts, trial)
                further = shares[q, i] == 0.0 and moved < shares[p, i]
                if lower < cost * (1.0 - (WORTH if further else LEAST)):
                    shares[q, i] += moved
                    shares[p, i] = 0.0 if moved == shares[p, i] else shares[p, i] - moved
                    sums = _sums(problem, floors, shares)
                    parts = _rate_parts(sums)
                    trial = PartRates(parts.slopes.copy(), parts.floors.copy(), parts.offsets.copy())
                    cost = total_cost(False, problem.within, parts)
    return cost < before * (1.0 - LEAST)


@compiled_no_refcount
def _best_move(  # noqa: PLR0913
    problem: PlanProblem,
    s: PartSums,
    floors: Floats,
    shares: Floats,
    i: int,
    p: int,
    q: int,
    parts: PartRates,
    trial: PartRates,
) -> tuple[float, float]:
    """Return how much of item i to move from part p to part q, all of it at most, and the cost then."""
    most = shares[p, i]
    best, least = most, _cost_after_move(problem, s, floors, shares, i, p, q, most, parts, trial)
    for step in range(1, _GRID):
        cost = _cost_after_move(problem, s, floors, shares, i, p, q, most * step / _GRID, parts, trial)
        if cost < least:
            best, least = most * step / _GRID, cost
    if best == most:
        return best, least
    low, high = best - most / _GRID, best + most / _GRID
    for _ in range(_GOLDEN):
        left, right = high - _INVERSE * (high - low), low + _INVERSE * (high - low)
        lower = _cost_after_move(problem, s, floors, shares, i, p, q, left, parts, trial)
        upper = _cost_after_move(problem, s, floors, shares, i, p, q, right, parts, trial)
        if lower < upper:
            high, best, least = (right, left, lower) if lower < least else (right, best, least)
        else:
            low, best, least = (left, right, upper) if upper < least else (left, best, least)
    return best, least


@compiled_no_refcount
def _cost_after_move(  # noqa: PLR0913
    problem: PlanProblem,
    s: PartSums,
    floors: Floats,
    shares: Floats,
    i: int,
    p: int,
    q: int,
    share: float,
    parts: PartRates,
    trial: PartRates,
) -> float:
    """Return the cost with `share` of item i moved from part p to part q; `trial` equals `parts` before and after."""
    for part, more in ((p, -share), (q, share)):
        floor = floors[part, i]
        trial.floors[part] = max(s.floor[part] + more * floor, 0.0)
        squares = s.squares[part] + more * (2.0 * shares[part, i] + more) * floor**2
        trial.offsets[part] = offset_of(False, trial.floors[part], max(squares, 0.0))
        apart, weight = s.apart[part] + more * problem.apart[i], s.weight[part] + more * problem.weight[i]
        num = s.num[part] + more * (2.0 * s.rows[part, i] + more * problem.motion[i, i])
        den = s.den[part] + more * (2.0 * s.mixed[part, i] + more * problem.mixing[i, i])
        trial.slopes[part] = np.cbrt(roughness_of(num, den, max(apart, 0.0), max(weight, 0.0)))
    if s.size[p] == 1 and share == shares[p, i]:  # nothing is left of the part
        trial.slopes[p], trial.floors[p], trial.offsets[p] = 0.0, 0.0, 0.0
    cost = total_cost(False, problem.within, trial)
    for part in (p, q):
        trial.slopes[part], trial.floors[part] = parts.slopes[part], parts.floors[part]
        trial.offsets[part] = parts.offsets[part]
    return cost


@compiled
def _sums(problem: PlanProblem, floors: Floats, shares: Floats) -> PartSums:
    """Return the sums of the parts. floors float64[k, n]: of each item at the aggregator of each part."""
    k, n = shares.shape
    s = PartSums(
        np.zeros(k, np.int64),
        np.zeros(k),
        np.zeros(k),
        np.zeros(k),
        np.zeros(k),
        np.zeros(k),
        np.zeros(k),
        np.zeros((k, n)),
        np.zeros((k, n)),
    )
    for p in range(k):
        for i in range(n):
            share = shares[p, i]
            if share > 0.0:
                s.size[p] += 1
                s.apart[p] += share * problem.apart[i]
                s.weight[p] += share * problem.weight[i]
                s.floor[p] += share * floors[p, i]
                s.squares[p] += (share * floors[p, i]) ** 2
                for j in range(n):
                    s.rows[p, j] += share * problem.motion[i, j]
                    s.mixed[p, j] += share * problem.mixing[i, j]
        for i in range(n):
            s.num[p] += shares[p, i] * s.rows[p, i]
            s.den[p] += shares[p, i] * s.mixed[p, i]
    return s


@compiled
def _rate_parts(s: PartSums) -> PartRates:
    """Return the parts' slopes, floors and offsets; 0 for a part without items."""
    k = s.size.size
    r = PartRates(np.zeros(k), s.floor.copy(), np.zeros(k))
    for p in range(k):
        if s.size[p] > 0:
            r.slopes[p] = np.cbrt(roughness_of(s.num[p], s.den[p], s.apart[p], s.weight[p]))
            r.offsets[p] = offset_of(False, s.floor[p], s.squares[p])
    return r
