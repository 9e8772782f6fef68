"""The bounds of every query, kept up to date row by row (`specs/1-filters.md` §2.2).

A sum is Σ K·centre with half-width Σ |K|·width / 2; a min or max lies between those of the items' lower and of their
upper ends. Each event time at which the bounds of a query change gives one answer: rows of one `at` are one
transaction.

A filter that changes by itself does so only while its source lives. Where that is not known, the bounds of an item are
those of its filter at the last moment at which it is known and of every moment since: if the source has died, the last
value that was set is in there, and if it has not, the present one.
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
    Flags,
    Integers,
    Items,
    Links,
    Queries,
    Said,
)
from tolerant.kernels.compiled import borrowing, compiled

_ROUNDING = 1e-9
"""How much of the tolerance rounding may take before an answer counts as settling."""

_CANCELLATION = 1e10
"""A term this much larger than what is left of its sum has taken its digits with it: the sum is made anew."""


@compiled
def _add(total: float, lost: float, term: float) -> tuple[float, float]:
    # Neumaier's sum: what a float addition loses is kept beside it.
    new = total + term
    if abs(total) >= abs(term):
        lost += (total - new) + term
    else:
        lost += (term - new) + total
    return new, lost


@borrowing
def _unproven(items: Items, item: int, tick: int) -> float:
    """How far an item's centre has moved since its source was last known to live."""
    ticks = tick - max(items.lived[item], items.since[item])
    return items.slope[item] * ticks if ticks > 0 else 0.0


@borrowing
def centre_at(items: Items, item: int, tick: int) -> float:
    """The centre of an item's filter, as its source computes it; half-way from where it last was for certain."""
    centre = items.level[item] + items.slope[item] * (tick - items.since[item])
    return centre - _unproven(items, item, tick) / 2


@borrowing
def width_at(items: Items, item: int, tick: int) -> float:
    """The width that must be counted for an item: of its filter, and how far that may have moved or not."""
    return items.width[item] + abs(_unproven(items, item, tick))


@borrowing
def ends(items: Items, item: int, tick: int) -> tuple[float, float]:
    """Between which values an item must be reckoned with: in its filter, or beyond its leave, which it may have got;
    but only where it has told that it is, if it has.
    """
    centre, pad = centre_at(items, item, tick), items.pad[item]
    width = width_at(items, item, tick) + pad
    low, high = centre - width / 2, centre + width / 2
    if items.far[item] > 0:
        return max(min(low, items.leave[item] - pad / 2), items.least[item]), items.most[item]
    if items.far[item] < 0:
        return items.least[item], min(max(high, items.leave[item] + pad / 2), items.most[item])
    return low, high


@borrowing
def return_from(item: int, items: Items, queries: Queries, links: Links) -> None:
    """An item's leave is over."""
    items.far[item], items.asked[item] = 0, False
    forget_told(item, items, queries, links)


@borrowing
def forget_told(item: int, items: Items, queries: Queries, links: Links) -> None:
    """What an item has told of where it is holds no more."""
    items.least[item], items.most[item] = -np.inf, np.inf
    for position in range(links.item_start[item], links.item_start[item + 1]):
        queries.dirty[links.item_queries[position]] = True


@borrowing
def _scan(query: int, tick: int, items: Items, queries: Queries, links: Links) -> None:
    """Make total, drift, spread, unknown, low and high of a query anew from its members."""
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
        if np.isinf(width) or (items.far[item] != 0 and not extreme):
            unknown += 1
        else:
            spread, spread_lost = _add(spread, spread_lost, abs(weight) * width)
        bottom, top = ends(items, item, tick)
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


@borrowing
def _bounds(query: int, tick: int, items: Items, queries: Queries, links: Links) -> tuple[float, float, float, int]:
    """low, value, high and flags of a query now."""
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
    if not np.isfinite(value):  # a sum that was too large for any number leaves nothing behind to go on from
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


@borrowing
def say(
    asked: Integers, at: int, tick: int, items: Items, queries: Queries, links: Links, said: Said, count: int
) -> int:
    """Write the answers of those queries asked about that changed since they were last given; the new number of
    answers. `tick` is that of `at`.
    """
    for query in asked:
        queries.touched[query] = False
        low, value, high, flags = _bounds(query, tick, items, queries, links)
        if (
            flags == queries.said_flags[query]
            and _same(low, queries.said_low[query])
            and _same(value, queries.said_value[query])
            and _same(high, queries.said_high[query])
        ):
            continue
        queries.said_low[query], queries.said_value[query], queries.said_high[query] = low, value, high
        queries.said_flags[query] = flags
        said.query[count], said.at[count] = query, at
        said.low[count], said.value[count], said.high[count] = low, value, high
        said.flags[count] = flags
        count += 1
    return count


