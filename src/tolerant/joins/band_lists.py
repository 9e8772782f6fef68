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
from tolerant.joins.partition import canonical, points_of
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


def band_lists(ids: Integers, low: Floats, high: Floats) -> BandLists:
    """The lists of bands given by sorted ids."""
    order = np.argsort(low, kind="stable")
    ids, low, high = ids[order], low[order], high[order]
    found = canonical(low, high)
    group = np.repeat(np.arange(len(found.low)), np.diff(found.starts))
    falling = np.lexsort((ids, -high, group))
    members = np.concatenate([ids, ids[falling]])
    return BandLists(members, found.starts, points_of(found.low, found.high), low, -high[falling])


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
