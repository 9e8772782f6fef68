"""Which aggregator answers which part of a query, and how precisely (`specs/3-planning.md` §2.6)."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType

import numpy as np

from tolerant.kernels.random import key_of
from tolerant.planning.allocation import level_of
from tolerant.planning.arrays import SLACK, Integers
from tolerant.planning.assignment import rated_parts, total_cost
from tolerant.planning.choosing import chosen
from tolerant.planning.dynamics import Dynamics
from tolerant.planning.exact import LARGEST
from tolerant.planning.greedy import GIVEN_BOUNDS, MAX_GAIN, MAX_GAIN_RELATIVE, MIN_COST, RANDOM
from tolerant.planning.network import Network
from tolerant.planning.plans import Part, Plan, Unsatisfiable
from tolerant.planning.problem import Asked, asked
from tolerant.planning.search import searched, solved
from tolerant.queries import Aggregate

_RULES = {"random": RANDOM, "min-cost": MIN_COST, "max-gain": MAX_GAIN, "max-gain-relative": MAX_GAIN_RELATIVE}
_APART = ("naive", "optimal-bounds")
HEURISTICS = (*_APART, *_RULES, "search", "exact")
"""The ways to choose parts that `plan` knows."""


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
    so for any number. alpha: how much tight aggregators are preferred, so that fewer choices need repair. seed: decides
    for "random".

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
        ValueError: a bad argument, naming the query.
    """
    _check(heuristic, alpha)
    found: list[Plan | Unsatisfiable] = []
    for query in queries:
        try:
            found.append(_planned(asked(query, network, dynamics), network, dynamics, heuristic, float(alpha), seed))
        except Unsatisfiable as impossible:
            found.append(impossible)
    return found


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
    bounds = np.bincount(found.owner, limits, minlength=r.slopes.size)
    used = r.slopes > 0
    cost = float((r.slopes[used] ** 3 / (bounds - r.offsets)[used] ** 2).sum())
    return _assembled(ready, network, dynamics, found.owner, found.decided, bounds.tolist(), r.floors.tolist(), cost, 0)


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
        key = key_of(seed) if rule == RANDOM else np.uint64(0)
        found = chosen(problem, rule, alpha, problem.weight, key)
        return _assembled(
            ready,
            network,
            dynamics,
            found.owner,
            found.decided,
            found.bounds.tolist(),
            found.floors.tolist(),
            found.cost,
            found.repairs,
        )
    if heuristic == "search":
        owner = searched(problem, alpha)
    elif len(ready.weights) <= LARGEST:
        owner = solved(problem, alpha)
    else:
        raise ValueError(
            f"exact plans are for at most {LARGEST} items, query {ready.query.name!r} has {len(ready.weights)}; "
            'heuristic="search" takes any number'
        )
    return _divided(ready, network, dynamics, owner)


def _divided(ready: Asked, network: Network, dynamics: Dynamics, owner: Integers) -> Plan:
    """The plan of these parts with the best bounds for them."""
    problem = ready.problem
    parts = rated_parts(problem, owner)
    cost = total_cost(problem.extreme, problem.within, parts)
    floors = parts.floors.tolist()
    if problem.extreme:
        bounds = [problem.within] * len(floors)
    else:
        level = level_of(parts.slopes, parts.floors, parts.offsets, problem.within)
        bounds = np.maximum(parts.floors, parts.offsets + level * parts.slopes).tolist()
    return _assembled(ready, network, dynamics, owner, owner, bounds, floors, cost, 0)


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
    names = _names(ready, network, holders)
    parts = tuple(
        Part(name, {item: weight}, bound, floor)
        for name, (item, weight), bound, floor in zip(
            names, ready.weights.items(), bounds.tolist(), floors.tolist(), strict=True
        )
    )
    return Plan(ready.query, network, parts, cost, 0, dynamics)


def _names(ready: Asked, network: Network, places: Iterable[int]) -> list[str]:
    if ready.rows is None:
        return [network.aggregators[place] for place in places]
    return [network.aggregators[ready.rows[place]] for place in places]


def _assembled(
    ready: Asked,
    network: Network,
    dynamics: Dynamics,
    owner: Integers,
    order: Integers,
    bounds: Sequence[float],
    floors: Sequence[float],
    cost: float,
    repairs: int,
) -> Plan:
    """The plan, its parts in the order in which they were chosen, each part's items in the query's."""
    held: dict[int, dict[str, float]] = {}
    first: dict[int, int] = {}
    for (item, weight), place, turn in zip(ready.weights.items(), owner.tolist(), order.tolist(), strict=True):
        if place not in held:
            held[place], first[place] = {}, turn
        held[place][item] = weight
        if turn < first[place]:
            first[place] = turn
    places = sorted(held, key=first.__getitem__)
    parts = tuple(
        [
            Part(name, MappingProxyType(held[place]), bounds[place], floors[place])
            for name, place in zip(_names(ready, network, places), places, strict=True)
        ]
    )
    return Plan(ready.query, network, parts, cost, repairs, dynamics)