@compiled
def pass_ticks(
    tick: int, until: int, length: int, items: Items, queries: Queries, links: Links, said: Said, count: int
) -> int:
    """Move the centres from `tick` to `until`, and say at each tick (of `length`) what that changes; the new number of
    answers.
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
        count = say(moving, tick * length, tick, items, queries, links, said, count)
    return count


@compiled
def _with_unproven_items(tick: int, items: Items, queries: Queries, links: Links) -> Flags:
    """Which queries have an item whose centre moves beyond the time up to which its source is known to have lived."""
    found = np.zeros(queries.fn.size, np.bool_)
    for item in range(links.item_start.size - 1):
        if items.slope[item] != 0.0 and items.lived[item] < tick:
            for position in range(links.item_start[item], links.item_start[item + 1]):
                found[links.item_queries[position]] = True
    return found


@borrowing
def move(
    item: int,
    level: float,
    slope: float,
    since: int,
    width: float,
    tick: int,
    items: Items,
    queries: Queries,
    links: Links,
) -> None:
    """Give an item a new filter, and carry that into its queries."""
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
        if items.far[item] != 0:  # its leave may reach it yet: the filter is not all there is to reckon with
            queries.dirty[query] = True
            continue
        queries.moving[query] += int(slope != 0.0) - int(old_slope != 0.0)
        if fn in (MIN, MAX):
            _move_extreme(query, old_centre, old_width, centre, width, queries)
            queries.unknown[query] += int(np.isinf(width)) - int(np.isinf(old_width))
            continue
        queries.drift[query] = queries.drift[query] + weight * (slope - old_slope) if queries.moving[query] else 0.0
        _move_sum(query, weight, old_centre, old_width, centre, width, queries)


@borrowing
def _move_sum(
    query: int, weight: float, old_centre: float, old_width: float, centre: float, width: float, queries: Queries
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


@borrowing
def _move_extreme(
    query: int, old_centre: float, old_width: float, centre: float, width: float, queries: Queries
) -> None:
    # An end that moves outwards is the new extreme; the extreme itself moving inwards asks for a scan.
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


@borrowing
def rescan(asked: Integers, tick: int, items: Items, queries: Queries, links: Links) -> None:
    """Make the sums and extremes of these queries anew, and count their stale members."""
    for query in asked:
        stale, seen, size = 0, 0, 0
        for position in range(links.query_start[query], links.query_start[query + 1]):
            item = links.query_items[position]
            stale += int(items.stale[item] and links.query_weights[position] != 0.0)
            seen += int(items.seen[item])
            size += int(not items.compound[item])
        queries.stale[query] = stale
        queries.members[query] = seen if queries.fn[query] == COUNT else size
        _scan(query, tick, items, queries, links)


@borrowing
def appear(item: int, items: Items, queries: Queries, links: Links) -> None:
    """An item has its first value."""
    items.seen[item] = True
    for position in range(links.item_start[item], links.item_start[item + 1]):
        query = links.item_queries[position]
        if queries.fn[query] == COUNT:
            queries.members[query] += 1


@borrowing
def mark(item: int, stale: bool, items: Items, queries: Queries, links: Links) -> None:
    """Mark an item stale or fresh."""
    items.stale[item] = stale
    for position in range(links.item_start[item], links.item_start[item + 1]):
        if links.item_weights[position] != 0.0:
            queries.stale[links.item_queries[position]] += 1 if stale else -1


@borrowing
def mark_stale(which: Integers, stale: bool, items: Items, queries: Queries, links: Links) -> None:
    """Mark items stale or fresh, and count it in their queries (`say` them afterwards)."""
    for item in which:
        if items.stale[item] != stale:
            mark(item, stale, items, queries, links)


def room(size: int) -> Said:
    """Space for `size` answers."""
    kinds = (np.int64, np.int64, np.float64, np.float64, np.float64, np.int8)
    return Said._make(np.empty(size, kind) for kind in kinds)
