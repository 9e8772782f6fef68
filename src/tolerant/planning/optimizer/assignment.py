"""Items assigned to aggregators: the sums of each part, the cost of all, and repair (`docs/design/planning.md` §2.4,
§2.6).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tolerant.kernels.compiled import compiled, compiled_no_refcount
from tolerant.planning.optimizer.bound_allocation import cost_at, level_of
from tolerant.planning.optimizer.plan_problem import PlanProblem, offset_of, roughness_of
from tolerant.planning.planning_arrays import SLACK, Floats, Integers


class PartSums(NamedTuple):
    """Sums over the items of each aggregator's part, all 0 where it has none; float64[m]. rows and mixed
    float64[m, n]: Σ over the part of motion and mixing with each item.
    """

    size: Integers
    num: Floats
    den: Floats
    apart: Floats
    weight: Floats
    floor: Floats
    squares: Floats
    rows: Floats
    mixed: Floats


class PartRates(NamedTuple):
    """Slope A^⅓, floor X and offset h of each aggregator's part; slope 0 where it has none. float64[m] each."""

    slopes: Floats
    floors: Floats
    offsets: Floats


@compiled
def sums_of(problem: PlanProblem, owner: Integers) -> PartSums:
    """Return the sums of the parts that `owner`, int64[n], makes."""
    m, n = problem.floors.shape
    s = PartSums(
        np.zeros(m, np.int64),
        np.zeros(m),
        np.zeros(m),
        np.zeros(m),
        np.zeros(m),
        np.zeros(m),
        np.zeros(m),
        np.zeros((m, n)),
        np.zeros((m, n)),
    )
    for i in range(n):
        a = owner[i]
        s.size[a] += 1
        s.apart[a] += problem.apart[i]
        s.weight[a] += problem.weight[i]
        if problem.extreme:
            s.floor[a] = max(s.floor[a], problem.floors[a, i])
            s.num[a] = max(s.num[a], problem.apart[i] ** 2)
            s.den[a] = max(s.den[a], problem.weight[i] ** 2)
            continue
        s.floor[a] += problem.floors[a, i]
        s.squares[a] += problem.floors[a, i] ** 2
        for j in range(n):
            s.rows[a, j] += problem.motion[i, j]
            s.mixed[a, j] += problem.mixing[i, j]
    if not problem.extreme:
        for i in range(n):
            s.num[owner[i]] += s.rows[owner[i], i]
            s.den[owner[i]] += s.mixed[owner[i], i]
    return s


@compiled
def rate_parts(problem: PlanProblem, s: PartSums) -> PartRates:
    """Return the parts' slopes, floors and offsets."""
    m = s.size.size
    r = PartRates(np.zeros(m), s.floor.copy(), np.zeros(m))
    for a in range(m):
        if s.size[a] > 0:
            r.slopes[a] = np.cbrt(roughness_of(s.num[a], s.den[a], s.apart[a], s.weight[a]))
            r.offsets[a] = offset_of(problem.extreme, s.floor[a], s.squares[a])
    return r


@compiled
def total_cost(extreme: bool, within: float, r: PartRates) -> float:
    """Return Z of the parts with the best bounds for them; infinite where their floors do not fit."""
    if extreme:
        total = 0.0
        for a in range(r.slopes.size):
            total += r.slopes[a] ** 3
        return total / within**2
    if r.floors.sum() > within * (1.0 + SLACK):
        return np.inf
    return cost_at(r.slopes, r.floors, r.offsets, level_of(r.slopes, r.floors, r.offsets, within))


@compiled
def rates_of(problem: PlanProblem, owner: Integers) -> PartRates:
    """Return the slopes, floors and offsets of the parts that `owner` makes."""
    return rate_parts(problem, sums_of(problem, owner))


@compiled_no_refcount
def repair(problem: PlanProblem, owner: Integers) -> int:
    """Move items to their tightest aggregators until the floors fit, the largest relief first; return how many."""
    n = owner.size
    moved = 0
    if problem.extreme:
        return moved
    while True:
        total, most, item, to = 0.0, 0.0, -1, -1
        for i in range(n):
            here = problem.floors[owner[i], i]
            total += here
            tightest = 0
            for a in range(problem.floors.shape[0]):
                if problem.floors[a, i] < problem.floors[tightest, i]:
                    tightest = a
            if here - problem.floors[tightest, i] > most:
                most, item, to = here - problem.floors[tightest, i], i, tightest
        if item < 0 or total <= problem.within * (1.0 + SLACK):
            return moved
        owner[item] = to
        moved += 1
