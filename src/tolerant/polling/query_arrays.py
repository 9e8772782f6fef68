"""Builds the arrays of queries, and those of items of which nothing is known yet."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain

import numpy as np

from tolerant.kernels.random import key_of
from tolerant.polling.model.predictors import PREDICTORS
from tolerant.polling.poller_arrays import (
    COUNT,
    ITEM,
    LINEAR,
    MAX,
    MIN,
    QUERY,
    ROUNDING,
    Chains,
    Links,
    Records,
    Window,
    Workspace,
)
from tolerant.polling.tolerance_shares import tolerance_shares
from tolerant.queries import Aggregate

_KINDS = {"sum": LINEAR, "avg": LINEAR, "min": MIN, "max": MAX, "count": COUNT}


def coefficients(query: Aggregate) -> Mapping[str, float]:
    """Return the items that a query refers to, with their coefficients (`docs/design/polling.md` §2.1).

    >>> coefficients(Aggregate("load", "avg", {"a": 1, "b": 0}, within=1))
    {'a': 0.5}
    """
    if query.fn == "count":
        return {}
    if query.fn != "avg" and 0.0 not in query.weights.values():
        return query.weights  # the case of most queries
    size = len(query.weights) if query.fn == "avg" else 1
    return {item: weight / size for item, weight in query.weights.items() if weight != 0.0}


def index_items(queries: Iterable[Aggregate]) -> dict[str, int]:
    """Number the items that some query refers to, in the order in which the queries name them."""
    names: set[str] = set()
    terms = []
    for query in queries:
        if query.name in names:
            raise ValueError(f"queries must have different names, got {query.name!r} twice")
        names.add(query.name)
        terms.append(coefficients(query))
    return {item: k for k, item in enumerate(dict.fromkeys(chain.from_iterable(terms)))}


def build_query_arrays(
    queries: Sequence[Aggregate], index: Mapping[str, int], scale: float = 1.0
) -> tuple[Records, Links]:
    """Return the queries as records and their links to the items of `index`; each `within` counts `scale` times."""
    table = np.zeros(len(queries), QUERY)
    terms = [coefficients(query) for query in queries]
    sizes = np.array([len(term) for term in terms], np.int64)
    table["stop"] = np.cumsum(sizes)
    table["start"] = table["stop"] - sizes
    table["kind"] = [_KINDS[query.fn] for query in queries]
    table["required"] = [query.fidelity for query in queries]
    table["within"] = [query.within * scale for query in queries]
    table["bound"] = table["within"] * ROUNDING
    links = int(sizes.sum())
    items = np.fromiter(map(index.__getitem__, chain.from_iterable(terms)), np.uint32, links)
    weights = np.fromiter(chain.from_iterable(term.values() for term in terms), np.float64, links)
    owner = np.repeat(np.arange(len(queries)), sizes)
    own = np.where(
        table["kind"][owner] == LINEAR, tolerance_shares(weights, table["within"], owner), table["within"][owner]
    )
    ordered = np.flatnonzero((table["kind"] == MIN) | (table["kind"] == MAX))
    return table, Links(items, weights, own, ordered)


def reset_feedback(queries: Records, safety: float | None, gamma: float) -> None:
    """Reset the feedback of these queries; safety: the factor to start with, None: 1."""
    queries["safety"] = 1.0 if safety is None else safety
    queries["gamma"], queries["before"] = gamma, np.nan
    queries["good"], queries["ticks"] = 0.0, 0.0
    queries["missed"], queries["feared"], queries["recent"], queries["haste"] = 0.0, 0.0, 0.0, 1.0
    queries["since"] = -1


def item_key(seed: int, name: str) -> np.uint64:
    """Return the key of an item's random numbers: a function of seed and name alone."""
    return key_of(seed, int.from_bytes(hashlib.blake2b(name.encode(), digest_size=8).digest(), "little"))


def new_items(names: Sequence[str], states: int, seed: int, *, propagate: bool, past: int) -> tuple[Records, Chains]:
    """Return items of which nothing is known yet. past: how many errors to keep for each."""
    n = len(names)
    items = np.zeros(n, ITEM)
    items["last"] = items["stepped"] = items["server"] = -1
    items["learned"] = items["running"] = states // 2
    items["cap"] = items["cost"] = items["growth"] = items["usual"] = 1
    items["key"] = [item_key(seed, name) for name in names]
    chains = Chains(
        np.zeros((n, states, states)),
        np.zeros((n, states)),
        np.zeros((n, states) if propagate else (0, 0)),
        np.zeros((n, PREDICTORS)),
        np.zeros((n, past)),
        np.zeros((n, past), np.bool_),
    )
    return items, chains


def workspace_for(items: int) -> Workspace:
    """Return a workspace for choosing among so many items."""
    values, reach, scores, pressure = np.zeros((4, items))
    return Workspace(values, np.zeros(items + 1), reach, scores, pressure, np.zeros(items, np.bool_))


def set_item_bounds(items: Records, queries: Records, links: Links, states: int) -> None:
    """Set what follows from an item's queries: its chain's spacing, its reach, whether it is pulled at every tick."""
    sizes = queries["stop"] - queries["start"]
    tightest = np.full(len(items), np.inf)
    np.minimum.at(tightest, links.items, links.shares)
    items["spacing"] = np.where(np.isinf(tightest), 0.0, tightest) / (states // 2)
    linear = np.repeat(queries["kind"] == LINEAR, sizes)
    items["reach"] = np.bincount(links.items, np.abs(links.weights) * linear, len(items))
    items["always"] = False
    items["always"][links.items[np.repeat(queries["within"] == 0.0, sizes)]] = True


def new_window(
    links: Links, items: int, size: int, *, used: bool, doubted: bool, calibrated: bool, excused: int = 0
) -> Window:
    """Return an empty window of `size` ticks, with only the arrays that are needed. excused: queries, or 0."""
    empty = np.zeros((0, 0))
    return Window(
        np.zeros((items, size)) if used else empty,
        np.zeros((items, size)) if used and doubted else empty,
        np.zeros((items, size)) if used and links.ordered.size else empty,
        np.zeros((items, size)) if calibrated else empty,
        np.zeros((items, size) if calibrated else (0, 0), np.bool_),
        np.zeros((excused, size) if excused else (0, 0), np.int8),
    )
