"""To whom a pair of rows belongs, said as runs of queries instead of one by one.

The bands that hold a difference d are, of a group with the common point p, those with the smallest lows where d ≤ p,
and those with the largest highs where d > p: a prefix of one of two orders (specs/5-joins.md §2.6). So what a row
joins with is found, and said, in time that grows with the pairs of rows, not with the queries that each is for.
`BandJoins.slices` is the same the other way round: for each query a run of rows.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tolerant.joins.arrays import Floats, Integers
from tolerant.joins.bisection import START, first_above, gallop_above, gallop_at_least
from tolerant.joins.partition import points_of, sweep
from tolerant.kernels.compiled import compiled


class BandLists(NamedTuple):
    """Bands in both orders; a function of the bands alone.

    `members` int64[2n]: the queries group by group, each group's by increasing low, and behind these the same by
    decreasing high. Group g is at `starts[g]` … `starts[g + 1]` of either half; `low` and `fall` (the highs, negated)
    are float64[n], in the order of the halves.
    """

    members: Integers
    starts: Integers
    points: Floats
    low: Floats
    fall: Floats


class Runs(NamedTuple):
    """Pairs of rows with some queries each, [k]: event, place of the stored row, and `members[start:stop]`."""

    event: Integers
    place: Integers
    start: Integers
    stop: Integers


class BandOrders:
    """The bands that there are, sorted by low and by high: a change costs copying, never sorting all of them again.

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
        self._fresh: list[Order] = []  # id between low and high, not yet among them
        self._lists: BandLists | None = None

    def add(self, ids: Integers, low: Floats, high: Floats) -> None:
        """Bands that are not there."""
        self._fresh.append((low, ids, high))
        self._lists = None

    def remove(self, ids: Integers) -> None:
        """Bands that are there."""
        self._fold()
        gone = np.sort(ids)
        for name in ("_rising", "_falling"):
            held: Order = getattr(self, name)
            places = np.minimum(np.searchsorted(gone, held[1]), len(gone) - 1) if len(gone) else None
            stays = np.ones(len(held[1]), np.bool_) if places is None else gone[places] != held[1]
            setattr(self, name, tuple(column[stays] for column in held))
        self._lists = None

    def lists(self) -> BandLists:
        """The lists of these bands."""
        if self._lists is None:
            self._fold()
            low, ids, high = self._rising
            found = sweep(low, high, np.arange(len(low)))
            # A group is a stretch of the lows; those that are equal are never in two.
            group = np.searchsorted(low[found.starts[:-1]], self._falling[2], side="right")
            order = np.argsort(group.astype(np.uint16) if len(found.starts) < 1 << 16 else group, kind="stable")
            members = np.concatenate([ids, self._falling[1][order]])
            points = points_of(found.low, found.high)
            self._lists = BandLists(members, found.starts, points, low, self._falling[0][order])
        return self._lists

    def _fold(self) -> None:
        """Put the new ones among the others."""
        if self._fresh:
            low, ids, high = map(np.concatenate, zip(*self._fresh, strict=True))
            self._rising = _with(self._rising, (low, ids, high))
            self._falling = _with(self._falling, (-high, ids, low))
            self._fresh = []


Order = tuple[Floats, Integers, Floats]
"""Bands sorted by the first, and where it is equal by their ids."""


def _with(held: Order, new: Order) -> Order:
    order = np.lexsort((new[1], new[0]))
    first, ids, other = new[0][order], new[1][order], new[2][order]
    places = _merged(held[0], held[1], first, ids)
    return (
        np.concatenate([held[0], first])[places],
        np.concatenate([held[1], ids])[places],
        np.concatenate([held[2], other])[places],
    )


@compiled
def _merged(first: Floats, ids: Integers, new_first: Floats, new_ids: Integers) -> Integers:
    """The order of two orders one behind the other."""
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
def runs_of(rows: Floats, probes: Floats, lists: BandLists) -> Runs:
    """All pairs of a probe and a row, rows sorted, whose difference `row - probe` is in a band; a pair comes once for
    each group that it is in.
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
    return Runs(event[:used], place[:used], start[:used], stop[:used])


@compiled
def _longer(values: Integers) -> Integers:
    longer = np.empty(2 * len(values), np.int64)
    longer[: len(values)] = values
    return longer


def shortened(members: Integers, starts: Integers, stops: Integers) -> tuple[Integers, Integers]:
    """(starts, members) without what no run reaches; runs that begin at the same place share what they have.

    >>> starts, members = shortened(np.arange(10, 20), np.array([5, 2, 5]), np.array([6, 4, 8]))
    >>> starts.tolist(), members.tolist()
    ([2, 0, 2], [12, 13, 15, 16, 17])
    """
    begins, of = np.unique(starts, return_inverse=True)
    sizes = np.zeros(len(begins), np.int64)
    np.maximum.at(sizes, of, stops - starts)
    ends = np.cumsum(sizes)
    taken = np.arange(ends[-1] if len(ends) else 0) + np.repeat(begins - (ends - sizes), sizes)
    return (ends - sizes)[of], members[taken]
