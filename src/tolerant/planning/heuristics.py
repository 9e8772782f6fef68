"""Which aggregator answers which part of a query, and how precisely (`specs/3-planning.md` §2.6)."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from tolerant.kernels.random import key_of
from tolerant.planning.allocation import level_of
from tolerant.planning.arrays import SLACK, Integers
from tolerant.planning.assembling import assembled, names_of, parts_of
from tolerant.planning.assignment import rated_parts, total_cost
from tolerant.planning.choosing import Batch, Chosen, Motion, chosen, chosen_many
from tolerant.planning.dynamics import Dynamics
from tolerant.planning.exact import LARGEST
from tolerant.planning.greedy import GIVEN_BOUNDS, MAX_GAIN, MAX_GAIN_RELATIVE, MIN_COST, RANDOM
from tolerant.planning.network import Network
from tolerant.planning.plans import Part, Plan, Unsatisfiable
from tolerant.planning.problem import EVERYONE, Asked, asked, effective_weights, impossible
from tolerant.planning.search import searched, solved
from tolerant.planning.splitting import shared_out
from tolerant.queries import Aggregate

_RULES = {"random": RANDOM, "min-cost": MIN_COST, "max-gain": MAX_GAIN, "max-gain-relative": MAX_GAIN_RELATIVE}
_APART = ("naive", "optimal-bounds")
HEURISTICS = (*_APART, *_RULES, "search", "exact", "split")
"""The ways to choose parts that `plan` knows."""

SPLIT_EXACTLY = 12
"""Up to so many items "split" begins with the exact plan, beyond with that of "search"."""


def plan(
    query: Aggregate,
    network: Network,
    dynamics: Dynamics,
    heuristic: str = "max-gain",
    *,
    alpha: float = 0.0,
    seed: int = 0,
) -> Plan:
    """Split the query into parts, an aggregator and a bound each, so that few messages reach the client.

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
    return _planned(asked(query, network, dynamics), network, dynamics, heuristic, float(alpha), seed)


def plan_many(
    queries: Iterable[Aggregate],
    network: Network,
    dynamics: Dynamics,
    heuristic: str = "max-gain",
    *,
    alpha: float = 0.0,
    seed: int = 0,
) -> list[Plan | Unsatisfiable]:
    """A plan for each query, in order; where none meets the bound the `Unsatisfiable` that says so stands in its place.

    Raises:
        ValueError: a bad argument, or a query that has no item, no tolerance, or an item without dynamics.
    """
    _check(heuristic, alpha)
    queries = list(queries)
    if heuristic in _RULES and len(network.aggregators) <= EVERYONE:
        return _greedy_many(queries, network, dynamics, heuristic, float(alpha), seed)
    found: list[Plan | Unsatisfiable] = []
    for query in queries:
        try:
            found.append(_planned(asked(query, network, dynamics), network, dynamics, heuristic, float(alpha), seed))
        except Unsatisfiable as no_plan:
            found.append(no_plan)
    return found


def _greedy_many(
    queries: Sequence[Aggregate], network: Network, dynamics: Dynamics, heuristic: str, alpha: float, seed: int
) -> list[Plan | Unsatisfiable]:
    """All queries in one compiled call."""
    weights = [effective_weights(query) for query in queries]
    start = np.concatenate([[0], np.cumsum([len(some) for some in weights])]).astype(np.int64)
    index = network.index
    batch = Batch(
        start,
        np.array([weight for some in weights for weight in some.values()], np.float64),
        dynamics.at(item for some in weights for item in some),
        np.array([index.get(item, -1) for some in weights for item in some], np.int64),
        np.array([query.within for query in queries], np.float64),
        np.array([query.fn in ("min", "max") for query in queries], np.bool_),
    )
    motion = Motion(dynamics.sumdiff, dynamics.cosine)
    many = chosen_many(
        batch, motion, network.table, len(network.aggregators), _RULES[heuristic], alpha, _key(heuristic, seed)
    )
    owner, decided, bounds, floors, repairs, cost, tightest = (array.tolist() for array in many)
    found: list[Plan | Unsatisfiable] = []
    for q, (query, some) in enumerate(zip(queries, weights, strict=True)):
        if tightest[q] > query.within * (1 + SLACK):
            found.append(impossible(query, some, network))
            continue
        own = slice(start[q], start[q + 1])
        parts = parts_of(some, network.aggregators, owner[own], decided[own], bounds[own], floors[own])
        found.append(Plan(query, network, parts, cost[q], repairs[q], dynamics))
    return found


def _key(heuristic: str, seed: int) -> np.uint64:
    return key_of(seed) if heuristic == "random" else np.uint64(0)


