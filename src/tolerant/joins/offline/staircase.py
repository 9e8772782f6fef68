"""Finds which rectangles that share a point contain a row: the staircases around the point decide (docs/design/joins.md
§2.11).

With a second condition on the stored row the two rows next to a group's point no longer decide: they may fail it. But a
rectangle around the point contains a row of one of the four quadrants if and only if it contains one of that quadrant's
staircase: the rows to which no other row of the quadrant is closer to the point in both coordinates. Coordinates are
compared as they are, with their signs turned so that every quadrant looks like the first: no distance is computed, none
rounded.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tolerant.joins.band_index import BandIndex, band_index
from tolerant.joins.band_search import _groups
from tolerant.joins.bisection import START, first_above, first_at_least, gallop_at_least
from tolerant.joins.maxima_tree import maxima, next_at_least
from tolerant.joins.partition import canonical, points_of
from tolerant.joins.run_buffer import RunBuffer, append_run
from tolerant.kernels.array_types import Floats, Integers
from tolerant.kernels.compiled import compiled, compiled_no_refcount

RESIDUAL, STAIRCASE = range(2)


class RectangleIndex(NamedTuple):
    """Rectangles (low, high, c_low, c_high) in groups that share a point (x, y), each in four orders.

    In a quadrant, `reach` is how far a rectangle extends along b, decreasing in each group, `breadth` how far along c.
    A removed rectangle has a breadth of −∞ and c_low = NaN.
    """

    ids: Integers  # sorted; a rectangle's slot is its place here
    column: Floats  # [n, 4]
    bands: BandIndex  # of slots
    starts: Integers  # of the groups, [g + 1]
    x: Floats
    y: Floats
    hot_counts: Integers
    slot: Integers  # [4, n]
    place: Integers  # [4, n]: place of each slot
    reach: Floats  # [4, n], negated, so that it increases
    breadth: Floats  # [4, n]
    tree: Floats  # [4, blocks]: of largest breadths


def rectangle_index(ids: Integers, columns: Floats) -> RectangleIndex:
    """Group by the bands, then each group by the ranges of c: not the fewest groups (that is NP-hard), but few."""
    n = len(ids)
    low, high, c_low, c_high = (np.ascontiguousarray(columns[:, k]) for k in range(4))
    bands = canonical(low, high)
    members: list[Integers] = []
    x, y = [], []
    for g, point in enumerate(points_of(bands.low, bands.high)):
        inside = bands.order[bands.starts[g] : bands.starts[g + 1]]
        parts = canonical(c_low[inside], c_high[inside])
        members += [inside[parts.order[a:b]] for a, b in zip(parts.starts[:-1], parts.starts[1:], strict=True)]
        x += [point] * len(parts.low)
        y += points_of(parts.low, parts.high).tolist()
    starts = np.concatenate([[0], np.cumsum([len(group) for group in members], dtype=np.int64)]).astype(np.int64)
    group = np.empty(n, np.int64)
    if n:
        group[np.concatenate(members)] = np.repeat(np.arange(len(members)), np.diff(starts))
    # Quadrants: right or left of x (high, −low), above or below y (c_high, −c_low).
    extents = ((high, c_high), (high, -c_low), (-low, c_high), (-low, -c_low))
    slot = np.array([np.lexsort((-reach, group)) for reach, _ in extents]).reshape(4, n)
    breadth = np.array([wide[order] for (_, wide), order in zip(extents, slot, strict=True)]).reshape(4, n)
    return RectangleIndex(
        ids,
        columns.copy(),
        band_index(np.arange(n), np.ascontiguousarray(columns[:, :2]), None),
        starts,
        np.array(x, np.float64),
        np.array(y, np.float64),
        np.array([n, len(x)]),
        slot,
        np.argsort(slot, axis=1),
        np.array([-reach[order] for (reach, _), order in zip(extents, slot, strict=True)]).reshape(4, n),
        breadth,
        np.array([maxima(np.ascontiguousarray(row)) for row in breadth]).reshape(4, -1),
    )


def remove_rectangle(index: RectangleIndex, place: int) -> None:
    """Mark the rectangle at this slot as removed."""
    index.column[place, 2] = np.nan
    for quadrant in range(4):
        index.breadth[quadrant, index.place[quadrant, place]] = -np.inf


@compiled
def search_rectangles(  # noqa: PLR0913
    probes: Floats, first: int, bs: Floats, cs: Floats, main: RectangleIndex, side: RectangleIndex, method: int,
    enumerate_rows: bool, buffer: RunBuffer, ends: Integers,
) -> tuple[int, int, int]:  # fmt: skip
    """Search events from `first` on until the buffer is full; returns what `search_bands` does.

    Without `enumerate_rows` an affected query is written once, as an empty run.
    """
    used = START
    most = max(len(main.ids), len(side.ids))
    runs = RunBuffer(np.empty(most, np.int64), np.empty(most, np.int64), np.empty(most, np.int64))
    seen = np.full(most, -1, np.int64)
    for event in range(first, len(probes)):
        b = probes[event]
        before = used
        for which in range(2):
            index = side if which else main
            if len(index.ids) == 0 or len(bs) == 0:
                continue
            if method == STAIRCASE:
                count = _affected(b, bs, cs, index, runs, seen, 2 * event + which)
                if not enumerate_rows:
                    for k in range(count):
                        used = append_run(buffer, used, index.ids[runs.query[k]], START, START)
                    continue
            else:
                count = _groups(b, bs, index.bands, False, runs, START)
            for k in range(count):
                used = _write_rows(b, bs, cs, index, runs, k, method == STAIRCASE, enumerate_rows, buffer, used)
        if used > len(buffer.query):
            return event, before, used if before == 0 else 0
        ends[event] = used
    return len(probes), used, 0


@compiled_no_refcount
def _write_rows(  # noqa: PLR0913
    b: float, bs: Floats, cs: Floats, index: RectangleIndex, runs: RunBuffer, k: int, known: bool, enumerate_rows: bool,
    buffer: RunBuffer, used: int,
) -> int:  # fmt: skip
    """Write the rows of a run that are in the query's range of c, neighbours as one run."""
    slot, room = runs.query[k], len(buffer.query)
    low, high, c_low, c_high = (
        index.column[slot, 0],
        index.column[slot, 1],
        index.column[slot, 2],
        index.column[slot, 3],
    )
    start, stop = runs.start[k], runs.stop[k]
    if known:
        start = first_at_least(bs, START, len(bs), b, low)
        stop = first_above(bs, start, len(bs), b, high)
    at = start
    while at < stop:
        if not (c_low <= cs[at] <= c_high):
            at += 1
            continue
        begin = at
        while at < stop and c_low <= cs[at] <= c_high:
            at += 1
        if used < room:
            buffer.query[used] = index.ids[slot]
            buffer.start[used] = begin if enumerate_rows else 0
            buffer.stop[used] = at if enumerate_rows else 0
        used += 1
        if not enumerate_rows:
            return used
    return used


