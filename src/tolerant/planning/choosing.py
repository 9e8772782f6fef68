"""Parts chosen, repaired and given their bounds: all of a greedy plan, in one compiled call for speed."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tolerant.kernels.compiled import compiled
from tolerant.planning.allocation import level_of
from tolerant.planning.arrays import Floats, Integers
from tolerant.planning.assignment import rated, repair, sums_of, total_cost
from tolerant.planning.greedy import choose
from tolerant.planning.problem import Problem


class Chosen(NamedTuple):
    """owner, decided int64[n]: who answers each item, and in which round that was decided. bounds, floors float64[m]:
    of each aggregator's part.
    """

    owner: Integers
    decided: Integers
    repairs: int
    bounds: Floats
    floors: Floats
    cost: float


@compiled
def chosen(problem: Problem, rule: int, alpha: float, limits: Floats, key: np.uint64) -> Chosen:
    """The parts of a greedy rule, repaired, with the best bounds for them (§2.6)."""
    owner, decided = choose(problem, rule, alpha, limits, key)
    repairs = repair(problem, owner)
    parts = rated(problem, sums_of(problem, owner))
    bounds = np.empty(parts.slopes.size)
    level = 0.0
    if not problem.extreme:
        level = level_of(parts.slopes, parts.floors, parts.offsets, problem.within)
    for a in range(bounds.size):
        bounds[a] = max(parts.floors[a], parts.offsets[a] + level * parts.slopes[a])
        if problem.extreme:
            bounds[a] = problem.within
    cost = total_cost(problem.extreme, problem.within, parts)
    return Chosen(owner, decided, repairs, bounds, parts.floors, cost)
