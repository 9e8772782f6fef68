"""Floors between a pipeline and its sources (`specs/1-filters.md` §5.3): who of a MIN or MAX may go unheard, and who is
asked.

An item that is far from the extreme gets leave to be anything beyond its floor. The leave ends with the next row that
it sends, whatever that says, so that both ends know when it is over. As long as every floor is beyond the answer's far
end, the answer is as good as with filters; a floor that comes nearer is asked before it matters. Rows that have arrived
and wait for their time say beforehand what comes: so an item is asked while the answer waits, and its reply, which
tells where it has been meanwhile, is there in time if the round trip takes less than λ.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tolerant.filters.bounds import centre_at, ends
from tolerant.filters.floors import FAR, UP
from tolerant.filters.state import COUNT, MAX, MIN, Codes, Floats, Integers, Items, Links, Queries
from tolerant.kernels.compiled import borrowing, compiled


class Freed(NamedTuple):
    """Items that may go unheard, on which side, and beyond what."""

    which: Integers
    far: Codes
    floors: Floats


@compiled
def sides(count: int, queries: Queries, links: Links) -> Codes:
    """Of the first `count` items: 1 if all their queries are minima, −1 if all are maxima, else 0; counts aside."""
    found = np.zeros(count, np.int8)
    for item in range(count):
        least, most, others = 0, 0, 0
        for position in range(links.item_start[item], links.item_start[item + 1]):
            fn = queries.fn[links.item_queries[position]]
            if links.item_weights[position] == 0.0 or fn == COUNT:
                continue
            least, most, others = least + (fn == MIN), most + (fn == MAX), others + (fn != MIN and fn != MAX)
        if others == 0 and (least == 0) != (most == 0):
            found[item] = 1 if least else -1
    return found


@compiled
def to_free(side: Codes, tick: int, items: Items, queries: Queries, links: Links) -> Freed:
    """The items that have sent since the last boundary and are far from the extremes of their queries; `side` of each
    item as `sides` gives it.
    """
    bound = _nearest(tick, items, queries, links)
    which, floors = np.empty(side.size, np.int64), np.empty(side.size)
    n = 0
    for item in range(side.size):
        if side[item] == 0 or items.far[item] != 0 or items.updates[item] == 0 or items.stale[item]:
            continue
        if not np.isfinite(items.width[item]) or side[item] * items.slope[item] < 0.0:
            continue
        floor = _floor(item, float(side[item]), centre_at(items, item, tick), bound, queries, links)
        if np.isfinite(floor):
            which[n], floors[n] = item, floor
            n += 1
    return Freed(which[:n], side[which[:n]], floors[:n])


@compiled
def _nearest(tick: int, items: Items, queries: Queries, links: Links) -> Floats:
    """The end of a minimum's lowest filter, and of a maximum's highest; infinite where one is not known."""
    bound = np.full(queries.fn.size, np.inf)
    for query in range(links.query_start.size - 1):
        if queries.fn[query] not in (MIN, MAX) or queries.unknown[query] > 0:
            continue
        side = 1.0 if queries.fn[query] == MIN else -1.0
        best = np.inf
        for position in range(links.query_start[query], links.query_start[query + 1]):
            item = links.query_items[position]
            if links.query_weights[position] != 0.0 and items.far[item] == 0:
                low, high = ends(items, item, tick)
                best = min(best, low if side > 0 else -high)
        bound[query] = side * best
    return bound


@compiled
def _floor(item: int, side: float, centre: float, bound: Floats, queries: Queries, links: Links) -> float:
    """The floor of an item that is far from the bounds of all its queries; infinite: it is not."""
    floor = -np.inf
    for position in range(links.item_start[item], links.item_start[item + 1]):
        query = links.item_queries[position]
        if links.item_weights[position] == 0.0 or queries.fn[query] == COUNT:
            continue
        gap = side * (centre - bound[query])
        if not (np.isfinite(gap) and gap > FAR * queries.within[query]):
            return np.inf
        floor = max(floor, side * bound[query] + UP * gap)
    return side * floor


class Coming(NamedTuple):
    """Rows that have arrived and wait for their time, in any order; a level of NaN: the item goes."""

    item: Integers
    sequence: Integers
    level: Floats


NOTHING_COMES = Coming(np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros(0))


@compiled
def to_ask(tick: int, coming: Coming, items: Items, queries: Queries, links: Links) -> Integers:
    """The items on leave that could soon be the extreme of one of their queries, also by what is coming: not yet asked,
    and from sources that are heard.
    """
    wanted = np.zeros(items.far.size, np.bool_)
    least, most = _levels(coming, items)
    for query in range(links.query_start.size - 1):
        if queries.fn[query] not in (MIN, MAX) or queries.dirty[query]:
            continue
        near = queries.high[query] if queries.fn[query] == MIN else queries.low[query]
        if least.size > 0:
            near = _nearest_to_come(query, near, tick, least, most, items, queries, links)
        for position in range(links.query_start[query], links.query_start[query + 1]):
            item = links.query_items[position]
            if items.far[item] == 0 or items.asked[item] or items.stale[item] or links.query_weights[position] == 0.0:
                continue
            low, high = ends(items, item, tick)
            wanted[item] |= low < near if queries.fn[query] == MIN else high > near
    return np.flatnonzero(wanted)


@compiled
def _levels(coming: Coming, items: Items) -> tuple[Floats, Floats]:
    """The least and the greatest level that is coming of each item, ∞ and −∞ where none is; empty: none at all."""
    size = items.far.size if coming.item.size > 0 else 0
    least, most = np.full(size, np.inf), np.full(size, -np.inf)
    for row in range(coming.item.size):
        item, level = coming.item[row], coming.level[row]
        if coming.sequence[row] > items.sequence[item]:  # else it has been applied before
            least[item] = min(least[item], -np.inf if np.isnan(level) else level)
            most[item] = max(most[item], np.inf if np.isnan(level) else level)
    return least, most


@borrowing
def _nearest_to_come(
    query: int, near: float, tick: int, least: Floats, most: Floats, items: Items, queries: Queries, links: Links
) -> float:
    """How far the inner end of a minimum (or maximum) comes towards items that are on leave; `near`: where it is."""
    side = 1.0 if queries.fn[query] == MIN else -1.0
    coming, inner = False, np.inf
    for position in range(links.query_start[query], links.query_start[query + 1]):
        item = links.query_items[position]
        if links.query_weights[position] == 0.0:
            continue
        if least[item] <= most[item]:
            coming = True
            end = (most[item] if side > 0 else -least[item]) + items.width[item] / 2
        else:
            low, high = ends(items, item, tick)
            end = high if side > 0 else -low
        inner = min(inner, end)
    return side * max(side * near, inner) if coming else near
