"""Finds the select joins that a row affects, by each method (docs/design/joins.md §2.7). One kernel searches a batch of
rows.
"""

from __future__ import annotations

import numpy as np

from tolerant.joins.bisection import START, first_above, first_at_least, gallop_above, gallop_at_least, gallop_back
from tolerant.joins.maxima_tree import next_at_least
from tolerant.joins.packed_rtree import Forest
from tolerant.joins.run_buffer import RunBuffer
from tolerant.joins.select_index import SelectIndex, Selections
from tolerant.joins.stored_rows import slice_of
from tolerant.kernels.array_types import Floats, Integers
from tolerant.kernels.compiled import compiled, compiled_no_refcount

METHODS = ("ssi", "select-first", "join-first", "scan", "hotspot", "auto")
SSI, SELECT_FIRST, JOIN_FIRST, SCAN, HOTSPOT, AUTO = range(6)


@compiled
def search_selections(  # noqa: PLR0913
    a_values: Floats, b_values: Floats, first: int, bs: Floats, cs: Floats, main: SelectIndex, side: SelectIndex,
    method: int, costs: Floats, buffer: RunBuffer, ends: Integers, chosen: Integers,
) -> tuple[int, int, int]:  # fmt: skip
    """Search events from `first` on until the buffer is full; returns what `search_bands` does."""
    used = START
    estimates = np.empty(5)
    indexes = 2 if len(side.ids) else 1  # a loop, not two calls: the compiled code stays half as large
    for event in range(first, len(a_values)):
        a = a_values[event]
        start, stop = slice_of(bs, b_values[event])
        used_method = method
        before = used
        if start < stop:
            if method == AUTO:
                estimates[:] = 0.0
                for which in range(indexes):
                    select_costs(a, stop - start, side if which else main, costs, estimates)
                used_method = int(np.argmin(estimates))
            for which in range(indexes):
                index = side if which else main
                if used_method == JOIN_FIRST:
                    used = _join_first(a, cs, start, stop, index.tiles, buffer, used)
                    continue
                if used_method in (SSI, HOTSPOT):
                    used = _groups(a, cs, start, stop, index, used_method == HOTSPOT, buffer, used)
                for hot in range(2 if used_method in (SCAN, SELECT_FIRST) else (1 if used_method == HOTSPOT else 0)):
                    ranges = index.warm if hot else index.cold
                    if used_method == SCAN:
                        used = _scan(a, cs, start, stop, ranges, buffer, used)
                    else:
                        used = _select_first(a, cs, start, stop, ranges, buffer, used)
        elif method == AUTO:
            used_method = JOIN_FIRST  # no partner, no work
        chosen[event] = used_method
        if used > len(buffer.query):
            return event, before, used if before == 0 else 0
        ends[event] = used
    return len(a_values), used, 0


@compiled_no_refcount
def _groups(  # noqa: C901
    a: float, cs: Floats, start: int, stop: int, index: SelectIndex, hot_only: bool, buffer: RunBuffer, used: int
) -> int:
    """SJ-SSI: in each group only the partners next to its point decide which queries are affected."""
    # One long function with its arrays as local variables: passing them on costs more than the search itself.
    box, ids, node, node_starts = index.groups.box, index.groups.id, index.groups.node, index.groups.node_starts
    points, starts, hot = index.points, index.starts, index.hot
    query, begins, ends, room = buffer.query, buffer.start, buffer.stop, len(buffer.query)
    at = start
    for g in range(len(points)):
        root = node_starts[g + 1] - 1
        if not (node[root, 0] <= a <= node[root, 1]) or (hot_only and not hot[g]):
            continue
        at = gallop_at_least(cs, at, stop, 0.0, points[g])
        has_left, has_right = at > start, at < stop
        right = cs[at] if has_right else 0.0
        left = cs[at - 1] if has_left else 0.0
        if has_right and right == points[g]:
            left, has_left = right, True
        if not ((has_left and node[root, 2] <= left) or (has_right and node[root, 3] >= right)):
            continue
        first, size = starts[g], starts[g + 1] - starts[g]
        i = 0
        while i < size:
            # Skip the largest block that begins here and contains nothing.
            level, block, span = node_starts[g], i >> 3, 8
            count = (size + 7) >> 3
            n = level + block
            if not (
                node[n, 0] <= a <= node[n, 1]
                and ((has_left and node[n, 2] <= left) or (has_right and node[n, 3] >= right))
            ):
                while block & 7 == 0 and count > 1:
                    n = level + count + (block >> 3)
                    if (
                        node[n, 0] <= a <= node[n, 1]
                        and ((has_left and node[n, 2] <= left) or (has_right and node[n, 3] >= right))
                    ):  # fmt: skip
                        break
                    level += count
                    count = (count + 7) >> 3
                    block >>= 3
                    span <<= 3
                i += span
                continue
            for k in range(first + i, first + min(i + 8, size)):
                if box[k, 0] <= a <= box[k, 1] and (
                    (has_left and box[k, 2] <= left) or (has_right and box[k, 3] >= right)
                ):
                    begin = end = at
                    if at > start and box[k, 2] <= cs[at - 1]:
                        begin = gallop_back(cs, start, at - 1, 0.0, box[k, 2])
                    if has_right and box[k, 3] >= right:
                        end = gallop_above(cs, at + 1, stop, 0.0, box[k, 3])
                    if used < room:
                        query[used], begins[used], ends[used] = ids[k], begin, end
                    used += 1
            i += 8
    return used


