"""Linear queries side by side, for what is asked of all of them at every tick: is any of them over?

Four queries of about the same size are summed up together. So four sums are under way at a time, and how many items
come next, which the processor must guess, is asked once for all four; one by one it takes three times as long.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tolerant.kernels.compiled import borrowing
from tolerant.polling.arrays import LINEAR, Floats, Indices, Integers, Links, Records

LANES = 4


class Lanes(NamedTuple):
    """Groups of four linear queries, the smaller ones first. Where there is none, or no item, weights are 0."""

    starts: Integers  # [groups + 1], each group's first place
    items: Indices  # [places · LANES]; the number of items where there is none
    weights: Floats  # [places · LANES]
    queries: Integers  # [groups · LANES]; −1 where there is none
    limits: Floats  # [groups · LANES], safety·bound; infinite where there is none


def lanes_of(queries: Records, links: Links, items: int) -> Lanes:
    """The linear ones of the queries in lanes, with their limits as they are now."""
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


@borrowing
def set_limits(lanes: Lanes, queries: Records) -> None:
    """Make the limits anew, safety factors having changed."""
    for k in range(len(lanes.queries)):
        if lanes.queries[k] >= 0:
            query = queries[lanes.queries[k]]
            lanes.limits[k] = query.safety * query.bound


@borrowing
def group_over(lanes: Lanes, changes: Floats, hint: Integers) -> int:
    """A group with a query that is over, or −1. The search begins where one was found last: only "any" is asked.

    changes: predicted ones of the items, and a 0 at the end.
    """
    groups = len(lanes.starts) - 1
    first = min(max(hint[0], 0), groups)
    found = _group_between(lanes, changes, first, groups)
    if found < 0:
        found = _group_between(lanes, changes, 0, first)
    if found >= 0:
        hint[0] = found
    return found


@borrowing
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
