"""The bounds of every query, kept up to date row by row (`docs/design/filters.md` §2.2).

A sum is Σ K·centre with half-width Σ |K|·width / 2; a min (max) is bounded by the min (max) of the items' lower and of
their upper ends. Each event time at which the bounds of a query change gives one answer: rows of one `at` are one
transaction.

The centre of a predicted filter moves only while its source is alive. Beyond the time up to which that is known, the
bounds of an item cover its filter at that time and at every moment since: they contain the last value if the source has
died, and the present value if it has not.
"""

from __future__ import annotations

import numpy as np

from tolerant.filters.state import (
    AVG,
    COUNT,
    MAX,
    MIN,
    NOTHING,
    SETTLING,
    STALE,
    AnswerBatch,
    Flags,
    Integers,
    ItemArrays,
    LinkArrays,
    QueryArrays,
)
from tolerant.kernels.compiled import compiled, compiled_no_refcount

_ROUNDING = 1e-9
"""Fraction of the tolerance that rounding may use before an answer counts as settling."""

_CANCELLATION = 1e10
"""Removing a term this much larger than the rest of its sum cancels the rest's digits: recompute the sum."""


@compiled
def _add(total: float, lost: float, term: float) -> tuple[float, float]:
    # Neumaier summation: accumulates the rounding error beside the total.
    new = total + term
    if abs(total) >= abs(term):
        lost += (total - new) + term
    else:
        lost += (term - new) + total
    return new, lost


@compiled_no_refcount
def _unproven(items: ItemArrays, item: int, tick: int) -> float:
    """How far an item's centre has moved since its source was last known to be alive."""
    ticks = tick - max(items.alive_until[item], items.since[item])
    return items.slope[item] * ticks if ticks > 0 else 0.0


@compiled_no_refcount
def centre_at(items: ItemArrays, item: int, tick: int) -> float:
    """The centre of an item's filter; midway along the movement that is not certain (see `_unproven`)."""
    centre = items.level[item] + items.slope[item] * (tick - items.since[item])
    return centre - _unproven(items, item, tick) / 2


@compiled_no_refcount
def width_at(items: ItemArrays, item: int, tick: int) -> float:
    """The width of an item's bounds: that of its filter, plus the movement of its centre that is not certain."""
    return items.width[item] + abs(_unproven(items, item, tick))


@compiled_no_refcount
def value_bounds(items: ItemArrays, item: int, tick: int) -> tuple[float, float]:
    """Bounds of an item's value: its filter interval, extended to the suppressed side if a suppression may be in force,
    intersected with its reported history.
    """
    centre, pad = centre_at(items, item, tick), items.pad[item]
    width = width_at(items, item, tick) + pad
    low, high = centre - width / 2, centre + width / 2
    if items.suppress_side[item] > 0:
        return max(min(low, items.suppress_beyond[item] - pad / 2), items.reported_low[item]), items.reported_high[item]
    if items.suppress_side[item] < 0:
        return items.reported_low[item], min(
            max(high, items.suppress_beyond[item] + pad / 2), items.reported_high[item]
        )
    return low, high


@compiled_no_refcount
def end_suppression(item: int, items: ItemArrays, queries: QueryArrays, links: LinkArrays) -> None:
    """End the suppression of an item."""
    items.suppress_side[item], items.probed[item] = 0, False
    forget_reported_range(item, items, queries, links)


@compiled_no_refcount
def forget_reported_range(item: int, items: ItemArrays, queries: QueryArrays, links: LinkArrays) -> None:
    """Discard the reported history of an item."""
    items.reported_low[item], items.reported_high[item] = -np.inf, np.inf
    for position in range(links.item_start[item], links.item_start[item + 1]):
        queries.dirty[links.item_queries[position]] = True


@compiled_no_refcount
def _scan(query: int, tick: int, items: ItemArrays, queries: QueryArrays, links: LinkArrays) -> None:
    """Recompute total, drift, spread, unknown, low and high of a query from its members."""
    total, total_lost, spread, spread_lost, unknown = 0.0, 0.0, 0.0, 0.0, 0
    drift, moving = 0.0, 0
    least = queries.fn[query] == MIN
    low, high = (np.inf, np.inf) if least else (-np.inf, -np.inf)
    for position in range(links.query_start[query], links.query_start[query + 1]):
        item, weight = links.query_items[position], links.query_weights[position]
        centre, width = centre_at(items, item, tick), width_at(items, item, tick) + items.pad[item]
        if weight == 0.0:
            continue
        if items.slope[item] != 0.0:
            drift += weight * items.slope[item]
            moving += 1
        total, total_lost = _add(total, total_lost, weight * centre)
        extreme = least or queries.fn[query] == MAX
        if np.isinf(width) or (items.suppress_side[item] != 0 and not extreme):
            unknown += 1
        else:
            spread, spread_lost = _add(spread, spread_lost, abs(weight) * width)
        bottom, top = value_bounds(items, item, tick)
        if least:
            low, high = min(low, bottom), min(high, top)
        else:
            low, high = max(low, bottom), max(high, top)
    queries.total[query], queries.total_lost[query] = total, total_lost
    queries.spread[query], queries.spread_lost[query] = spread, spread_lost
    queries.drift[query], queries.moving[query] = drift, moving
    queries.unknown[query] = unknown
    queries.low[query], queries.high[query] = low, high
    queries.dirty[query] = False