def plan_with(query: Aggregate, network: Network, dynamics: Dynamics, item_bounds: Mapping[str, float]) -> Plan:
    """A plan whose bounds are decided beforehand: |w|·b of each item (seed §4.2.1), chosen by least cost an item.

    An aggregator may serve an item only if it holds it within b.

    Raises:
        Unsatisfiable: nobody holds some item within its bound.
        ValueError: a bad argument; the bounds add up to more than the query's.
    """
    if query.fn in ("min", "max"):
        raise ValueError(f"bounds of a {query.fn} are not divided; plan_with takes sums, averages and counts")
    for item, bound in item_bounds.items():
        if not (math.isfinite(bound) and bound > 0):
            raise ValueError(f"item_bounds: the bound of {item!r} must be finite and positive, got {bound}")
    ready = asked(query, network, dynamics)
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
    found = chosen(problem, GIVEN_BOUNDS, 0.0, limits, np.uint64(0))
    r = rated_parts(problem, found.owner)
    bounds = np.zeros(r.slopes.size)
    np.add.at(bounds, found.owner, limits)
    used = r.slopes > 0
    cost = float((r.slopes[used] ** 3 / (bounds - r.offsets)[used] ** 2).sum())
    given = Chosen(found.owner, found.decided, 0, bounds[found.owner], r.floors[found.owner], cost)
    return assembled(ready, network, dynamics, given)


def _check(heuristic: str, alpha: float) -> None:
    if heuristic not in HEURISTICS:
        raise ValueError(f"heuristic must be one of {', '.join(HEURISTICS)}, got {heuristic!r}")
    if not (math.isfinite(alpha) and alpha >= 0):
        raise ValueError(f"alpha must be finite and not negative, got {alpha}")


def _planned(ready: Asked, network: Network, dynamics: Dynamics, heuristic: str, alpha: float, seed: int) -> Plan:
    problem = ready.problem
    if heuristic in _APART:
        return _one_an_item(ready, network, dynamics, heuristic)
    if problem.extreme:
        alpha = 0.0  # no floor is too large for a bound that is not divided
    rule = _RULES.get(heuristic)
    if rule is not None:
        found = chosen(problem, rule, alpha, problem.weight, _key(heuristic, seed))
        return assembled(ready, network, dynamics, found)
    if heuristic == "search" or (heuristic == "split" and len(ready.weights) > SPLIT_EXACTLY):
        owner = searched(problem, alpha)
    elif len(ready.weights) <= LARGEST:
        owner = solved(problem, alpha)
    else:
        raise ValueError(
            f"exact plans are for at most {LARGEST} items, query {ready.query.name!r} has {len(ready.weights)}; "
            'heuristic="search" takes any number'
        )
    if heuristic == "split" and not problem.extreme:  # of a min or max a share means nothing
        return _split(ready, network, dynamics, owner)
    return _divided(ready, network, dynamics, owner)


def _split(ready: Asked, network: Network, dynamics: Dynamics, owner: Integers) -> Plan:
    """The plan in which items of these parts may have shares in others of them."""
    found, names = shared_out(ready.problem, owner), names_of(ready, network)
    parts = []
    for holder, shares, bound, floor in zip(*(array.tolist() for array in found[:4]), strict=True):
        weights = {
            item: weight * share for (item, weight), share in zip(ready.weights.items(), shares, strict=True) if share
        }
        if weights:
            parts.append(Part(names[holder], weights, bound, floor))
    return Plan(ready.query, network, tuple(parts), float(found.cost), 0, dynamics)


def _divided(ready: Asked, network: Network, dynamics: Dynamics, owner: Integers) -> Plan:
    """The plan of these parts with the best bounds for them."""
    problem = ready.problem
    parts = rated_parts(problem, owner)
    cost = total_cost(problem.extreme, problem.within, parts)
    bounds = np.full(parts.slopes.size, problem.within)
    if not problem.extreme:
        level = level_of(parts.slopes, parts.floors, parts.offsets, problem.within)
        bounds = np.maximum(parts.floors, parts.offsets + level * parts.slopes)
    found = Chosen(owner, owner, 0, bounds[owner], parts.floors[owner], cost)
    return assembled(ready, network, dynamics, found)


def _one_an_item(ready: Asked, network: Network, dynamics: Dynamics, heuristic: str) -> Plan:
    """Every item apart, at its tightest aggregator; equal bounds on the items, or the best ones."""
    problem = ready.problem
    holders = problem.floors.argmin(axis=0)
    floors = problem.floors.min(axis=0)
    # A part of one item is as rough as w²R, and its copies' errors have nothing to cancel with: no offset.
    slopes, nothing = np.cbrt(problem.apart * problem.weight), np.zeros(floors.size)
    if problem.extreme:
        bounds = np.full(floors.size, problem.within)
    else:
        shares = problem.weight if heuristic == "naive" else slopes
        bounds = np.maximum(floors, level_of(shares, floors, nothing, problem.within) * shares)
    with np.errstate(divide="ignore"):
        cost = float((slopes**3 / bounds**2).sum())
    names = names_of(ready, network)
    parts = tuple(
        Part(names[place], {item: weight}, bound, floor)
        for place, (item, weight), bound, floor in zip(
            holders.tolist(), ready.weights.items(), bounds.tolist(), floors.tolist(), strict=True
        )
    )
    return Plan(ready.query, network, parts, cost, 0, dynamics)
