"""Searches good plans of any size: descent, then small groups of parts solved exactly (`docs/design/planning.md`
§2.7).
"""

from __future__ import annotations

import math
from itertools import combinations

import numpy as np

from tolerant.planning.optimizer.assignment import PartRates, rates_of
from tolerant.planning.optimizer.assignment_descent import LEAST, descend
from tolerant.planning.optimizer.bound_allocation import level_of
from tolerant.planning.optimizer.exact_plan import improve
from tolerant.planning.optimizer.greedy_plan import plan_greedily
from tolerant.planning.optimizer.greedy_rules import MAX_GAIN, MAX_GAIN_RELATIVE, MIN_COST
from tolerant.planning.optimizer.plan_problem import PlanProblem
from tolerant.planning.planning_arrays import Integers

GROUP = 12
"""The most items that are regrouped at a time."""

TRIES = 5_000
"""The most groups that are tried: a query of hundreds of items has more than are worth the time."""


def greedy_starts(problem: PlanProblem, alpha: float) -> list[Integers]:
    """Return the assignments of max-gain, min-cost and max-gain-relative, each repaired, the cheapest first."""
    rules = (MAX_GAIN, MIN_COST, MAX_GAIN_RELATIVE)
    plans = [plan_greedily(problem, rule, alpha, problem.weight, np.uint64(0)) for rule in rules]
    return [parts.owner for parts in sorted(plans, key=lambda parts: parts.cost)]


def search(problem: PlanProblem, alpha: float) -> Integers:
    """Return an assignment by descent, then regrouping of two or three parts, until neither helps."""
    cost, owner = min(((float(descend(problem, start)), start) for start in greedy_starts(problem, alpha)), key=_cost)
    tries = TRIES
    while tries > 0:
        improved, tries = _regroup(problem, owner, cost, tries)
        if improved >= cost * (1.0 - LEAST):
            break
        cost = descend(problem, owner)
    return owner


def solve(problem: PlanProblem, alpha: float) -> Integers:
    """Return the cheapest assignment of all; for at most `exact_plan.LARGEST` items."""
    owner = greedy_starts(problem, alpha)[0]
    cost = descend(problem, owner)
    parts = rates_of(problem, owner)
    improve(problem, PartRates(_NONE, _NONE, _NONE), _price(problem, parts), cost, owner)
    return owner


_NONE = np.zeros(0)


def _cost(end: tuple[float, Integers]) -> float:
    return end[0]


def _price(problem: PlanProblem, parts: PartRates) -> float:
    """Return what a unit of the bound is worth to these parts: μ = 2/λ³."""
    level = level_of(parts.slopes, parts.floors, parts.offsets, problem.within)
    if level > 0.0:
        return 2.0 / level**3
    return float(2.0 * (parts.slopes.sum() / problem.within) ** 3)


def _regroup(problem: PlanProblem, owner: Integers, cost: float, tries: int) -> tuple[float, int]:
    """Improve the first group of two or three parts that can be; return the cost, and how many tries are left."""
    parts = rates_of(problem, owner)
    price = _price(problem, parts)
    members = {a: np.flatnonzero(owner == a) for a in np.unique(owner).tolist()}
    for count in (2, 3):
        for group in combinations(members, count):
            if sum(members[a].size for a in group) > GROUP:
                continue
            if tries == 0:
                return cost, tries
            tries -= 1
            items = np.concatenate([members[a] for a in group])
            improved = _resolve(problem, owner, parts, np.array(group), items, price, cost)
            if improved < cost * (1.0 - LEAST):
                return improved, tries
    return cost, tries


def _resolve(
    problem: PlanProblem, owner: Integers, parts: PartRates, group: Integers, items: Integers, price: float, cost: float
) -> float:
    """Solve for the items of a group of parts, the other parts' sums fixed; changes `owner` if that is better."""
    fixed = PartRates(parts.slopes.copy(), parts.floors.copy(), parts.offsets.copy())
    for array in fixed:
        array[group] = 0.0
    floors = np.ascontiguousarray(problem.floors[:, items])
    floors[fixed.slopes > 0] = math.inf  # they have a part of other items
    both = (items[:, None], items)
    small = PlanProblem(
        problem.apart[items],
        problem.weight[items],
        problem.motion[both],
        problem.mixing[both],
        floors,
        problem.within,
        problem.extreme,
    )
    local = owner[items]
    improved = improve(small, fixed, price, cost, local)
    if improved < cost * (1.0 - LEAST):
        owner[items] = local
    return improved