@compiled_no_refcount
def _bounds(
    query: int, tick: int, items: ItemArrays, queries: QueryArrays, links: LinkArrays
) -> tuple[float, float, float, int]:
    """low, value, high and flags of a query at `tick`."""
    fn, n = queries.fn[query], queries.members[query]
    flags = STALE if queries.stale[query] > 0 else 0
    if fn == COUNT:
        return float(n), float(n), float(n), flags
    if n == 0:
        return np.nan, np.nan, np.nan, NOTHING
    if queries.dirty[query]:
        _scan(query, tick, items, queries, links)
    allowed = 2.0 * queries.within[query] * (1.0 + _ROUNDING)
    if fn in (MIN, MAX):
        low, high = queries.low[query], queries.high[query]
        value = (low + high) / 2 if np.isfinite(low) and np.isfinite(high) else np.nan
        if queries.unknown[query] > 0 or not high - low <= allowed:
            flags |= SETTLING
        return low, value, high, flags
    share = float(n) if fn == AVG else 1.0
    value = (queries.total[query] + queries.total_lost[query]) / share
    if not np.isfinite(value):  # an overflow cannot be undone by subtraction
        _scan(query, tick, items, queries, links)
        value = (queries.total[query] + queries.total_lost[query]) / share
        if not np.isfinite(value):
            return -np.inf, np.nan, np.inf, flags | SETTLING
    if queries.unknown[query] > 0:
        return -np.inf, value, np.inf, flags | SETTLING
    half = max(queries.spread[query] + queries.spread_lost[query], 0.0) / 2 / share
    if not 2.0 * half <= allowed:
        flags |= SETTLING
    return value - half, value, value + half, flags


@compiled
def _same(a: float, b: float) -> bool:
    return a == b or (np.isnan(a) and np.isnan(b))


@compiled_no_refcount
def emit(
    chosen: Integers,
    at: int,
    tick: int,
    items: ItemArrays,
    queries: QueryArrays,
    links: LinkArrays,
    batch: AnswerBatch,
    count: int,
) -> int:
    """Append the answers of those of the chosen queries that changed since they were last emitted to `batch`, which has
    `count`; returns the new count. `tick` is that of `at`.
    """
    for query in chosen:
        queries.touched[query] = False
        low, value, high, flags = _bounds(query, tick, items, queries, links)
        if (
            flags == queries.emitted_flags[query]
            and _same(low, queries.emitted_low[query])
            and _same(value, queries.emitted_value[query])
            and _same(high, queries.emitted_high[query])
        ):
            continue
        queries.emitted_low[query], queries.emitted_value[query], queries.emitted_high[query] = low, value, high
        queries.emitted_flags[query] = flags
        batch.query[count], batch.at[count] = query, at
        batch.low[count], batch.value[count], batch.high[count] = low, value, high
        batch.flags[count] = flags
        count += 1
    return count


@compiled
def pass_ticks(
    tick: int,
    until: int,
    length: int,
    items: ItemArrays,
    queries: QueryArrays,
    links: LinkArrays,
    batch: AnswerBatch,
    count: int,
) -> int:
    """Move the centres from `tick` to `until`, and append the answers that change at each tick (of `length`); returns
    the new number of answers in `batch`.
    """
    moving = np.flatnonzero(queries.moving > 0)
    if moving.size == 0:
        return count
    unproven = _with_unproven_items(until, items, queries, links)
    while tick < until:
        tick += 1
        for query in moving:
            if queries.fn[query] in (MIN, MAX) or unproven[query]:
                queries.dirty[query] = True
            elif not queries.dirty[query]:
                queries.total[query], queries.total_lost[query] = _add(
                    queries.total[query], queries.total_lost[query], queries.drift[query]
                )
        count = emit(moving, tick * length, tick, items, queries, links, batch, count)
    return count


@compiled
def _with_unproven_items(tick: int, items: ItemArrays, queries: QueryArrays, links: LinkArrays) -> Flags:
    """Which queries have an item whose centre moves beyond the time up to which its source is known to be alive."""
    unproven = np.zeros(queries.fn.size, np.bool_)
    for item in range(links.item_start.size - 1):
        if items.slope[item] != 0.0 and items.alive_until[item] < tick:
            for position in range(links.item_start[item], links.item_start[item + 1]):
                unproven[links.item_queries[position]] = True
    return unproven


