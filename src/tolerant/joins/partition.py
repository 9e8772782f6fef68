"""The canonical stabbing partition: the fewest groups of intervals that each share a point
(docs/design/joins.md §2.2).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from tolerant.joins import checks
from tolerant.kernels.array_types import Floats, Integers
from tolerant.kernels.compiled import compiled


class CanonicalPartition(NamedTuple):
    """The partition over intervals sorted by low: group k is `order[starts[k]:starts[k + 1]]`."""

    order: Integers  # intervals by increasing low
    starts: Integers  # [g + 1]
    low: Floats  # of each group's common intersection, [g]
    high: Floats
    witness: Integers  # interval of smallest high in each group, [g]; witnesses are disjoint, which proves g minimal


def stabbing_partition(lows: ArrayLike, highs: ArrayLike) -> tuple[Integers, Floats]:
    """Partition closed intervals into the fewest groups that share a point: (group[n], points[g]), groups from left to
    right.

    A point is the largest low of its group (where that is −∞ the smallest high, where that is ∞ too 0), so it is
    always finite. O(n log n).

    Raises:
        ValueError: NaN, low > high, low = ∞, high = −∞ (the index is named), or unequal lengths.

    >>> group, points = stabbing_partition([0, 1, 2], [1, 2, 3])
    >>> group.tolist(), points.tolist()
    ([0, 0, 1], [1.0, 2.0])
    """
    low, high = checks.intervals("lows", "highs", lows, highs)
    partition = canonical(low, high)
    group = np.empty(len(low), np.int64)
    group[partition.order] = np.repeat(np.arange(len(partition.low)), np.diff(partition.starts))
    return group, points_of(partition.low, partition.high)


def canonical(low: Floats, high: Floats) -> CanonicalPartition:
    """Return the partition of intervals that were checked before."""
    return sweep(low, high, np.argsort(low))


def sweep(low: Floats, high: Floats, order: Integers) -> CanonicalPartition:
    """Return the partition of intervals whose order by low is known."""
    return CanonicalPartition(order, *_sweep(low, high, order))


def points_of(low: Floats, high: Floats) -> Floats:
    """Return a finite point in each intersection [low, high]: the low, else the high, else 0."""
    return np.where(np.isfinite(low), low, np.where(np.isfinite(high), high, 0.0)) + 0.0


@compiled
def _sweep(low: Floats, high: Floats, order: Integers) -> tuple[Integers, Floats, Floats, Integers]:
    """Greedy over increasing lows: a group ends where the next low exceeds its smallest high (Lemma 10)."""
    size = len(order)
    starts = np.empty(size + 1, np.int64)
    common_low = np.empty(size)
    common_high = np.empty(size)
    witness = np.empty(size, np.int64)
    groups = 0
    least = -np.inf
    for k in range(size):
        i = order[k]
        if k == 0 or low[i] > least:
            starts[groups] = k
            groups += 1
            least = np.inf
        if high[i] < least or k == starts[groups - 1]:
            least = high[i]
            witness[groups - 1] = i
        common_low[groups - 1] = low[i]
        common_high[groups - 1] = least
    starts[groups] = size
    return (
        starts[: groups + 1].copy(),
        common_low[:groups].copy(),
        common_high[:groups].copy(),
        witness[:groups].copy(),
    )
