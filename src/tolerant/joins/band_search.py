"""Finds the bands that a row affects, by each method (docs/design/joins.md §2.6). One kernel searches a batch
of rows.
"""

from __future__ import annotations

import numpy as np

from tolerant.joins.band_index import BandIndex
from tolerant.joins.bisection import START, first_above, first_at_least, gallop_above, gallop_at_least, gallop_back
from tolerant.joins.maxima_tree import next_at_least
from tolerant.joins.run_buffer import RunBuffer, append_run
from tolerant.kernels.array_types import Floats, Integers
from tolerant.kernels.compiled import compiled, compiled_no_refcount

METHODS = ("ssi", "queries", "data", "merge", "hotspot", "auto")
SSI, QUERIES, DATA, MERGE, HOTSPOT, AUTO = range(6)


@compiled
def search_bands(  # noqa: PLR0913
    probes: Floats, first: int, rows: Floats, main: BandIndex, side: BandIndex, method: int, costs: Floats,
    buffer: RunBuffer, ends: Integers, chosen: Integers,
) -> tuple[int, int, int]:  # fmt: skip
    """Search events from `first` on until the buffer is full.

    Returns the event to continue with, the number of runs in the buffer, and, where not even one event fits, the room
    that it needs (else 0). Writes to `ends[e]` where the runs of event e end, to `chosen[e]` the method used.
    """
    used = START
    indexes = 2 if len(side.ids) else 1  # a loop, not two calls: the compiled code stays half as large
    estimates = np.empty(5)
    for event in range(first, len(probes)):
        b = probes[event]
        used_method = method
        if method == AUTO:
            estimates[:] = 0.0
            for which in range(indexes):
                band_costs(b, rows, side if which else main, costs, estimates)
            used_method = int(np.argmin(estimates))
        chosen[event] = used_method
        before = used
        for which in range(indexes):
            index = side if which else main
            cold = len(index.ids) - index.hot_counts[0]
            rest_method = used_method
            if used_method in (SSI, HOTSPOT):
                used = _groups(b, rows, index, used_method == HOTSPOT, buffer, used)
                if used_method == SSI or cold == 0:
                    continue
            start, stop = hull_of(b, rows, index)
            if used_method == HOTSPOT:
                rest_method = QUERIES if cold * np.log2(len(rows) + 2.0) < cold + (stop - start) else MERGE
            if rest_method == QUERIES:
                used = _queries(b, rows, index, used_method == HOTSPOT, buffer, used)
            elif rest_method == MERGE:
                used = _merge(b, rows, index, used_method == HOTSPOT, start, stop, buffer, used)
            else:
                used = _data(b, rows, index, start, stop, buffer, used)
        if used > len(buffer.query):
            return event, before, used if before == 0 else 0
        ends[event] = used
    return len(probes), used, 0


@compiled_no_refcount
def hull_of(b: float, rows: Floats, index: BandIndex) -> tuple[int, int]:
    """Return the range of rows that any band can reach."""
    start = first_at_least(rows, START, len(rows), b, index.hull[0])
    return start, first_above(rows, start, len(rows), b, index.hull[1])


