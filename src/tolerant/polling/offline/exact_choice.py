"""Solves the selection problem exactly: the cheapest pulls after which all queries are within (`docs/design/polling.md`
§2.8).

An optimum to compare with, not a chooser for every tick: even one query makes it NP-hard (items a₁ … aₙ and −T with
bound 0 are the subset-sum problem). Branch and bound for a few items; mixed-integer programming beyond.
"""

from __future__ import annotations

import numpy as np

from tolerant.kernels.compiled import compiled
from tolerant.polling.choice.incoherency import incoherency
from tolerant.polling.poller_arrays import Flags, Floats, Integers, Links, Records

BRANCHED = 24
"""Branch and bound is used for up to so many items with a predicted change."""


def choose_exact(queries: Records, links: Links, values: Floats, changes: Floats, costs: Floats) -> Flags:
    """Return the items to pull, bool[items]: the least Σ cost after which no query is over."""
    moving = np.flatnonzero(changes)
    table = np.zeros((len(queries), len(moving)))
    column = np.full(len(changes), -1)
    column[moving] = np.arange(len(moving))
    for q, query in enumerate(queries):
        span = slice(int(query["start"]), int(query["stop"]))
        places = column[links.items[span]]
        if query["kind"] == 0:
            np.add.at(table[q], places[places >= 0], (links.weights[span] * changes[links.items[span]])[places >= 0])
    if len(moving) <= BRANCHED:
        kept = _branch(queries, links, values, changes, moving, table, costs[moving])
    else:
        if len(links.ordered):
            raise ValueError(f'"exact" takes min and max over at most {BRANCHED} changed items, got {len(moving)}')
        kept = _program(table, queries["bound"], costs[moving])
    pulled = np.zeros(len(changes), np.bool_)
    pulled[moving[~kept]] = True
    return pulled


def _branch(
    queries: Records, links: Links, values: Floats, changes: Floats, moving: Integers, table: Floats, costs: Floats
) -> Flags:
    # Large contributions first: they decide soonest whether a branch can end within.
    bounds = queries["bound"].copy()
    weight = (np.abs(table) / np.maximum(bounds, 1e-300)[:, None]).sum(axis=0)
    order = np.argsort(-weight, kind="stable")
    kept = np.zeros(len(moving), np.bool_)
    kept[order] = _search(
        queries, links, values, changes, moving[order], np.ascontiguousarray(table[:, order].T), bounds, costs[order]
    )
    return kept


@compiled
def _search(
    queries: Records, links: Links, values: Floats, changes: Floats, moving: Integers, parts: Floats, bounds: Floats,
    costs: Floats,
) -> Flags:  # fmt: skip
    """Return which items to keep: depth first, keeping before pulling; cut where a branch cannot win, or a query cannot
    be within again.
    """
    n, size = parts.shape
    up, down, rest = np.zeros((n + 1, size)), np.zeros((n + 1, size)), np.zeros(n + 1)
    for d in range(n - 1, -1, -1):
        rest[d] = rest[d + 1] + costs[d]
        for q in range(size):
            up[d, q] = up[d + 1, q] + max(parts[d, q], 0.0)
            down[d, q] = down[d + 1, q] + min(parts[d, q], 0.0)
    slack = 1e-12 * (up[0] - down[0])
    sums, gains = np.zeros((n + 1, size)), np.zeros(n + 1)
    tried = np.zeros(n + 1, np.int64)  # 0: nothing yet, 1: kept, 2: pulled
    left = np.zeros(len(changes))
    best, kept = 0.0, np.zeros(n, np.bool_)
    depth = 0
    while depth >= 0:
        if depth == n:
            if gains[n] > best and _feasible(queries, links, values, changes, moving, tried, left):
                best = float(gains[n])
                for d in range(n):
                    kept[d] = tried[d] == 1
            depth -= 1
            continue
        tried[depth] += 1
        if tried[depth] > 2:
            tried[depth] = 0
            depth -= 1
            continue
        keep = tried[depth] == 1
        gains[depth + 1] = gains[depth] + (costs[depth] if keep else 0.0)
        possible = gains[depth + 1] + rest[depth + 1] > best
        for q in range(size):
            total = sums[depth, q] + (parts[depth, q] if keep else 0.0)
            sums[depth + 1, q] = total
            low, high = total + down[depth + 1, q], total + up[depth + 1, q]
            possible = possible and low <= bounds[q] + slack[q] and high >= -bounds[q] - slack[q]
        if possible:
            depth += 1
            tried[depth] = 0
    return kept


@compiled
def _feasible(
    queries: Records, links: Links, values: Floats, changes: Floats, moving: Integers, tried: Integers, left: Floats
) -> bool:
    """Return whether every query is within, computed from scratch: rounding in the search must not decide."""
    for d in range(len(moving)):
        left[moving[d]] = changes[moving[d]] if tried[d] == 1 else 0.0
    within = True
    for q in range(len(queries)):
        within = within and abs(incoherency(queries[q], links, values, left)) <= queries[q].bound
    return within


def _program(table: Floats, bounds: Floats, costs: Floats) -> Flags:
    from scipy.optimize import Bounds, LinearConstraint, milp  # slow to import, and rarely needed

    scale = np.maximum(np.abs(table).sum(axis=1), 1e-300)
    for tightened in (0.0, 1e-7, 1e-6, 1e-5):  # the solver keeps constraints only up to its own tolerance
        limit = np.maximum(bounds / scale - tightened, 0.0)
        solution = milp(
            -costs,
            constraints=LinearConstraint(table / scale[:, None], -limit, limit),
            integrality=np.ones(len(costs)),
            bounds=Bounds(0, 1),
        )
        if solution.x is not None:
            kept: Flags = solution.x > 0.5
            if (np.abs(table[:, kept].sum(axis=1)) <= bounds).all():
                return kept
    return np.zeros(len(costs), np.bool_)
