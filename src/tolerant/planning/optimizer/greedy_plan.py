"""Greedy plans, of one query or of many, in one compiled call: parts chosen, repaired and given their bounds."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tolerant.kernels.compiled import compiled
from tolerant.planning.aggregator_network import HolderTable
from tolerant.planning.optimizer.assignment import rate_parts, repair, sums_of, total_cost
from tolerant.planning.optimizer.bound_allocation import level_of
from tolerant.planning.optimizer.greedy_rules import choose
from tolerant.planning.optimizer.plan_problem import PlanProblem, gather
from tolerant.planning.planning_arrays import SLACK, Flags, Floats, Integers


class GreedyParts(NamedTuple):
    """owner, decided int64[n]: the aggregator of each item, and the round in which it was decided. bounds, floors
    float64[n]: of the part that the item is in.
    """

    owner: Integers
    decided: Integers
    repairs: int
    bounds: Floats
    floors: Floats
    cost: float


@compiled
def plan_greedily(problem: PlanProblem, rule: int, alpha: float, limits: Floats, key: np.uint64) -> GreedyParts:
    """Return the parts of a greedy rule, repaired, with the best bounds for them (§2.6)."""
    owner, decided = choose(problem, rule, alpha, limits, key)
    repairs = repair(problem, owner)
    parts = rate_parts(problem, sums_of(problem, owner))
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
    return GreedyParts(owner, decided, repairs, bounds, floors, cost)


class ItemMotion(NamedTuple):
    """The arrays of `Dynamics`."""

    sumdiff: Floats
    cosine: Floats


class QueryBatch(NamedTuple):
    """Queries one after the other: items of query q are from start[q] to start[q + 1] in signed, places, columns."""

    start: Integers
    signed: Floats
    places: Integers
    columns: Integers
    within: Floats
    extreme: Flags


class GreedyPartsMany(NamedTuple):
    """`GreedyParts` of every query, by item or by query. tightest: the bound that can be met; no plan if larger."""

    owner: Integers
    decided: Integers
    bounds: Floats
    floors: Floats
    repairs: Integers
    cost: Floats
    tightest: Floats


@compiled
def plan_greedily_many(
    batch: QueryBatch,
    dynamics: ItemMotion,
    table: HolderTable,
    aggregators: int,
    rule: int,
    alpha: float,
    key: np.uint64,
) -> GreedyPartsMany:
    """Return greedy plans of many queries over one network, without a copy of it per query."""
    queries, items = batch.within.size, batch.signed.size
    out = GreedyPartsMany(
        np.empty(items, np.int64),
        np.empty(items, np.int64),
        np.empty(items),
        np.empty(items),
        np.empty(queries, np.int64),
        np.empty(queries),
        np.empty(queries),
    )
    all_aggregators = np.zeros(0, np.int64)
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
            all_aggregators,
            aggregators,
            within,
            extreme,
        )
        if out.tightest[q] > within * (1.0 + SLACK):
            continue
        problem = PlanProblem(apart, weight, motion, mixing, floors, within, extreme)
        parts = plan_greedily(problem, rule, 0.0 if extreme else alpha, weight, key)
        out.repairs[q], out.cost[q] = parts.repairs, parts.cost
        for k in range(end - begin):
            out.owner[begin + k], out.decided[begin + k] = parts.owner[k], parts.decided[k]
            out.bounds[begin + k], out.floors[begin + k] = parts.bounds[k], parts.floors[k]
    return out