@compiled_no_refcount
def _groups(b: float, rows: Floats, index: BandIndex, hot_only: bool, buffer: RunBuffer, used: int) -> int:  # noqa: C901
    """BJ-SSI: only the two rows next to the point of a group decide which of its bands are affected."""
    # One long function with its arrays as local variables: passing them on costs more than the search itself.
    lows, highs, ids = index.low, index.high, index.id
    h_lows, h_highs, h_ids = index.h_low, index.h_high, index.h_id
    query, begins, ends, room = buffer.query, buffer.start, buffer.stop, len(buffer.query)
    points, starts, hot = index.points, index.starts, index.hot
    size, at = len(rows), START
    for g in range(len(points)):
        if hot_only and not hot[g]:
            continue
        at = gallop_at_least(rows, at, size, b, points[g])
        has_left, has_right = at > 0, at < size
        left = rows[at - 1] - b if has_left else -np.inf
        right = rows[at] - b if has_right else np.inf
        # A row on the point itself: every band of the group is affected.
        exact = has_right and right == points[g]
        if has_left or exact:
            reach = points[g] if exact else left
            # The row after the next is most often out of reach: reading it once here saves reading it per band.
            has_further = at > 1
            further = rows[at - 2] - b if has_further else -np.inf
            for k in range(starts[g], starts[g + 1]):
                low, high = lows[k], highs[k]
                if low > reach:
                    break
                if high == -np.inf:  # removed
                    continue
                begin = end = at
                if has_left and low <= left:
                    begin = at - 1
                    if has_further and low <= further:
                        begin = gallop_back(rows, START, at - 2, b, low)
                if has_right and high >= right:
                    end = gallop_above(rows, at + 1, size, b, high)
                if used < room:
                    query[used], begins[used], ends[used] = ids[k], begin, end
                used += 1
        if has_right and not exact:
            has_further = at + 1 < size
            further = rows[at + 1] - b if has_further else np.inf
            for k in range(starts[g], starts[g + 1]):
                low, high = h_lows[k], h_highs[k]
                if high < right:
                    break
                if (has_left and low <= left) or low == np.inf:  # written already, or removed
                    continue
                end = at + 1
                if has_further and high >= further:
                    end = gallop_above(rows, at + 2, size, b, high)
                if used < room:
                    query[used], begins[used], ends[used] = h_ids[k], at, end
                used += 1
    return used


@compiled_no_refcount
def _queries(b: float, rows: Floats, index: BandIndex, cold_only: bool, buffer: RunBuffer, used: int) -> int:
    """BJ-QOuter: two searches for each band."""
    size = len(rows)
    for g in range(len(index.points)):
        if cold_only and index.hot[g]:
            continue
        for k in range(index.starts[g], index.starts[g + 1]):
            start = first_at_least(rows, START, size, b, index.low[k])
            stop = first_above(rows, start, size, b, index.high[k])
            if start < stop:
                used = append_run(buffer, used, index.id[k], start, stop)
    return used


@compiled_no_refcount
def _merge(
    b: float, rows: Floats, index: BandIndex, cold_only: bool, at: int, last: int, buffer: RunBuffer, used: int
) -> int:
    """BJ-MJ: bands by low against rows in order, one pass over both."""
    for g in range(len(index.points)):
        if cold_only and index.hot[g]:
            continue
        for k in range(index.starts[g], index.starts[g + 1]):
            low, high = index.low[k], index.high[k]
            while at < last and rows[at] - b < low:
                at += 1
            if at < last and rows[at] - b <= high:
                used = append_run(buffer, used, index.id[k], at, gallop_above(rows, at + 1, last, b, high))
    return used


@compiled_no_refcount
def _data(b: float, rows: Floats, index: BandIndex, first: int, last: int, buffer: RunBuffer, used: int) -> int:
    """BJ-DOuter: each row stabs the bands."""
    prefix = START
    for place in range(first, last):
        x = rows[place] - b
        prefix = gallop_above(index.low, prefix, len(index.low), 0.0, x)
        k = next_at_least(index.high, index.tree, START, prefix, x)
        while k < prefix:
            used = append_run(buffer, used, index.id[k], place, place + 1)
            k = next_at_least(index.high, index.tree, k + 1, prefix, x)
    return used


@compiled_no_refcount
def band_costs(b: float, rows: Floats, index: BandIndex, costs: Floats, out: Floats) -> None:
    """Add the estimated microseconds of each method, without the output, to `out` (docs/design/joins.md §2.8).

    `costs` is what `CostCoefficients.array` returns.
    """
    n, m = len(index.ids), len(rows)
    if n == 0 or m == 0:
        return
    start, stop = hull_of(b, rows, index)
    reach = stop - start
    log_m = np.log(m + 1.0)
    groups = len(index.points)
    cold = n - index.hot_counts[0]
    queries = costs[12] * log_m
    out[SSI] += costs[11] * groups * np.log(2.0 + m / groups)
    out[QUERIES] += n * queries
    out[DATA] += costs[13] * reach * np.log(n + 1.0)
    out[MERGE] += costs[14] * (n + reach)
    out[HOTSPOT] += costs[11] * index.hot_counts[1] * np.log(2.0 + m / max(index.hot_counts[1], 1))
    if cold:
        out[HOTSPOT] += min(cold * queries, costs[14] * (cold + reach))
