"""Histograms of intervals: a step function of few steps near the number of intervals that contain x
(docs/design/joins.md §2.10).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tolerant.joins import checks
from tolerant.joins.offline.group_histograms import ssi_cuts, ssi_sum
from tolerant.joins.offline.segments import Density, Segments, mass_on, mean_on, segments_of
from tolerant.joins.offline.step_functions import merged_cuts, optimal_cuts, prefix_sums
from tolerant.kernels.array_types import Floats, Integers

METHODS = ("ssi", "equal-width", "optimal", "greedy", "ssi-sum")
CELLS = 4096
"""With more segments than this, "ssi" and "ssi-sum" use this many equal cells."""
MOST = 8192
"""With more segments than this, "optimal" and "greedy" use this many equal cells."""


@dataclass(frozen=True, eq=False)
class Histogram:
    """Bucket i is [edges[i], edges[i + 1]), the last one closed; its height approximates f in it."""

    edges: Floats
    heights: Floats

    def estimate(self, x: ArrayLike) -> float | NDArray[np.float64]:
        """Return the height at x, a number or an array; 0 outside."""
        at = np.asarray(x, np.float64)
        bucket = np.searchsorted(self.edges, at, side="right") - 1
        inside = (at >= self.edges[0]) & (at <= self.edges[-1])
        heights = np.where(inside, self.heights[np.clip(bucket, 0, len(self.heights) - 1)], 0.0)
        return float(heights) if at.ndim == 0 else heights


def interval_histogram(
    lows: ArrayLike, highs: ArrayLike, buckets: int, method: str = "ssi", *, density: Density | None = None
) -> Histogram:
    """Return a histogram of at most `buckets` steps of the number of closed intervals that contain x.

    The error is E² = ∫ (h − f)²/max(f, 1)² φ(x) dx, φ uniform over the hull unless `density` is given.

    | method | how | |
    |---|---|---|
    | "ssi" | the best steps of each side of each group that shares a point, their sum merged | O(n log n) |
    | "greedy" | neighbouring steps of f merged, the cheapest first | O(n log n + N²) |
    | "equal-width" | equal edges, the mean of f in each | O(n log n) |
    | "optimal" | dynamic programme; exact up to 8,192 segments, on as many cells beyond | O(N² buckets) |
    | "ssi-sum" | [DISS]: the groups' own histograms added up, then merged to `buckets` | |

    Raises:
        ValueError: bad intervals (infinite ends among them), fewer than one bucket, an unknown method.

    >>> histogram = interval_histogram([0, 1, 2, 2, 6, 7], [4, 5, 3, 8, 8, 10], 2, "optimal")
    >>> histogram.edges.tolist(), histogram.heights.round(6).tolist(), histogram.estimate(9)
    ([0.0, 8.0, 10.0], [1.455378, 1.0], 1.0)
    """
    low, high = checks.intervals("lows", "highs", checks.finite("lows", lows), checks.finite("highs", highs))
    checks.choice("method", method, METHODS)
    if buckets < 1:
        raise ValueError(f"buckets must be at least 1, got {buckets}")
    if not len(low) or low.min() == high.max():
        at = low[0] if len(low) else 0.0
        return Histogram(np.array([at, at]), np.array([float(len(low))]))
    if method == "equal-width":
        return _equal_width(low, high, buckets)
    parts = segments_of(low, high, density, CELLS if method.startswith("ssi") else MOST)
    if method == "ssi-sum":
        height = ssi_sum(parts, mass_on(parts.edges, density), low, high, buckets)
        sums = prefix_sums(height, parts.weight)
        return _stepped(parts._replace(f=height), merged_cuts(sums, _changes(height), buckets))
    if method == "ssi":
        stepped, plain = _stepped(parts, ssi_cuts(parts, low, high, buckets)), _equal_width(low, high, buckets)
        # With few intervals equal edges happen to be better sometimes: return the better histogram.
        return min(stepped, plain, key=lambda histogram: histogram_error(histogram, low, high, density=density))
    sums = prefix_sums(parts.f, parts.weight)
    if method == "optimal":
        return _stepped(parts, optimal_cuts(sums, buckets))
    return _stepped(parts, merged_cuts(sums, np.arange(1, len(parts.f) + 1), buckets))


def histogram_error(
    histogram: Histogram, lows: ArrayLike, highs: ArrayLike, *, density: Density | None = None
) -> float:
    """Return E² of a histogram of these intervals, exactly."""
    low, high = checks.intervals("lows", "highs", checks.finite("lows", lows), checks.finite("highs", highs))
    edges = np.unique(np.concatenate([low, high]))
    if len(edges) < 2:
        return 0.0
    inner = histogram.edges[(histogram.edges > edges[0]) & (histogram.edges < edges[-1])]
    edges = np.unique(np.concatenate([edges, inner]))
    f = mean_on(edges, low, high)
    h = histogram.estimate(edges[:-1])
    return float((((h - f) / np.maximum(f, 1.0)) ** 2 * mass_on(edges, density)).sum())


def _equal_width(low: Floats, high: Floats, buckets: int) -> Histogram:
    edges = np.linspace(low.min(), high.max(), buckets + 1)
    return Histogram(edges, mean_on(edges, low, high))


def _changes(height: Floats) -> Integers:
    """Return where runs of equal heights end."""
    return np.append(np.flatnonzero(np.diff(height)) + 1, len(height)).astype(np.int64)


def _stepped(parts: Segments, cuts: Integers) -> Histogram:
    """Make runs of segments buckets, each with the height that fits best: Σwf/Σw."""
    starts = np.concatenate([[0], cuts[:-1]])
    weight = np.add.reduceat(parts.weight, starts)
    width = np.diff(parts.edges)
    with np.errstate(invalid="ignore"):
        fitted = np.add.reduceat(parts.weight * parts.f, starts) / weight
    plain = np.add.reduceat(width * parts.f, starts) / np.add.reduceat(width, starts)
    return Histogram(parts.edges[np.concatenate([[0], cuts])], np.where(weight > 0, fitted, plain))