@compiled_no_refcount
def move(  # noqa: PLR0913
    item: int,
    level: float,
    slope: float,
    since: int,
    width: float,
    tick: int,
    items: ItemArrays,
    queries: QueryArrays,
    links: LinkArrays,
) -> None:
    """Give an item a new filter, and update the sums and extremes of its queries."""
    old_centre, old_slope, pad = centre_at(items, item, tick), items.slope[item], items.pad[item]
    old_width = width_at(items, item, tick) + pad
    items.level[item], items.slope[item], items.since[item] = level, slope, since
    items.width[item] = width
    width = width_at(items, item, tick) + pad
    centre = centre_at(items, item, tick)
    if centre == old_centre and width == old_width and slope == old_slope:
        return
    for position in range(links.item_start[item], links.item_start[item + 1]):
        query, weight = links.item_queries[position], links.item_weights[position]
        fn = queries.fn[query]
        if weight == 0.0 or fn == COUNT or queries.dirty[query]:
            continue
        if items.suppress_side[item] != 0:  # a suppression may be in force: the filter alone is no bound
            queries.dirty[query] = True
            continue
        queries.moving[query] += int(slope != 0.0) - int(old_slope != 0.0)
        if fn in (MIN, MAX):
            _move_extreme(query, old_centre, old_width, centre, width, queries)
            queries.unknown[query] += int(np.isinf(width)) - int(np.isinf(old_width))
            continue
        queries.drift[query] = queries.drift[query] + weight * (slope - old_slope) if queries.moving[query] else 0.0
        _move_sum(query, weight, old_centre, old_width, centre, width, queries)


@compiled_no_refcount
def _move_sum(
    query: int, weight: float, old_centre: float, old_width: float, centre: float, width: float, queries: QueryArrays
) -> None:
    total, lost = _add(queries.total[query], queries.total_lost[query], -weight * old_centre)
    total, lost = _add(total, lost, weight * centre)
    queries.total[query], queries.total_lost[query] = total, lost
    if abs(weight * old_centre) > _CANCELLATION * (abs(total) + queries.within[query]):
        queries.dirty[query] = True
    if width == old_width:
        return
    spread, spread_lost = queries.spread[query], queries.spread_lost[query]
    if np.isinf(old_width):
        queries.unknown[query] -= 1
    else:
        spread, spread_lost = _add(spread, spread_lost, -abs(weight) * old_width)
    if np.isinf(width):
        queries.unknown[query] += 1
    else:
        spread, spread_lost = _add(spread, spread_lost, abs(weight) * width)
    queries.spread[query], queries.spread_lost[query] = spread, spread_lost
    if not np.isinf(old_width) and abs(weight) * old_width > _CANCELLATION * (spread + queries.within[query]):
        queries.dirty[query] = True


@compiled_no_refcount
def _move_extreme(
    query: int, old_centre: float, old_width: float, centre: float, width: float, queries: QueryArrays
) -> None:
    # An end that moves outwards may be the new extreme; the extreme itself moving inwards requires a scan.
    sign = 1.0 if queries.fn[query] == MIN else -1.0
    for side in (-1.0, 1.0):
        old, new = old_centre + side * old_width / 2, centre + side * width / 2
        extreme = queries.low[query] if side < 0 else queries.high[query]
        if sign * new <= sign * extreme:
            extreme = new
        elif old == extreme:
            queries.dirty[query] = True
        if side < 0:
            queries.low[query] = extreme
        else:
            queries.high[query] = extreme


@compiled_no_refcount
def rescan(chosen: Integers, tick: int, items: ItemArrays, queries: QueryArrays, links: LinkArrays) -> None:
    """Recompute the sums and extremes of these queries, and count their stale members."""
    for query in chosen:
        stale, seen, size = 0, 0, 0
        for position in range(links.query_start[query], links.query_start[query + 1]):
            item = links.query_items[position]
            stale += int(items.stale[item] and links.query_weights[position] != 0.0)
            seen += int(items.seen[item])
            size += int(not items.is_sum[item])
        queries.stale[query] = stale
        queries.members[query] = seen if queries.fn[query] == COUNT else size
        _scan(query, tick, items, queries, links)


@compiled_no_refcount
def appear(item: int, items: ItemArrays, queries: QueryArrays, links: LinkArrays) -> None:
    """Record that an item has its first value."""
    items.seen[item] = True
    for position in range(links.item_start[item], links.item_start[item + 1]):
        query = links.item_queries[position]
        if queries.fn[query] == COUNT:
            queries.members[query] += 1


@compiled_no_refcount
def mark(item: int, stale: bool, items: ItemArrays, queries: QueryArrays, links: LinkArrays) -> None:
    """Mark an item stale or fresh."""
    items.stale[item] = stale
    for position in range(links.item_start[item], links.item_start[item + 1]):
        if links.item_weights[position] != 0.0:
            queries.stale[links.item_queries[position]] += 1 if stale else -1


@compiled_no_refcount
def mark_stale(which: Integers, stale: bool, items: ItemArrays, queries: QueryArrays, links: LinkArrays) -> None:
    """Mark items stale or fresh, and count it in their queries; call `emit` for these afterwards."""
    for item in which:
        if items.stale[item] != stale:
            mark(item, stale, items, queries, links)


def empty_batch(size: int) -> AnswerBatch:
    """An uninitialised batch for `size` answers."""
    kinds = (np.int64, np.int64, np.float64, np.float64, np.float64, np.int8)
    return AnswerBatch._make(np.empty(size, kind) for kind in kinds)
