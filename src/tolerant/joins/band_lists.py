"""The queries of a pair of rows, as runs of queries instead of one by one.

The bands that contain a difference d are, in a group with the common point p, those with the smallest lows where d ≤ p,
and those with the largest highs where d > p: a prefix of one of two orders (docs/design/joins.md §2.6). So the partners
of a row are found, and described, in time that grows with the pairs of rows, not with the queries of each pair.
`BandJoins.slices` is the converse: a run of rows for each query.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tolerant.joins.bisection import START, first_above, gallop_above, gallop_at_least
from tolerant.joins.partition import points_of, sweep
from tolerant.kernels.array_types import Floats, Integers
from tolerant.kernels.compiled import compiled


class BandLists(NamedTuple):
    """Bands in both orders; a function of the set of bands alone.

    `members` int64[2n]: the queries group by group, each group by increasing low, followed by the same queries with
    each group by decreasing high. Group g is at `starts[g]` … `starts[g + 1]` of either half; `low` and `fall` (the
    highs, negated) are float64[n], in the order of the halves.
    """

    members: Integers
    starts: Integers
    points: Floats
    low: Floats
    fall: Floats


class QueryRuns(NamedTuple):
    """Pairs of rows with their queries, [k] each: event, place of the stored row, and queries `members[start:stop]`."""

    event: Integers
    place: Integers
    start: Integers
    stop: Integers


class BandOrders:
    """Bands sorted by low and by high; a change copies the orders but never sorts all bands again.

    >>> orders = BandOrders()
    >>> orders.add(np.array([7, 8]), np.array([0.0, 1.0]), np.array([3.0, 2.0]))
    >>> orders.add(np.array([5]), np.array([0.0]), np.array([1.0]))
    >>> orders.lists().members.tolist()
    [5, 7, 8, 7, 8, 5]
    >>> orders.remove(np.array([7]))
    >>> orders.lists().members.tolist()
    [5, 8, 8, 5]
    """

    def __init__(self) -> None:
        none: Floats = np.zeros(0)
        self._rising: Order = (none, np.zeros(0, np.int64), none)  # low, id, high
        self._falling: Order = self._rising  # the high negated, id, low
        self._new: list[Order] = []  # (low, id, high), not yet merged into the orders
        self._lists: BandLists | None = None

    def add(self, ids: Integers, low: Floats, high: Floats) -> None:
        """Add new bands."""
        self._new.append((low, ids, high))
        self._lists = None

    def remove(self, ids: Integers) -> None:
        """Remove bands, which must exist."""
        self._merge_new()
        removed = np.sort(ids)
        for name in ("_rising", "_falling"):
            order: Order = getattr(self, name)
            places = np.minimum(np.searchsorted(removed, order[1]), len(removed) - 1) if len(removed) else None
            stays = np.ones(len(order[1]), np.bool_) if places is None else removed[places] != order[1]
            setattr(self, name, tuple(column[stays] for column in order))
        self._lists = None

    def lists(self) -> BandLists:
        """Return the lists of these bands."""
        if self._lists is None:
            self._merge_new()
            low, ids, high = self._rising
            partition = sweep(low, high, np.arange(len(low)))
            # A group is a contiguous part of the order by low; equal lows are never in two groups.
            group = np.searchsorted(low[partition.starts[:-1]], self._falling[2], side="right")
            order = np.argsort(group.astype(np.uint16) if len(partition.starts) < 1 << 16 else group, kind="stable")
            members = np.concatenate([ids, self._falling[1][order]])
            points = points_of(partition.low, partition.high)
            self._lists = BandLists(members, partition.starts, points, low, self._falling[0][order])
        return self._lists

    def _merge_new(self) -> None:
        """Merge the new bands into both orders."""
        if self._new:
            low, ids, high = map(np.concatenate, zip(*self._new, strict=True))
            self._rising = _with(self._rising, (low, ids, high))
            self._falling = _with(self._falling, (-high, ids, low))
            self._new = []


Order = tuple[Floats, Integers, Floats]
"""Bands sorted by the first array, equal ones by their ids."""


def _with(old: Order, new: Order) -> Order:
    order = np.lexsort((new[1], new[0]))
    first, ids, other = new[0][order], new[1][order], new[2][order]
    places = _merged(old[0], old[1], first, ids)
    return (
        np.concatenate([old[0], first])[places],
        np.concatenate([old[1], ids])[places],
        np.concatenate([old[2], other])[places],
    )


@compiled
def _merged(first: Floats, ids: Integers, new_first: Floats, new_ids: Integers) -> Integers:
    """Return the order that merges two sorted sequences, which are numbered one behind the other."""
    size, more = len(first), len(new_first)
    places = np.empty(size + more, np.int64)
    i, j = 0, 0
    for at in range(size + more):
        if j == more or (i < size and (first[i], ids[i]) < (new_first[j], new_ids[j])):
            places[at] = i
            i += 1
        else:
            places[at] = size + j
            j += 1
    return places


@compiled
def runs_of(rows: Floats, probes: Floats, lists: BandLists) -> QueryRuns:
    """Return all pairs of a probe and a row of sorted `rows` whose difference `row - probe` is in a band.

    A pair is returned once for each group with a band that contains the difference.
    """
    points, starts, low, fall = lists.points, lists.starts, lists.low, lists.fall
    size, half, used = len(rows), len(low), 0
    event, place = np.empty(1024, np.int64), np.empty(1024, np.int64)
    start, stop = np.empty(1024, np.int64), np.empty(1024, np.int64)
    for e in range(len(probes)):
        b = probes[e]
        first = START
        for g in range(len(points)):
            begin, end, point = starts[g], starts[g + 1], points[g]
            first = gallop_at_least(rows, first, size, b, low[begin])  # lows rise from group to group
            rise, drop = begin, end
            for at in range(first, size):
                d = rows[at] - b
                if d <= point:
                    rise = gallop_above(low, rise, end, 0.0, d)
                    from_, to = begin, rise
                else:
                    drop = first_above(fall, begin, drop, 0.0, -d)
                    if drop == begin:
                        break
                    from_, to = half + begin, half + drop
                if used == len(event):
                    event, place = _longer(event), _longer(place)
                    start, stop = _longer(start), _longer(stop)
                event[used], place[used], start[used], stop[used] = e, at, from_, to
                used += 1
    return QueryRuns(event[:used], place[:used], start[:used], stop[:used])


@compiled
def _longer(values: Integers) -> Integers:
    longer = np.empty(2 * len(values), np.int64)
    longer[: len(values)] = values
    return longer


def shortened(members: Integers, starts: Integers, stops: Integers) -> tuple[Integers, Integers]:
    """Return (starts, members) without the members that no run contains; runs with the same start share their members.

    >>> starts, members = shortened(np.arange(10, 20), np.array([5, 2, 5]), np.array([6, 4, 8]))
    >>> starts.tolist(), members.tolist()
    ([2, 0, 2], [12, 13, 15, 16, 17])
    """
    begins, of = np.unique(starts, return_inverse=True)
    sizes = np.zeros(len(begins), np.int64)
    np.maximum.at(sizes, of, stops - starts)
    ends = np.cumsum(sizes)
    kept = np.arange(ends[-1] if len(ends) else 0) + np.repeat(begins - (ends - sizes), sizes)
    return (ends - sizes)[of], members[kept]
