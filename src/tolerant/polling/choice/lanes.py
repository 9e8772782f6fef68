"""Linear queries laid out side by side, to test at every tick whether any of them is over its limit.

Four queries of about the same size are summed at a time: four independent sums, and one loop branch for all four,
which the processor predicts. One query at a time takes three times as long.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tolerant.kernels.compiled import compiled_no_refcount
from tolerant.polling.poller_arrays import LINEAR, Floats, Indices, Integers, Links, Records

LANES = 4


class Lanes(NamedTuple):
    """Groups of four linear queries, the smaller ones first. A place without a query or item has weight 0."""

    starts: Integers  # [groups + 1], first place of each group
    items: Indices  # [places · LANES]; the number of items for a place without one
    weights: Floats  # [places · LANES]
    queries: Integers  # [groups · LANES]; −1 for a lane without one
    limits: Floats  # [groups · LANES], safety·bound; infinite for a lane without a query


def build_lanes(queries: Records, links: Links, items: int) -> Lanes:
    """Lay out the linear ones of the queries in lanes, with their current limits."""
    linear = np.flatnonzero(queries["kind"] == LINEAR)
    sizes = (queries["stop"] - queries["start"])[linear]
    order = np.argsort(sizes, kind="stable")
    linear, sizes = linear[order], sizes[order]
    groups = -(-len(linear) // LANES)
    most = np.zeros(groups, np.int64)
    np.maximum.at(most, np.arange(len(linear)) // LANES, sizes)
    starts = np.concatenate([[0], np.cumsum(most)])
    # Link number k of the query in lane l of group g stands at (starts[g] + k) · LANES + l.
    owner = np.repeat(np.arange(len(linear)), sizes)
    number = np.arange(len(owner)) - (np.cumsum(sizes) - sizes)[owner]
    source = queries["start"][linear][owner] + number
    place = (starts[owner // LANES] + number) * LANES + owner % LANES
    lanes = Lanes(
        starts,
        np.full(starts[-1] * LANES, items, np.uint32),
        np.zeros(starts[-1] * LANES),
        np.full(groups * LANES, -1),
        np.full(groups * LANES, np.inf),
    )
    lanes.items[place], lanes.weights[place] = links.items[source], links.weights[source]
    lanes.queries[: len(linear)] = linear
    set_limits(lanes, queries)
    return lanes


@compiled_no_refcount
def set_limits(lanes: Lanes, queries: Records) -> None:
    """Recompute the limits after safety factors changed."""
    for k in range(len(lanes.queries)):
        if lanes.queries[k] >= 0:
            query = queries[lanes.queries[k]]
            lanes.limits[k] = query.safety * query.bound


@compiled_no_refcount
def group_over(lanes: Lanes, changes: Floats, hint: Integers) -> int:
    """Return a group with a query that is over, or −1. The search begins at the last hit, since any one will do.

    changes: predicted changes of the items, and a 0 at the end.
    """
    groups = len(lanes.starts) - 1
    first = min(max(hint[0], 0), groups)
    group = _group_between(lanes, changes, first, groups)
    if group < 0:
        group = _group_between(lanes, changes, 0, first)
    if group >= 0:
        hint[0] = group
    return group


@compiled_no_refcount
def _group_between(lanes: Lanes, changes: Floats, first: int, stop: int) -> int:
    items, weights, limits = lanes.items, lanes.weights, lanes.limits
    one, two, three = np.uint64(1), np.uint64(2), np.uint64(3)  # unsigned as `Indices` are
    k = np.uint64(4 * lanes.starts[first])
    for g in range(first, stop):
        a, b, c, d = 0.0, 0.0, 0.0, 0.0
        for _ in range(lanes.starts[g], lanes.starts[g + 1]):
            a += weights[k] * changes[items[k]]
            b += weights[k + one] * changes[items[k + one]]
            c += weights[k + two] * changes[items[k + two]]
            d += weights[k + three] * changes[items[k + three]]
            k += np.uint64(4)
        if (
            (abs(a) > limits[4 * g])
            | (abs(b) > limits[4 * g + 1])
            | (abs(c) > limits[4 * g + 2])
            | (abs(d) > limits[4 * g + 3])
        ):
            return g
    return -1
