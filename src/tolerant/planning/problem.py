"""A query on a network as arrays, and the cost of a part (`specs/3-planning.md` §2.1, §2.4)."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from tolerant.kernels.compiled import compiled
from tolerant.planning.arrays import SLACK, Floats, Integers
from tolerant.planning.dynamics import Dynamics
from tolerant.planning.network import Network
from tolerant.planning.plans import Unsatisfiable
from tolerant.queries import Aggregate

_EVERYONE = 512
"""Networks up to this size are taken whole: dropping aggregators that serve nothing of the query costs more."""

STILLEST = 1e-6
"""No item counts as moving less than this share of the query's liveliest; nor a part, of what its items move."""


class Problem(NamedTuple):
    """What the compiled loops need to know; n items, m aggregators.

    apart float64[n]: |w|R. weight float64[n]: |w|. motion, mixing float64[n, n]: w_i w_j ρ_ij R_i R_j and w_i w_j ρ_ij.
    floors float64[m, n]: |w|c, infinite where the aggregator does not serve the item. extreme: min or max.
    """

    apart: Floats
    weight: Floats
    motion: Floats
    mixing: Floats
    floors: Floats
    within: float
    extreme: bool


class Asked(NamedTuple):
    """A query made ready: its items with their effective weights, its arrays, and who the rows of `floors` are."""

    query: Aggregate
    weights: dict[str, float]
    problem: Problem
    rows: Integers | None


def effective_weights(query: Aggregate) -> dict[str, float]:
    """The weights w with value = Σ w·s (for min and max: of w·s); items of weight 0 are dropped.

    Raises:
        ValueError: nothing is left, or `within` is not positive.
    """
    if not query.within > 0:
        raise ValueError(f"within of query {query.name!r} must be positive to be planned, got {query.within:g}")
    share = len(query.weights) if query.fn == "avg" else 1
    weights = {item: weight / share for item, weight in query.weights.items() if weight != 0}
    if not weights:
        raise ValueError(f"weights of query {query.name!r} must have an item whose weight is not 0")
    return weights


def asked(query: Aggregate, network: Network, dynamics: Dynamics) -> Asked:
    """The query's arrays.

    Raises:
        ValueError: the query is empty, or an item has no dynamics.
        Unsatisfiable: no plan can meet the bound.
    """
    weights = effective_weights(query)
    signed = np.array(list(weights.values()))
    places = dynamics.at(weights)
    moved = dynamics.sumdiff[places]
    fastest = moved.max()
    if fastest > 0:
        cosine = dynamics.cosine[places[:, None], places]
        moved = np.maximum(moved, STILLEST * fastest)
    else:  # nothing moves: any plan will do, and a plain one is made
        cosine, moved = np.eye(len(weights)), np.ones(len(weights))
    weight = np.abs(signed)
    extreme = query.fn in ("min", "max")
    floors, rows = _floors(weights, weight, network)
    if extreme:
        floors[floors > query.within * (1 + SLACK)] = math.inf
    mixing = cosine * (signed[:, None] * signed)
    problem = Problem(weight * moved, weight, mixing * (moved[:, None] * moved), mixing, floors, query.within, extreme)
    _must_be_possible(query, weights, network, problem)
    return Asked(query, weights, problem, rows)


def _floors(weights: dict[str, float], weight: Floats, network: Network) -> tuple[Floats, Integers | None]:
    columns = [network.serving(item) for item in weights]
    holders = np.concatenate([places for places, _ in columns])
    bounds = np.concatenate([bounds for _, bounds in columns])
    items = np.repeat(np.arange(len(columns)), [places.size for places, _ in columns])
    rows: Integers | None = None
    count = len(network.aggregators)
    if count > _EVERYONE:
        rows, holders = np.unique(holders, return_inverse=True)
        count = rows.size
    floors = np.full((count, len(columns)), math.inf)
    floors[holders, items] = weight[items] * bounds
    return floors, rows


def _must_be_possible(query: Aggregate, weights: dict[str, float], network: Network, problem: Problem) -> None:
    tightest = problem.floors.min(axis=0, initial=math.inf)
    total = float(tightest.max() if problem.extreme else tightest.sum())
    if total <= query.within * (1 + SLACK):
        return
    unserved = tuple(item for item in weights if network.tightest(item) == math.inf)
    if unserved:
        named = ", ".join(repr(item) for item in unserved)
        raise Unsatisfiable(f"query {query.name!r} cannot be answered: no aggregator serves {named}", items=unserved)
    best = [abs(weight) * network.tightest(item) for item, weight in weights.items()]
    possible = max(best) if problem.extreme else math.fsum(best)
    raise Unsatisfiable(
        f"query {query.name!r} cannot be answered within {query.within:g}: the tightest possible is {possible:g}",
        tightest=possible,
    )


@compiled
def moments_of(problem: Problem, items: Integers, count: int) -> tuple[float, float]:
    """num and den of a part, the first `count` of `items` (§2.4); of a min or max the squares of R and N (§2.8)."""
    num, den = 0.0, 0.0
    for k in range(count):
        i = items[k]
        if problem.extreme:
            num = max(num, problem.apart[i] ** 2)
            den = max(den, problem.weight[i] ** 2)
            continue
        row_num, row_den = 0.0, 0.0
        for other in range(k):
            row_num += problem.motion[i, items[other]]
            row_den += problem.mixing[i, items[other]]
        num += problem.motion[i, i] + 2.0 * row_num
        den += problem.mixing[i, i] + 2.0 * row_den
    return num, den


@compiled
def roughness_of(num: float, den: float, apart: float, weight: float) -> float:
    """A of a part with these sums (§2.4); never 0, so that a part which should not move still gets a bound."""
    return max(np.sqrt(max(num, 0.0)) * np.sqrt(max(den, 0.0)), 1e-6 * apart * weight)


@compiled
def offset_of(extreme: bool, floor: float, squares: float) -> float:
    """h = X − √Σ(wc)²: the errors of copies add like independent ones; 0 for a min or max."""
    return 0.0 if extreme else max(floor - np.sqrt(squares), 0.0)
