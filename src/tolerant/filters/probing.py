"""Suppression of items of MIN and MAX queries, and probes that end it (`docs/design/filters.md` §5.3).

An item far from the extreme may stay silent while it is beyond a threshold. The suppression ends with the next row that
the item sends, whatever its value, so that both ends know when it is over. While every threshold is beyond the answer's
inner end, the answer is as precise as with filters; an item whose threshold comes nearer is probed before it matters.
Rows that have arrived but are not due yet show what is coming: the item is probed while the answer waits, and its
reply, which carries its reported history, arrives in time if the round trip takes less than λ.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tolerant.filters.bounds import centre_at, value_bounds
from tolerant.filters.state import COUNT, MAX, MIN, Codes, Floats, Integers, ItemArrays, LinkArrays, QueryArrays
from tolerant.filters.suppression import SUPPRESS_DISTANCE, THRESHOLD_SHARE
from tolerant.kernels.compiled import compiled, compiled_no_refcount


class Suppressions(NamedTuple):
    """Items to suppress: on which side, and beyond which threshold."""

    which: Integers
    side: Codes
    beyond: Floats


@compiled
def suppressible_sides(count: int, queries: QueryArrays, links: LinkArrays) -> Codes:
    """Of the first `count` items: 1 if all their queries are minima, −1 if all are maxima, else 0; ignores counts."""
    side = np.zeros(count, np.int8)
    for item in range(count):
        least, most, others = 0, 0, 0
        for position in range(links.item_start[item], links.item_start[item + 1]):
            fn = queries.fn[links.item_queries[position]]
            if links.item_weights[position] == 0.0 or fn == COUNT:
                continue
            least, most, others = least + (fn == MIN), most + (fn == MAX), others + (fn != MIN and fn != MAX)
        if others == 0 and (least == 0) != (most == 0):
            side[item] = 1 if least else -1
    return side


@compiled
def items_to_suppress(
    side: Codes, tick: int, items: ItemArrays, queries: QueryArrays, links: LinkArrays
) -> Suppressions:
    """The items that sent an update in the period that ends and are far from the extremes of their queries; `side` as
    `suppressible_sides` returns it.
    """
    bound = _nearest(tick, items, queries, links)
    which, beyond = np.empty(side.size, np.int64), np.empty(side.size)
    n = 0
    for item in range(side.size):
        if side[item] == 0 or items.suppress_side[item] != 0 or items.updates[item] == 0 or items.stale[item]:
            continue
        if not np.isfinite(items.width[item]) or side[item] * items.slope[item] < 0.0:
            continue
        threshold = _threshold(item, float(side[item]), centre_at(items, item, tick), bound, queries, links)
        if np.isfinite(threshold):
            which[n], beyond[n] = item, threshold
            n += 1
    return Suppressions(which[:n], side[which[:n]], beyond[:n])


@compiled
def _nearest(tick: int, items: ItemArrays, queries: QueryArrays, links: LinkArrays) -> Floats:
    """The lower end of a minimum's lowest filter, the upper end of a maximum's highest; infinite where unknown."""
    bound = np.full(queries.fn.size, np.inf)
    for query in range(links.query_start.size - 1):
        if queries.fn[query] not in (MIN, MAX) or queries.unknown[query] > 0:
            continue
        side = 1.0 if queries.fn[query] == MIN else -1.0
        best = np.inf
        for position in range(links.query_start[query], links.query_start[query + 1]):
            item = links.query_items[position]
            if links.query_weights[position] != 0.0 and items.suppress_side[item] == 0:
                low, high = value_bounds(items, item, tick)
                best = min(best, low if side > 0 else -high)
        bound[query] = side * best
    return bound


@compiled
def _threshold(item: int, side: float, centre: float, bound: Floats, queries: QueryArrays, links: LinkArrays) -> float:
    """The threshold of an item that is far from the bounds of all its queries; infinite if it is not."""
    threshold = -np.inf
    for position in range(links.item_start[item], links.item_start[item + 1]):
        query = links.item_queries[position]
        if links.item_weights[position] == 0.0 or queries.fn[query] == COUNT:
            continue
        gap = side * (centre - bound[query])
        if not (np.isfinite(gap) and gap > SUPPRESS_DISTANCE * queries.within[query]):
            return np.inf
        threshold = max(threshold, side * bound[query] + THRESHOLD_SHARE * gap)
    return side * threshold


class PendingRows(NamedTuple):
    """Rows that have arrived and are not due yet, in any order; a level of NaN: the item is removed."""

    item: Integers
    sequence: Integers
    level: Floats


NO_PENDING_ROWS = PendingRows(np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros(0))


@compiled
def items_to_probe(
    tick: int, coming: PendingRows, items: ItemArrays, queries: QueryArrays, links: LinkArrays
) -> Integers:
    """The suppressed items that could be the extreme of one of their queries, now or once `coming` is applied; omits
    items that are already probed or stale.
    """
    wanted = np.zeros(items.suppress_side.size, np.bool_)
    least, most = _levels(coming, items)
    for query in range(links.query_start.size - 1):
        if queries.fn[query] not in (MIN, MAX) or queries.dirty[query]:
            continue
        near = queries.high[query] if queries.fn[query] == MIN else queries.low[query]
        if least.size > 0:
            near = _nearest_to_come(query, near, tick, least, most, items, queries, links)
        for position in range(links.query_start[query], links.query_start[query + 1]):
            item = links.query_items[position]
            if (
                items.suppress_side[item] == 0
                or items.probed[item]
                or items.stale[item]
                or links.query_weights[position] == 0.0
            ):
                continue
            low, high = value_bounds(items, item, tick)
            wanted[item] |= low < near if queries.fn[query] == MIN else high > near
    return np.flatnonzero(wanted)


@compiled
def _levels(coming: PendingRows, items: ItemArrays) -> tuple[Floats, Floats]:
    """The least and the greatest pending level of each item, ∞ and −∞ without one; empty arrays: no pending rows."""
    size = items.suppress_side.size if coming.item.size > 0 else 0
    least, most = np.full(size, np.inf), np.full(size, -np.inf)
    for row in range(coming.item.size):
        item, level = coming.item[row], coming.level[row]
        if coming.sequence[row] > items.sequence[item]:  # else it has been applied before
            least[item] = min(least[item], -np.inf if np.isnan(level) else level)
            most[item] = max(most[item], np.inf if np.isnan(level) else level)
    return least, most


@compiled_no_refcount
def _nearest_to_come(
    query: int,
    near: float,
    tick: int,
    least: Floats,
    most: Floats,
    items: ItemArrays,
    queries: QueryArrays,
    links: LinkArrays,
) -> float:
    """How far the inner end of a minimum (maximum) moves towards suppressed items; `near`: its present position."""
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
            low, high = value_bounds(items, item, tick)
            end = high if side > 0 else -low
        inner = min(inner, end)
    return side * max(side * near, inner) if coming else near
