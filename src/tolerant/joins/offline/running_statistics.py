"""Statistics that are updated by addition, for estimates where exact figures are too expensive (docs/design/joins.md
§2.8).
"""

from __future__ import annotations

import numpy as np

from tolerant.joins import checks
from tolerant.kernels.array_types import Floats


class BucketCoverage:
    """Estimates how many ranges contain a value: a range adds to each bucket the share of the bucket that it covers.

    >>> selecting = BucketCoverage(0, 8, 4)
    >>> selecting.add(1, 7), selecting.add(2.5, 4)
    (None, None)
    >>> selecting.heights.tolist(), selecting.estimate(3)
    ([0.5, 1.75, 1.0, 0.5], 1.75)
    """

    def __init__(self, low: float, high: float, buckets: int = 100) -> None:
        self._edges = _edges(low, high, buckets)
        self.heights: Floats = np.zeros(buckets)

    def add(self, low: float, high: float) -> None:
        """Add a range."""
        self.heights += self._shares(low, high)

    def remove(self, low: float, high: float) -> None:
        """Remove a range."""
        self.heights -= self._shares(low, high)

    def estimate(self, x: float) -> float:
        """Return about how many ranges contain x; 0 outside."""
        return float(self.heights[at]) if (at := _bucket(self._edges, x)) >= 0 else 0.0

    def _shares(self, low: float, high: float) -> Floats:
        low, high = checks.interval("low", "high", low, high)
        covered = np.minimum(self._edges[1:], high) - np.maximum(self._edges[:-1], low)
        return np.clip(covered, 0.0, None) / np.diff(self._edges)


class BucketFrequencies:
    """Estimates how many rows have a value from the number of rows in its bucket; values are multiples of `grain`.

    >>> partners = BucketFrequencies(0, 100, 10)
    >>> for b in (41, 42, 42, 47, 49):
    ...     partners.add(b)
    >>> partners.estimate(42)
    0.5
    """

    def __init__(self, low: float, high: float, buckets: int = 100, *, grain: float = 1.0) -> None:
        self._edges = _edges(low, high, buckets)
        self._per_bucket = max((high - low) / buckets / grain, 1.0)
        self.counts: Floats = np.zeros(buckets)

    def add(self, value: float) -> None:
        """Add a row."""
        if (at := _bucket(self._edges, value)) >= 0:
            self.counts[at] += 1

    def remove(self, value: float) -> None:
        """Remove a row."""
        if (at := _bucket(self._edges, value)) >= 0:
            self.counts[at] -= 1

    def estimate(self, value: float) -> float:
        """Return about how many rows have this value; 0 outside."""
        return float(self.counts[at] / self._per_bucket) if (at := _bucket(self._edges, value)) >= 0 else 0.0


def _edges(low: float, high: float, buckets: int) -> Floats:
    if not (np.isfinite(low) and np.isfinite(high) and low < high):
        raise ValueError(f"low must be below high, both finite, got {low} and {high}")
    if buckets < 1:
        raise ValueError(f"buckets must be at least 1, got {buckets}")
    return np.linspace(low, high, buckets + 1)


def _bucket(edges: Floats, x: float) -> int:
    """Return the bucket that contains x, the last one closed; −1: none."""
    if not edges[0] <= x <= edges[-1]:
        return -1
    return min(int(np.searchsorted(edges, x, side="right")) - 1, len(edges) - 2)
