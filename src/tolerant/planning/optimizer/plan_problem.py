"""A query on a network as arrays, and the cost of a part (`docs/design/planning.md` §2.1, §2.4)."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from tolerant.kernels.compiled import compiled, compiled_no_refcount
from tolerant.planning.aggregator_network import HolderTable, Network
from tolerant.planning.dynamics import Dynamics
from tolerant.planning.planning_arrays import SLACK, Floats, Integers
from tolerant.planning.query_plan import Unsatisfiable
from tolerant.queries import Aggregate

SMALL_NETWORK = 512
"""Networks up to this size are used whole: dropping aggregators that serve nothing of the query costs more."""

LEAST_MOTION = 1e-6
"""No item counts as moving less than this fraction of the query's fastest; nor a part, of what its items move."""


class PlanProblem(NamedTuple):
    """A query on a network as arrays; n items, m aggregators.

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


class QueryProblem(NamedTuple):
    """A query ready for planning: its items with their effective weights, its arrays, and the aggregators that the rows
    of `floors` are for.
    """

    query: Aggregate
    network: Network
    dynamics: Dynamics
    weights: dict[str, float]
    problem: PlanProblem
    rows: Integers | None


def effective_weights(query: Aggregate) -> dict[str, float]:
    """Return the weights w with value = Σ w·s (for min and max: of w·s); items of weight 0 are dropped.

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


def pose(query: Aggregate, network: Network, dynamics: Dynamics) -> QueryProblem:
    """Return the query's arrays.

    Raises:
        ValueError: the query is empty, or an item has no dynamics.
        Unsatisfiable: no plan can meet the bound.
    """
    weights = effective_weights(query)
    places = dynamics.at(weights)
    index = network.index
    columns = np.array([index.get(item, -1) for item in weights], np.int64)
    extreme = query.fn in ("min", "max")
    rows = _rows(columns, network)
    count = len(network.aggregators) if rows is None else rows.size
    apart, weight, motion, mixing, floors, tightest = gather(
        np.array(list(weights.values())),
        places,
        dynamics.sumdiff,
        dynamics.cosine,
        columns,
        network.table,
        _ALL_AGGREGATORS if rows is None else rows,
        count,
        query.within,
        extreme,
    )
    if tightest > query.within * (1 + SLACK):
        raise unsatisfiable(query, weights, network)
    problem = PlanProblem(apart, weight, motion, mixing, floors, query.within, extreme)
    return QueryProblem(query, network, dynamics, weights, problem, rows)


_ALL_AGGREGATORS = np.zeros(0, np.int64)


def _rows(columns: Integers, network: Network) -> Integers | None:
    """Return the aggregators that serve any item of the query; None in a network so small that all are used."""
    if len(network.aggregators) <= SMALL_NETWORK:
        return None
    table = network.table
    holders = [table.holders[table.start[c] : table.start[c + 1]] for c in columns if c >= 0]
    return np.unique(np.concatenate([np.zeros(0, np.int64), *holders]))


@compiled
def gather(  # noqa: PLR0913
    signed: Floats,
    places: Integers,
    sumdiff: Floats,
    cosine: Floats,
    columns: Integers,
    table: HolderTable,
    rows: Integers,
    count: int,
    within: float,
    extreme: bool,
) -> tuple[Floats, Floats, Floats, Floats, Floats, float]:
    """Return the arrays of a problem, and the tightest bound that any plan can meet. rows: empty where all are used."""
    n = signed.size
    moved, fastest = np.empty(n), 0.0
    for i in range(n):
        fastest = max(fastest, sumdiff[places[i]])
    for i in range(n):  # if nothing moves any plan will do, and a plain one is made
        moved[i] = max(sumdiff[places[i]], LEAST_MOTION * fastest) if fastest > 0.0 else 1.0
    apart, weight, motion, mixing = np.empty(n), np.empty(n), np.empty((n, n)), np.empty((n, n))
    floors, tightest = np.full((count, n), np.inf), 0.0
    for i in range(n):
        weight[i] = abs(signed[i])
        apart[i] = weight[i] * moved[i]
        for j in range(n):
            alike = 1.0 if i == j else 0.0
            if fastest > 0.0:
                alike = cosine[places[i], places[j]]
            mixing[i, j] = signed[i] * signed[j] * alike
            motion[i, j] = mixing[i, j] * moved[i] * moved[j]
        least = np.inf
        if columns[i] >= 0:
            for k in range(table.start[columns[i]], table.start[columns[i] + 1]):
                floor = weight[i] * table.within[k]
                row = table.holders[k]
                if rows.size > 0:
                    row = np.searchsorted(rows, row)
                if not extreme or floor <= within * (1.0 + SLACK):
                    floors[row, i] = floor
                    least = min(least, floor)
        tightest = max(tightest, least) if extreme else tightest + least
    return apart, weight, motion, mixing, floors, tightest


def unsatisfiable(query: Aggregate, weights: dict[str, float], network: Network) -> Unsatisfiable:
    """Return the error that says why no plan meets the query's bound."""
    unserved = tuple(item for item in weights if network.tightest(item) == math.inf)
    if unserved:
        named = ", ".join(repr(item) for item in unserved)
        return Unsatisfiable(f"query {query.name!r} cannot be answered: no aggregator serves {named}", items=unserved)
    best = [abs(weight) * network.tightest(item) for item, weight in weights.items()]
    possible = max(best) if query.fn in ("min", "max") else math.fsum(best)
    return Unsatisfiable(
        f"query {query.name!r} cannot be answered within {query.within:g}: the tightest possible is {possible:g}",
        tightest=possible,
    )


@compiled_no_refcount
def moments_of(problem: PlanProblem, items: Integers, count: int) -> tuple[float, float]:
    """Return num and den of a part, the first `count` of `items` (§2.4); of a min or max R² and N² (§2.8)."""
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
    """Return A of a part with these sums (§2.4); never 0, so that a part which should not move still gets a bound."""
    return max(np.sqrt(max(num, 0.0)) * np.sqrt(max(den, 0.0)), 1e-6 * apart * weight)


@compiled
def offset_of(extreme: bool, floor: float, squares: float) -> float:
    """Return h = X − √Σ(wc)²: the errors of copies add like independent ones; 0 for a min or max."""
    return 0.0 if extreme else max(floor - np.sqrt(squares), 0.0)
