"""Parts chosen, repaired and given their bounds: all of a greedy plan in one compiled call, and of many."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tolerant.kernels.compiled import compiled
from tolerant.planning.allocation import level_of
from tolerant.planning.arrays import SLACK, Flags, Floats, Integers
from tolerant.planning.assignment import rated, repair, sums_of, total_cost
from tolerant.planning.greedy import choose
from tolerant.planning.network import Table
from tolerant.planning.problem import Problem, gather


class Chosen(NamedTuple):
    """owner, decided int64[n]: who answers each item, and in which round that was decided. bounds, floors float64[n]:
    of the part that the item is in.
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
    bounds, floors = np.empty(owner.size), np.empty(owner.size)
    level = 0.0
    if not problem.extreme:
        level = level_of(parts.slopes, parts.floors, parts.offsets, problem.within)
    for i in range(owner.size):
        a = owner[i]
        floors[i] = parts.floors[a]
        bounds[i] = max(floors[i], parts.offsets[a] + level * parts.slopes[a])
        if problem.extreme:
            bounds[i] = problem.within
    cost = total_cost(problem.extreme, problem.within, parts)
    return Chosen(owner, decided, repairs, bounds, floors, cost)


class Motion(NamedTuple):
    """The arrays of `Dynamics`."""

    sumdiff: Floats
    cosine: Floats


class Batch(NamedTuple):
    """Queries one after the other: items of query q stand from start[q] to start[q + 1] in signed, places, columns."""

    start: Integers
    signed: Floats
    places: Integers
    columns: Integers
    within: Floats
    extreme: Flags


class ChosenMany(NamedTuple):
    """`Chosen` of every query, by item or by query; tightest: the bound that could be met, above `within`: no plan."""

    owner: Integers
    decided: Integers
    bounds: Floats
    floors: Floats
    repairs: Integers
    cost: Floats
    tightest: Floats


@compiled
def chosen_many(
    batch: Batch, dynamics: Motion, table: Table, aggregators: int, rule: int, alpha: float, key: np.uint64
) -> ChosenMany:
    """Greedy plans of many queries over one network, which is gathered from where it lies."""
    queries, items = batch.within.size, batch.signed.size
    out = ChosenMany(
        np.empty(items, np.int64),
        np.empty(items, np.int64),
        np.empty(items),
        np.empty(items),
        np.empty(queries, np.int64),
        np.empty(queries),
        np.empty(queries),
    )
    everybody = np.zeros(0, np.int64)
    for q in range(queries):
        begin, end = batch.start[q], batch.start[q + 1]
        within, extreme = batch.within[q], batch.extreme[q]
        apart, weight, motion, mixing, floors, out.tightest[q] = gather(
            batch.signed[begin:end],
            batch.places[begin:end],
            dynamics.sumdiff,
            dynamics.cosine,
            batch.columns[begin:end],
            table,
            everybody,
            aggregators,
            within,
            extreme,
        )
        if out.tightest[q] > within * (1.0 + SLACK):
            continue
        problem = Problem(apart, weight, motion, mixing, floors, within, extreme)
        found = chosen(problem, rule, 0.0 if extreme else alpha, weight, key)
        out.repairs[q], out.cost[q] = found.repairs, found.cost
        for k in range(end - begin):
            out.owner[begin + k], out.decided[begin + k] = found.owner[k], found.decided[k]
            out.bounds[begin + k], out.floors[begin + k] = found.bounds[k], found.floors[k]
    return out
