"""The rectangles of many select joins, laid out for every method."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tolerant.joins.maxima_tree import maxima
from tolerant.joins.packed_rtree import Forest, forest, middles, tiled
from tolerant.joins.partition import canonical, points_of
from tolerant.kernels.array_types import Flags, Floats, Integers, Places


class Selections(NamedTuple):
    """Queries by increasing a_low, with their c ranges; a removed one has a_high = −∞."""

    low: Floats
    high: Floats
    c_low: Floats
    c_high: Floats
    id: Integers
    tree: Floats  # of largest highs
    ends: Floats  # all a_highs, sorted: one search counts those before a (removed ones count until the next merge)


class SelectIndex(NamedTuple):
    """Groups whose c ranges share a point, each an R-tree; all queries by a, those of cold groups apart; one R-tree of
    all.

    41 to 45 bytes per query for each R-tree, 49 for the order by a, 20 for the lookup of an id.
    """

    ids: Integers  # sorted
    at_group: Places  # place of each id in the groups,
    at_range: Places  # in the order by a, cold queries first,
    at_tile: Places  # and in the R-tree of all
    starts: Integers  # of the groups, [g + 1]
    points: Floats
    hot: Flags
    hot_counts: Integers  # queries in hot groups, hot groups
    roots: Floats  # Σ √size over hot groups, over all groups
    groups: Forest
    cold: Selections
    warm: Selections
    tiles: Forest


def select_index(ids: Integers, columns: Floats, alpha: float | None) -> SelectIndex:
    """Build the index of queries given by sorted ids and float64[n, 4]: a_low, a_high, c_low, c_high."""
    n = len(ids)
    parts = canonical(np.ascontiguousarray(columns[:, 2]), np.ascontiguousarray(columns[:, 3]))
    sizes = np.diff(parts.starts)
    hot = np.ones(len(sizes), np.bool_) if alpha is None else sizes >= alpha * n
    group = np.empty(n, np.int64)
    group[parts.order] = np.repeat(np.arange(len(sizes)), sizes)
    by_group = np.lexsort((middles(columns[:, 0], columns[:, 1]), group))
    is_hot = hot[group]
    by_a = np.argsort(columns[:, 0])
    cold, warm = by_a[~is_hot[by_a]], by_a[is_hot[by_a]]
    by_tile = tiled(columns)
    whole = np.array([0, n], np.int64) if n else np.zeros(1, np.int64)
    return SelectIndex(
        ids,
        _inverse(by_group),
        _inverse(np.concatenate([cold, warm])),
        _inverse(by_tile),
        parts.starts,
        points_of(parts.low, parts.high),
        hot,
        np.array([sizes[hot].sum(), np.count_nonzero(hot)]),
        np.array([np.sqrt(sizes[hot]).sum(), np.sqrt(sizes).sum()]),
        forest(columns[by_group], ids[by_group], parts.starts),
        _selections(ids, columns, cold),
        _selections(ids, columns, warm),
        forest(columns[by_tile], ids[by_tile], whole),
    )


def remove_selection(index: SelectIndex, place: int) -> None:
    """Mark the query of the id at `place` as removed."""
    index.groups.box[index.at_group[place], 0] = np.nan
    index.tiles.box[index.at_tile[place], 0] = np.nan
    at, cold = int(index.at_range[place]), len(index.cold.id)
    if at < cold:
        index.cold.high[at] = -np.inf
    else:
        index.warm.high[at - cold] = -np.inf


def live_selections(index: SelectIndex) -> tuple[Integers, Floats]:
    """Return sorted ids and float64[n, 4] of the queries that are not removed."""
    columns = index.groups.box[index.at_group]
    live = ~np.isnan(columns[:, 0])
    return index.ids[live], columns[live]


def _selections(ids: Integers, columns: Floats, chosen: Integers) -> Selections:
    low, high, c_low, c_high = (np.ascontiguousarray(columns[chosen, k]) for k in range(4))
    return Selections(low, high, c_low, c_high, ids[chosen], maxima(high), np.sort(high))


def _inverse(order: Integers) -> Places:
    places = np.empty(len(order), np.int32)
    places[order] = np.arange(len(order), dtype=np.int32)
    return places
