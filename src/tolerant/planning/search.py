"""Good plans of any size: descent, then small groups of parts solved exactly (`specs/3-planning.md` §2.7)."""

from __future__ import annotations

import math
from itertools import combinations

import numpy as np

from tolerant.planning.allocation import level_of
from tolerant.planning.arrays import Integers
from tolerant.planning.assignment import Rated, rated_parts
from tolerant.planning.choosing import chosen
from tolerant.planning.descent import LEAST, descend
from tolerant.planning.exact import improve
from tolerant.planning.greedy import MAX_GAIN, MAX_GAIN_RELATIVE, MIN_COST
from tolerant.planning.problem import Problem

GROUP = 12
"""The most items that are regrouped at a time."""

TRIES = 5_000
"""The most groups that are looked at: a query of hundreds of items has more than are worth the time."""


def started(problem: Problem, alpha: float) -> list[Integers]:
    """The assignments of max-gain, min-cost and max-gain-relative, each repaired, the cheapest first."""
    rules = (MAX_GAIN, MIN_COST, MAX_GAIN_RELATIVE)
    plans = [chosen(problem, rule, alpha, problem.weight, np.uint64(0)) for rule in rules]
    return [found.owner for found in sorted(plans, key=lambda found: found.cost)]


def searched(problem: Problem, alpha: float) -> Integers:
    """Descent, then regrouping of two or three parts, until neither helps."""
    cost, owner = min(((float(descend(problem, start)), start) for start in started(problem, alpha)), key=_cost)
    tries = TRIES
    while tries > 0:
        found, tries = _regroup(problem, owner, cost, tries)
        if found >= cost * (1.0 - LEAST):
            break
        cost = descend(problem, owner)
    return owner


def solved(problem: Problem, alpha: float) -> Integers:
    """The cheapest assignment of all; for at most `exact.LARGEST` items."""
    owner = started(problem, alpha)[0]
    cost = descend(problem, owner)
    parts = rated_parts(problem, owner)
    improve(problem, Rated(_NONE, _NONE, _NONE), _price(problem, parts), cost, owner)
    return owner


_NONE = np.zeros(0)


def _cost(end: tuple[float, Integers]) -> float:
    return end[0]


def _price(problem: Problem, parts: Rated) -> float:
    """What a unit of the bound is worth to these parts: μ = 2/λ³."""
    level = level_of(parts.slopes, parts.floors, parts.offsets, problem.within)
    if level > 0.0:
        return 2.0 / level**3
    return float(2.0 * (parts.slopes.sum() / problem.within) ** 3)


def _regroup(problem: Problem, owner: Integers, cost: float, tries: int) -> tuple[float, int]:
    """Improve the first group of two or three parts that can be; the cost then, and how many tries are left."""
    parts = rated_parts(problem, owner)
    price = _price(problem, parts)
    held = {a: np.flatnonzero(owner == a) for a in np.unique(owner).tolist()}
    for count in (2, 3):
        for group in combinations(held, count):
            if sum(held[a].size for a in group) > GROUP:
                continue
            if tries == 0:
                return cost, tries
            tries -= 1
            items = np.concatenate([held[a] for a in group])
            found = _resolve(problem, owner, parts, np.array(group), items, price, cost)
            if found < cost * (1.0 - LEAST):
                return found, tries
    return cost, tries


def _resolve(
    problem: Problem, owner: Integers, parts: Rated, group: Integers, items: Integers, price: float, cost: float
) -> float:
    """Solve for the items of a group of parts, the other parts' sums fixed; changes `owner` if that is better."""
    fixed = Rated(parts.slopes.copy(), parts.floors.copy(), parts.offsets.copy())
    for array in fixed:
        array[group] = 0.0
    floors = np.ascontiguousarray(problem.floors[:, items])
    floors[fixed.slopes > 0] = math.inf  # they have a part of other items
    both = (items[:, None], items)
    small = Problem(
        problem.apart[items],
        problem.weight[items],
        problem.motion[both],
        problem.mixing[both],
        floors,
        problem.within,
        problem.extreme,
    )
    local = owner[items]
    found = improve(small, fixed, price, cost, local)
    if found < cost * (1.0 - LEAST):
        owner[items] = local
    return found