@compiled_no_refcount
def _select_first(a: float, cs: Floats, start: int, stop: int, ranges: Selections, buffer: RunBuffer, used: int) -> int:
    """SJ-SelectFirst: the queries that select the row, then the c range of each among the partners of the row."""
    low, high, tree, c_low, c_high, ids = (
        ranges.low, ranges.high, ranges.tree, ranges.c_low, ranges.c_high, ranges.id,
    )  # fmt: skip
    query, begins, ends, room = buffer.query, buffer.start, buffer.stop, len(buffer.query)
    prefix = first_above(low, START, len(low), 0.0, a)
    k = next_at_least(high, tree, START, prefix, a)
    while k < prefix:
        begin = first_at_least(cs, start, stop, 0.0, c_low[k])
        if begin < stop and cs[begin] <= c_high[k]:
            if used < room:
                query[used], begins[used] = ids[k], begin
                ends[used] = gallop_above(cs, begin + 1, stop, 0.0, c_high[k])
            used += 1
        k = next_at_least(high, tree, k + 1, prefix, a)
    return used


@compiled_no_refcount
def _scan(a: float, cs: Floats, start: int, stop: int, ranges: Selections, buffer: RunBuffer, used: int) -> int:
    """NAIVE: for every query a test of a and its c range among the partners of the row."""
    low, high, c_low, c_high, ids = ranges.low, ranges.high, ranges.c_low, ranges.c_high, ranges.id
    query, begins, ends, room = buffer.query, buffer.start, buffer.stop, len(buffer.query)
    for k in range(len(low)):
        # [DISS] joins first, so the search among the partners precedes the test of a.
        begin = first_at_least(cs, start, stop, 0.0, c_low[k])
        if begin < stop and cs[begin] <= c_high[k] and low[k] <= a <= high[k]:
            if used < room:
                query[used], begins[used] = ids[k], begin
                ends[used] = gallop_above(cs, begin + 1, stop, 0.0, c_high[k])
            used += 1
    return used


@compiled_no_refcount
def _join_first(a: float, cs: Floats, start: int, stop: int, tiles: Forest, buffer: RunBuffer, used: int) -> int:
    """SJ-JoinFirst: each partner stabs one R-tree of all rectangles with (c, a)."""
    box, ids, node, size = tiles.box, tiles.id, tiles.node, len(tiles.id)
    query, begins, ends, room = buffer.query, buffer.start, buffer.stop, len(buffer.query)
    for place in range(start, stop):
        c = cs[place]
        i = 0
        while i < size:
            level, block, span = 0, i >> 3, 8
            count = (size + 7) >> 3
            if not (node[block, 0] <= a <= node[block, 1] and node[block, 2] <= c <= node[block, 3]):
                while block & 7 == 0 and count > 1:
                    n = level + count + (block >> 3)
                    if node[n, 0] <= a <= node[n, 1] and node[n, 2] <= c <= node[n, 3]:
                        break
                    level += count
                    count = (count + 7) >> 3
                    block >>= 3
                    span <<= 3
                i += span
                continue
            for k in range(i, min(i + 8, size)):
                if box[k, 0] <= a <= box[k, 1] and box[k, 2] <= c <= box[k, 3]:
                    if used < room:
                        query[used], begins[used], ends[used] = ids[k], place, place + 1
                    used += 1
            i += 8
    return used


@compiled_no_refcount
def stabbed(a: float, ranges: Selections) -> int:
    """Estimate how many queries select a: those that begin at or before a, less those that end before it."""
    begun = first_above(ranges.low, START, len(ranges.low), 0.0, a)
    return max(begun - first_at_least(ranges.ends, START, len(ranges.ends), 0.0, a), 0)


@compiled_no_refcount
def select_costs(a: float, partners: int, index: SelectIndex, costs: Floats, out: Floats) -> None:
    """Add the estimated microseconds of each method, without looking up the slice and the output, to `out` (§2.8).

    `costs` is what `CostCoefficients.array` returns.
    """
    n = len(index.ids)
    if n == 0:
        return
    cold = len(index.cold.id)
    k_cold = stabbed(a, index.cold)
    k_all = k_cold + stabbed(a, index.warm)
    search = np.log(1.0 + partners)
    out[SSI] += costs[8] * index.roots[1]
    out[SELECT_FIRST] += costs[5] * np.log(n + 1.0) + costs[6] * k_all * search
    out[JOIN_FIRST] += costs[1] * partners * np.sqrt(n)
    out[SCAN] += costs[3] * n * search
    out[HOTSPOT] += costs[8] * index.roots[0] + costs[9] * np.log(cold + 1.0) + costs[10] * k_cold * search
