"""Correlations of items, from changes of their interpolated values over 30 ticks (`docs/design/polling.md` §5.3)."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from tolerant.kernels.compiled import compiled, compiled_no_refcount
from tolerant.polling.poller_arrays import Floats, Integers

STRIDE = 30
"""Ticks of a change that is compared between items."""


class Correlations(NamedTuple):
    """What is known of pairs of items; everything is empty where correlations are not wanted."""

    points: Floats  # [slots, items], interpolated values every 30 ticks, the newest few
    stamps: Integers  # [slots, items], which multiple of 30 a point is of
    covariance: Floats  # [items, items]
    correlation: Floats  # [items, items], shrunk towards none
    changes: Integers  # [1], number of changes that were compared


def new_correlations(items: int, max_interval: int, wanted: bool) -> Correlations:
    """Return correlations of so many items, none known yet."""
    slots, size = (max_interval // STRIDE + 3, items) if wanted else (0, 0)
    return Correlations(
        np.zeros((slots, size)),
        np.full((slots, size), -1, np.int64),
        np.zeros((size, size)),
        np.eye(size),
        np.zeros(1, np.int64),
    )


@compiled_no_refcount
def record_points(correlations: Correlations, item: int, before: float, value: float, last: int, at: int) -> None:
    """Record the interpolated value at each multiple of 30 from `last` (not included) to `at`."""
    slots = correlations.points.shape[0]
    newest = at // 30
    for k in range(max(last // 30 + 1, newest - slots + 1), newest + 1):
        part = (30 * k - last) / (at - last)
        correlations.points[k % slots, item] = before + (value - before) * part
        correlations.stamps[k % slots, item] = k


@compiled
def update_correlations(correlations: Correlations, tick: int, max_interval: int) -> None:
    """Learn from the newest change that is known of every item: all that were pulled since, which all should have been.

    Correlations are shrunk as if 25 changes had shown none.
    """
    k = (tick - max_interval) // 30
    slots = correlations.points.shape[0]
    if k < 1:
        return
    size = correlations.points.shape[1]
    change = np.zeros(size)
    for i in range(size):
        if correlations.stamps[k % slots, i] == k and correlations.stamps[(k - 1) % slots, i] == k - 1:
            change[i] = correlations.points[k % slots, i] - correlations.points[(k - 1) % slots, i]
    correlations.changes[0] += 1
    n = correlations.changes[0]
    share = max(0.02, 1.0 / n)
    for i in range(size):
        for j in range(size):
            correlations.covariance[i, j] += share * (change[i] * change[j] - correlations.covariance[i, j])
    known = min(float(n), 50.0)
    for i in range(size):
        for j in range(size):
            both = math.sqrt(correlations.covariance[i, i] * correlations.covariance[j, j])
            if i == j:
                correlations.correlation[i, j] = 1.0
            elif both > 0.0:
                correlations.correlation[i, j] = correlations.covariance[i, j] / both * known / (known + 25.0)
            else:
                correlations.correlation[i, j] = 0.0
