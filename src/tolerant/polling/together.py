"""Items that move together: their correlation, from changes over 30 ticks on the interpolated values (§5.3)."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from tolerant.kernels.compiled import borrowing, compiled
from tolerant.polling.arrays import Floats, Integers

STRIDE = 30
"""Ticks of a change that is compared between items."""


class Together(NamedTuple):
    """What is known of pairs of items; everything is empty where correlation is not asked for."""

    points: Floats  # [slots, items], interpolated values every 30 ticks, the newest few
    stamps: Integers  # [slots, items], which multiple of 30 a point is of
    covariance: Floats  # [items, items]
    correlation: Floats  # [items, items], shrunk towards none
    changes: Integers  # [1], how many were compared


def nothing_together(items: int, max_interval: int, wanted: bool) -> Together:
    """At birth, for this many items."""
    slots, size = (max_interval // STRIDE + 3, items) if wanted else (0, 0)
    return Together(
        np.zeros((slots, size)),
        np.full((slots, size), -1, np.int64),
        np.zeros((size, size)),
        np.eye(size),
        np.zeros(1, np.int64),
    )


@borrowing
def remember(together: Together, item: int, before: float, value: float, last: int, at: int) -> None:
    """Keep the interpolated value at each multiple of 30 from `last` (not included) to `at`."""
    slots = together.points.shape[0]
    newest = at // 30
    for k in range(max(last // 30 + 1, newest - slots + 1), newest + 1):
        part = (30 * k - last) / (at - last)
        together.points[k % slots, item] = before + (value - before) * part
        together.stamps[k % slots, item] = k


@compiled
def compare(together: Together, tick: int, max_interval: int) -> None:
    """Take in the newest change that is known of every item: those pulled since, and they all should be.

    Correlations are shrunk as if 25 changes had shown none.
    """
    k = (tick - max_interval) // 30
    slots = together.points.shape[0]
    if k < 1:
        return
    size = together.points.shape[1]
    change = np.zeros(size)
    for i in range(size):
        if together.stamps[k % slots, i] == k and together.stamps[(k - 1) % slots, i] == k - 1:
            change[i] = together.points[k % slots, i] - together.points[(k - 1) % slots, i]
    together.changes[0] += 1
    n = together.changes[0]
    share = max(0.02, 1.0 / n)
    for i in range(size):
        for j in range(size):
            together.covariance[i, j] += share * (change[i] * change[j] - together.covariance[i, j])
    known = min(float(n), 50.0)
    for i in range(size):
        for j in range(size):
            both = math.sqrt(together.covariance[i, i] * together.covariance[j, j])
            if i == j:
                together.correlation[i, j] = 1.0
            elif both > 0.0:
                together.correlation[i, j] = together.covariance[i, j] / both * known / (known + 25.0)
            else:
                together.correlation[i, j] = 0.0
