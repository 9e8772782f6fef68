"""The bands of many queries, laid out for every method: groups that share a point, each in two orders."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tolerant.joins.maxima_tree import maxima
from tolerant.joins.partition import canonical, points_of
from tolerant.kernels.array_types import Flags, Floats, Integers, Places
from tolerant.kernels.compiled import compiled


class BandIndex(NamedTuple):
    """Bands by low (a group is a contiguous part of that order) and, group by group, by decreasing high; copies, not
    indices.

    A removed band has high = −∞ in the first order and low = ∞ in the second: values that no band can have.
    """

    ids: Integers  # sorted
    at_low: Places  # place of each id in the order by low
    at_high: Places  # and in the order by high
    starts: Integers  # of the groups, [g + 1]
    points: Floats
    hot: Flags
    hull: Floats  # smallest low, largest high
    hot_counts: Integers  # bands in hot groups, hot groups
    low: Floats  # by increasing low
    high: Floats
    id: Integers
    tree: Floats  # of largest highs
    h_high: Floats  # by group, then decreasing high
    h_low: Floats
    h_id: Integers


def band_index(ids: Integers, columns: Floats, alpha: float | None) -> BandIndex:
    """Build the index of bands given by sorted ids and float64[n, 2]; hot groups have ≥ alpha·n members (None: all)."""
    n = len(ids)
    low, high = np.ascontiguousarray(columns[:, 0]), np.ascontiguousarray(columns[:, 1])
    parts = canonical(low, high)
    sizes = np.diff(parts.starts)
    hot = np.ones(len(sizes), np.bool_) if alpha is None else sizes >= alpha * n
    by_high = _grouped(np.argsort(-high), parts.order, parts.starts)
    l_high = high[parts.order]
    hull = np.array([low.min(), high.max()]) if n else np.array([np.inf, -np.inf])
    return BandIndex(
        ids,
        _inverse(parts.order),
        _inverse(by_high),
        parts.starts,
        points_of(parts.low, parts.high),
        hot,
        hull,
        np.array([sizes[hot].sum(), np.count_nonzero(hot)]),
        low[parts.order],
        l_high,
        ids[parts.order],
        maxima(l_high),
        high[by_high],
        low[by_high],
        ids[by_high],
    )


def remove_band(index: BandIndex, place: int) -> None:
    """Mark the band of the id at `place` as removed."""
    index.high[index.at_low[place]] = -np.inf
    index.h_low[index.at_high[place]] = np.inf


def live_bands(index: BandIndex) -> tuple[Integers, Floats]:
    """Sorted ids and float64[n, 2] of the bands that are not removed."""
    low, high = index.low[index.at_low], index.high[index.at_low]
    live = high > -np.inf
    return index.ids[live], np.stack([low[live], high[live]], axis=1)


def _inverse(order: Integers) -> Places:
    places = np.empty(len(order), np.int32)
    places[order] = np.arange(len(order), dtype=np.int32)
    return places


@compiled
def _grouped(sorted_all: Integers, order: Integers, starts: Integers) -> Integers:
    """Return the entries group by group, within a group in the order of `sorted_all`."""
    group = np.empty(len(order), np.int32)
    for g in range(len(starts) - 1):
        for k in range(starts[g], starts[g + 1]):
            group[order[k]] = g
    free = starts.copy()
    grouped = np.empty(len(order), np.int64)
    for k in range(len(sorted_all)):
        entry = sorted_all[k]
        grouped[free[group[entry]]] = entry
        free[group[entry]] += 1
    return grouped
