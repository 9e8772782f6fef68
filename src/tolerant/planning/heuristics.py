"""Plans a query: which aggregator answers which part of it, and how precisely (`docs/design/planning.md` §2.6)."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from tolerant.kernels.random import key_of
from tolerant.planning.aggregator_network import Network
from tolerant.planning.dynamics import Dynamics
from tolerant.planning.optimizer.assignment import rates_of, total_cost
from tolerant.planning.optimizer.bound_allocation import level_of
from tolerant.planning.optimizer.exact_plan import LARGEST
from tolerant.planning.optimizer.greedy_plan import (
    GreedyParts,
    ItemMotion,
    QueryBatch,
    plan_greedily,
    plan_greedily_many,
)
from tolerant.planning.optimizer.greedy_rules import GIVEN_BOUNDS, MAX_GAIN, MAX_GAIN_RELATIVE, MIN_COST, RANDOM
from tolerant.planning.optimizer.item_split import split_items
from tolerant.planning.optimizer.plan_assembly import assemble, names_of, parts_of
from tolerant.planning.optimizer.plan_problem import SMALL_NETWORK, QueryProblem, effective_weights, pose, unsatisfiable
from tolerant.planning.optimizer.plan_search import search, solve
from tolerant.planning.planning_arrays import SLACK, Integers
from tolerant.planning.query_plan import Part, Plan, Unsatisfiable
from tolerant.queries import Aggregate

_RULES = {"random": RANDOM, "min-cost": MIN_COST, "max-gain": MAX_GAIN, "max-gain-relative": MAX_GAIN_RELATIVE}
_APART = ("naive", "optimal-bounds")
HEURISTICS = (*_APART, *_RULES, "search", "exact", "split")
"""The heuristics that `plan` knows."""

SPLIT_EXACTLY = 12
"""Up to so many items "split" begins with the exact plan, above with that of "search"."""


def plan(
    query: Aggregate,
    network: Network,
    dynamics: Dynamics,
    heuristic: str = "max-gain",
    *,
    alpha: float = 0.0,
    seed: int = 0,
) -> Plan:
    """Split the query into parts, each with an aggregator and a bound, so that few messages reach the client.

    heuristic: "max-gain" is good and quick; "exact" is the cheapest by estimate, for at most 14 items, "search" nearly
    so for any number; "split" lets several aggregators answer shares of one item. alpha: how much tight aggregators
    are preferred, so that fewer choices need repair. seed: decides for "random".

    >>> network = Network({"D1": {"S1": 0.5, "S3": 0.2}, "D2": {"S1": 1.0, "S2": 0.1, "S4": 0.2}})
    >>> dynamics = Dynamics(("S1", "S2", "S3"), [2, 1, 0.5], [[1, -0.5, 0.2], [-0.5, 1, 0], [0.2, 0, 1]])
    >>> query = Aggregate("folio", "sum", {"S1": 50, "S2": 200, "S3": 150}, within=120)
    >>> [(part.aggregator, tuple(part.weights), round(part.within, 4)) for part in plan(query, network, dynamics).parts]
    [('D2', ('S1', 'S2'), 76.8247), ('D1', ('S3',), 43.1753)]

    Raises:
        Unsatisfiable: no plan at all meets the bound; it says which bound could be met.
        ValueError: a bad argument, or more than 14 items for "exact".
    """
    _check(heuristic, alpha)
    return _planned(pose(query, network, dynamics), heuristic, float(alpha), seed)


def plan_many(
    queries: Iterable[Aggregate],
    network: Network,
    dynamics: Dynamics,
    heuristic: str = "max-gain",
    *,
    alpha: float = 0.0,
    seed: int = 0,
) -> list[Plan | Unsatisfiable]:
    """Return a plan per query, in order; where none meets the bound, the `Unsatisfiable` that says so.

    Raises:
        ValueError: a bad argument, or a query that has no item, no tolerance, or an item without dynamics.
    """
    _check(heuristic, alpha)
    queries = list(queries)
    if heuristic in _RULES and len(network.aggregators) <= SMALL_NETWORK:
        return _greedy_many(queries, network, dynamics, heuristic, float(alpha), seed)
    plans: list[Plan | Unsatisfiable] = []
    for query in queries:
        try:
            plans.append(_planned(pose(query, network, dynamics), heuristic, float(alpha), seed))
        except Unsatisfiable as no_plan:
            plans.append(no_plan)
    return plans


def _greedy_many(
    queries: Sequence[Aggregate], network: Network, dynamics: Dynamics, heuristic: str, alpha: float, seed: int
) -> list[Plan | Unsatisfiable]:
    """Plan all queries in one compiled call."""
    weights = [effective_weights(query) for query in queries]
    start = np.concatenate([[0], np.cumsum([len(some) for some in weights])]).astype(np.int64)
    index = network.index
    batch = QueryBatch(
        start,
        np.array([weight for some in weights for weight in some.values()], np.float64),
        dynamics.at(item for some in weights for item in some),
        np.array([index.get(item, -1) for some in weights for item in some], np.int64),
        np.array([query.within for query in queries], np.float64),
        np.array([query.fn in ("min", "max") for query in queries], np.bool_),
    )
    motion = ItemMotion(dynamics.sumdiff, dynamics.cosine)
    many = plan_greedily_many(
        batch, motion, network.table, len(network.aggregators), _RULES[heuristic], alpha, _key(heuristic, seed)
    )
    owner, decided, bounds, floors, repairs, cost, tightest = (array.tolist() for array in many)
    plans: list[Plan | Unsatisfiable] = []
    for q, (query, some) in enumerate(zip(queries, weights, strict=True)):
        if tightest[q] > query.within * (1 + SLACK):
            plans.append(unsatisfiable(query, some, network))
            continue
        own = slice(start[q], start[q + 1])
        parts = parts_of(some, network.aggregators, owner[own], decided[own], bounds[own], floors[own])
        plans.append(Plan(query, network, parts, cost[q], repairs[q], dynamics))
    return plans


def _key(heuristic: str, seed: int) -> np.uint64:
    return key_of(seed) if heuristic == "random" else np.uint64(0)


def plan_with(query: Aggregate, network: Network, dynamics: Dynamics, item_bounds: Mapping[str, float]) -> Plan:
    """Plan with bounds that are decided beforehand: |w|·b of each item ([GR07] §4.2.1), chosen by least cost per item.

    An aggregator may serve an item only if its copy is within b.

    Raises:
        Unsatisfiable: no aggregator holds some item within its bound.
        ValueError: a bad argument; the bounds add up to more than the query's.
    """
    if query.fn in ("min", "max"):
        raise ValueError(f"bounds of a {query.fn} are not divided; plan_with takes sums, averages and counts")
    for item, bound in item_bounds.items():
        if not (math.isfinite(bound) and bound > 0):
            raise ValueError(f"item_bounds: the bound of {item!r} must be finite and positive, got {bound}")
    ready = pose(query, network, dynamics)
    missing = [item for item in ready.weights if item not in item_bounds]
    if missing:
        raise ValueError(f"item_bounds: item {missing[0]!r} of query {query.name!r} has none")
    limits = ready.problem.weight * np.array([float(item_bounds[item]) for item in ready.weights])
    if limits.sum() > query.within * (1 + SLACK):
        raise ValueError(f"item_bounds add up to {limits.sum():g}, more than within = {query.within:g}")
    floors = np.where(ready.problem.floors <= limits * (1 + SLACK), ready.problem.floors, math.inf)
    loose = [item for item, low in zip(ready.weights, floors.min(axis=0), strict=True) if low == math.inf]
    if loose:
        named = ", ".join(repr(item) for item in loose)
        raise Unsatisfiable(f"no aggregator holds {named} within the bound given", items=tuple(loose))
    problem = ready.problem._replace(floors=floors)
    chosen = plan_greedily(problem, GIVEN_BOUNDS, 0.0, limits, np.uint64(0))
    rates, owner = rates_of(problem, chosen.owner), chosen.owner
    bounds = np.zeros(rates.slopes.size)
    np.add.at(bounds, owner, limits)
    used = rates.slopes > 0
    cost = float((rates.slopes[used] ** 3 / (bounds - rates.offsets)[used] ** 2).sum())
    return assemble(ready, GreedyParts(owner, chosen.decided, 0, bounds[owner], rates.floors[owner], cost))


def _check(heuristic: str, alpha: float) -> None:
    if heuristic not in HEURISTICS:
        raise ValueError(f"heuristic must be one of {', '.join(HEURISTICS)}, got {heuristic!r}")
    if not (math.isfinite(alpha) and alpha >= 0):
        raise ValueError(f"alpha must be finite and not negative, got {alpha}")


def _planned(ready: QueryProblem, heuristic: str, alpha: float, seed: int) -> Plan:
    problem = ready.problem
    if heuristic in _APART:
        return _one_part_per_item(ready, heuristic)
    if problem.extreme:
        alpha = 0.0  # no floor is too large for a bound that is not divided
    rule = _RULES.get(heuristic)
    if rule is not None:
        return assemble(ready, plan_greedily(problem, rule, alpha, problem.weight, _key(heuristic, seed)))
    if heuristic == "search" or (heuristic == "split" and len(ready.weights) > SPLIT_EXACTLY):
        owner = search(problem, alpha)
    elif len(ready.weights) <= LARGEST:
        owner = solve(problem, alpha)
    else:
        raise ValueError(
            f"exact plans are for at most {LARGEST} items, query {ready.query.name!r} has {len(ready.weights)}; "
            'heuristic="search" takes any number'
        )
    if heuristic == "split" and not problem.extreme:  # of a min or max a share means nothing
        return _split(ready, owner)
    return _divided(ready, owner)


def _split(ready: QueryProblem, owner: Integers) -> Plan:
    """Return the plan in which items of these parts may have shares in others of them."""
    split, names = split_items(ready.problem, owner), names_of(ready)
    parts = []
    for holder, shares, bound, floor in zip(*(array.tolist() for array in split[:4]), strict=True):
        weights = {
            item: weight * share for (item, weight), share in zip(ready.weights.items(), shares, strict=True) if share
        }
        if weights:
            parts.append(Part(names[holder], weights, bound, floor))
    return Plan(ready.query, ready.network, tuple(parts), float(split.cost), 0, ready.dynamics)


def _divided(ready: QueryProblem, owner: Integers) -> Plan:
    """Return the plan of these parts with the best bounds for them."""
    problem = ready.problem
    parts = rates_of(problem, owner)
    cost = total_cost(problem.extreme, problem.within, parts)
    bounds = np.full(parts.slopes.size, problem.within)
    if not problem.extreme:
        level = level_of(parts.slopes, parts.floors, parts.offsets, problem.within)
        bounds = np.maximum(parts.floors, parts.offsets + level * parts.slopes)
    return assemble(ready, GreedyParts(owner, owner, 0, bounds[owner], parts.floors[owner], cost))


def _one_part_per_item(ready: QueryProblem, heuristic: str) -> Plan:
    """Return the plan with every item apart, at its tightest aggregator, with equal bounds or the best ones."""
    problem = ready.problem
    holders = problem.floors.argmin(axis=0)
    floors = problem.floors.min(axis=0)
    # A part of one item has roughness w²R, and the errors of its copies have nothing to cancel with: no offset.
    slopes, nothing = np.cbrt(problem.apart * problem.weight), np.zeros(floors.size)
    if problem.extreme:
        bounds = np.full(floors.size, problem.within)
    else:
        shares = problem.weight if heuristic == "naive" else slopes
        bounds = np.maximum(floors, level_of(shares, floors, nothing, problem.within) * shares)
    with np.errstate(divide="ignore"):
        cost = float((slopes**3 / bounds**2).sum())
    names = names_of(ready)
    parts = tuple(
        Part(names[place], {item: weight}, bound, floor)
        for place, (item, weight), bound, floor in zip(
            holders.tolist(), ready.weights.items(), bounds.tolist(), floors.tolist(), strict=True
        )
    )
    return Plan(ready.query, ready.network, parts, cost, 0, ready.dynamics)