@compiled_no_refcount
def _affected(
    b: float, bs: Floats, cs: Floats, index: RectangleIndex, runs: RunBuffer, seen: Integers, stamp: int
) -> int:
    """Write the slots of all rectangles that contain a row, each once; returns their number."""
    xs, ys, starts, affected = index.x, index.y, index.starts, runs.query
    count = START
    for quadrant in range(4):
        reach, breadth = index.reach[quadrant], index.breadth[quadrant]
        tree, slots = index.tree[quadrant], index.slot[quadrant]
        at = START
        for g in range(len(xs)):
            if g == 0 or xs[g] != xs[g - 1]:
                at = gallop_at_least(bs, at, len(bs), b, xs[g])
            y = ys[g] if quadrant % 2 == 0 else -ys[g]
            place = at if quadrant < 2 else at - 1
            nearest, start, last = np.inf, starts[g], starts[g + 1]
            # Walk outward from the point along b, to the largest reach. A row nearer to it in c than all before is the
            # next stair: rectangles that end before it were found by the stair before.
            while True:
                end, e = start, -np.inf
                while 0 <= place < len(bs):
                    d = bs[place] - b if quadrant < 2 else b - bs[place]
                    if -reach[start] < d:
                        break
                    c = cs[place] if quadrant % 2 == 0 else -cs[place]
                    place += 1 if quadrant < 2 else -1
                    if y <= c < nearest:
                        end, e = first_above(reach, start, last, 0.0, -d), c
                        break
                if nearest < np.inf:
                    k = next_at_least(breadth, tree, end, last, nearest)
                    while k < last:
                        slot = slots[k]
                        if seen[slot] != stamp:
                            seen[slot] = stamp
                            affected[count] = slot
                            count += 1
                        k = next_at_least(breadth, tree, k + 1, last, nearest)
                if e == -np.inf:
                    break
                nearest, last = e, end
    return count
