"""Computes the optimum of a join with known streams: a flow of linear size (`docs/design/retention.md` §2.4)."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tolerant.retention.offline.flow import Arcs, best_flow
from tolerant.retention.offline.occurrences import next_time
from tolerant.retention.value_arrays import Flags, Integers


class Graph(NamedTuple):
    """Rows kept over time. An arc of `stream` 0 or 1 holds a row of r or s from tick `since` to `until`; −1: none."""

    nodes: int
    arcs: Arcs
    source: int
    sink: int
    stream: Integers
    since: Integers
    until: Integers


def best_join(r: Integers, s: Integers, memory: int, window: int | None, warmup: int) -> tuple[int, float]:
    """Return the most results that count, and the share of r among the rows held by one plan that gives them."""
    if len(r) < 2 or memory == 0:
        return 0, float("nan")
    graph = graph_of(r, s, memory, window, warmup)
    flow = best_flow(graph.nodes, graph.arcs, graph.source, graph.sink, memory)
    benefit = flow * np.maximum(graph.until - np.maximum(graph.since, warmup), 0)
    of_r, of_all = benefit[graph.stream == 0].sum(), benefit[graph.stream >= 0].sum()
    results = round(float(flow @ graph.arcs.gains))
    return results, float(of_r / of_all) if of_all else float("nan")


def graph_of(r: Integers, s: Integers, memory: int, window: int | None, warmup: int) -> Graph:
    """Return the graph: hubs are free slots at a tick; a chain is a row, or all rows of a stream and value, between
    matches.
    """
    sides = [_shared(r, s, 0), _shared(s, r, 1)] if window is None else [_own(r, s, 0, window), _own(s, r, 1, window)]
    ticks = len(r)
    # Nodes in the order of time: a chain's node at u precedes the hub of u.
    at = np.concatenate([sides[0].at, sides[1].at])
    order = np.argsort(at, kind="stable")
    chain = np.empty(len(at), np.int64)
    chain[order] = np.arange(len(at)) + at[order]
    hub = np.searchsorted(at[order], np.arange(ticks), side="right") + np.arange(ticks)
    shift = [0, len(sides[0].at)]
    parts: list[tuple[NDArray[Any], ...]] = []
    steps = np.arange(ticks - 1)
    parts.append((hub[:-1], hub[1:], np.full(ticks - 1, memory), 0 * steps, -1 + 0 * steps, steps, steps + 1))
    for k, side in enumerate(sides):
        nodes = chain[shift[k] : shift[k] + len(side.at)]
        ones, room = np.ones_like(side.rows), np.full(len(side.at), memory)
        reached = side.at[side.first]
        parts.append((hub[side.rows], nodes[side.first], ones, reached >= warmup, k * ones, side.rows, reached))
        on = np.flatnonzero(side.following >= 0)
        later = side.at[side.following[on]]
        capacity = room[on] if window is None else np.ones_like(on)
        parts.append((nodes[on], nodes[side.following[on]], capacity, later >= warmup, k + 0 * on, side.at[on], later))
        parts.append((nodes, hub[side.at], room, 0 * room, -1 + 0 * room, side.at, side.at))
    tails, heads, space, gains, stream, since, until = (np.concatenate(column) for column in zip(*parts, strict=True))
    arcs = Arcs(
        tails.astype(np.int64), heads.astype(np.int64), space.astype(np.int64), gains.astype(np.float64)
    )  # fmt: skip
    return Graph(ticks + len(at), arcs, int(hub[0]), int(hub[-1]), stream, since, until)


class _Chains(NamedTuple):
    """Nodes at ticks `at`, each followed by another (−1: none); row rows[k] enters at node first[k]."""

    at: Integers
    following: Integers
    rows: Integers
    first: Integers


def _shared(own: Integers, partner: Integers, stream: int) -> _Chains:
    """Return one chain for each value: a node per occurrence in the partner, after the first row of it."""
    n = len(own)
    following = next_time(partner)
    first = _first_after(own, partner)
    rows = np.flatnonzero(first < n)
    used = np.zeros(n, np.bool_)
    used[first[rows]] = True
    # The successors of a used node are used.
    for_all = _spread(used, following)
    at = np.flatnonzero(for_all)
    place = np.cumsum(for_all) - 1
    later = following[at]
    links = np.where(later < n, place[np.minimum(later, n - 1)], -1)
    return _Chains(at, links, rows, place[first[rows]])


def _spread(used: Flags, following: Integers) -> Flags:
    """Spread marks along chains: ticks are in order, so one sort by chain position suffices."""
    out = used.copy()
    n = len(used)
    position = np.arange(n)
    # The chain of each tick is named by its last tick.
    last = np.where(following < n, following, position)
    while True:
        further = last[last]
        if (further == last).all():
            break
        last = further
    order = np.lexsort((position, last))
    flags, names = used[order], last[order]
    begins = np.append(True, names[1:] != names[:-1])[:n]
    total = np.cumsum(flags)
    base = np.maximum.accumulate(np.where(begins, total - flags, 0))
    out[order] = (total - base) > 0
    return out


def _first_after(own: Integers, partner: Integers) -> Integers:
    """Return the first tick after each at which its value occurs in the partner; the number of ticks if none."""
    starts, ticks, ends = _occurrences(own, partner)
    return np.where(starts < ends, ticks[np.minimum(starts, len(ticks) - 1)], len(own))


def _occurrences(own: Integers, partner: Integers) -> tuple[Integers, Integers, Integers]:
    """Return the partner's ticks ordered by value and time, and the range of each row's later matches in them."""
    n = len(own)
    _, codes = np.unique(np.concatenate([partner, own]), return_inverse=True)
    theirs, mine = codes[:n].astype(np.int64), codes[n:].astype(np.int64)
    order = np.argsort(theirs, kind="stable")
    ranked = theirs[order] * n + order
    starts = np.searchsorted(ranked, mine * n + np.arange(n), side="right")
    return starts, order, np.searchsorted(ranked, mine * n + n)


def _own(own: Integers, partner: Integers, stream: int, window: int) -> _Chains:
    """Return a chain for each row: a node for each match within its window."""
    n = len(own)
    starts, order, _ = _occurrences(own, partner)
    _, codes = np.unique(np.concatenate([partner, own]), return_inverse=True)
    theirs, mine = codes[:n].astype(np.int64), codes[n:].astype(np.int64)
    ranked = theirs[order] * n + order
    last = np.minimum(np.arange(n) + min(window, n), n - 1)
    ends = np.searchsorted(ranked, mine * n + last, side="right")
    counts = np.maximum(ends - starts, 0)
    rows = np.flatnonzero(counts)
    total = int(counts.sum())
    first = np.cumsum(counts)[rows] - counts[rows]
    within = np.arange(total) - np.repeat(first, counts[rows])
    at = order[np.repeat(starts[rows], counts[rows]) + within]
    following = np.where(within + 1 < np.repeat(counts[rows], counts[rows]), np.arange(total) + 1, -1)
    return _Chains(at, following, rows, first)
