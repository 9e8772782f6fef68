"""The number of intervals that contain x as a step function: the elementary segments between consecutive ends."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, TypeAlias

import numpy as np

from tolerant.kernels.array_types import Floats, Integers

Density: TypeAlias = Callable[[Floats], Floats]
"""The distribution of the queried x, as a cumulative distribution function of arrays."""


class Segments(NamedTuple):
    """f on each segment, and the weight of a unit of squared error there: ∫φ / max(f, 1)²
    (docs/design/joins.md §2.10).
    """

    edges: Floats  # [s + 1]
    f: Floats  # [s]
    weight: Floats  # [s]


def segments_of(low: Floats, high: Floats, density: Density | None = None, cells: int | None = None) -> Segments:
    """Return f on its own segments, or, where there are more than `cells`, its mean on that many equal cells.

    The ends must be finite, and their hull must have a width.
    """
    edges = np.unique(np.concatenate([low, high]))
    if cells is not None and len(edges) - 1 > cells:
        edges = np.linspace(edges[0], edges[-1], cells + 1)
    f = mean_on(edges, low, high)
    return Segments(edges, f, mass_on(edges, density) / np.maximum(f, 1.0) ** 2)


def mean_on(edges: Floats, low: Floats, high: Floats) -> Floats:
    """Return the mean of f between consecutive edges, float64[s]: each interval adds the share that it covers."""
    covered = _covered(edges, low) - _covered(edges, high)
    exact = np.searchsorted(np.sort(low), edges[:-1], side="right") - np.searchsorted(
        np.sort(high), edges[:-1], "right"
    )
    widths = np.diff(edges)
    with np.errstate(invalid="ignore", divide="ignore"):
        mean = np.diff(covered) / widths
    # Where no interval ends inside, f is a whole number: return it without rounding errors.
    whole = _ends_inside(edges, low) + _ends_inside(edges, high) == 0
    return np.where(whole, exact, np.maximum(mean, 0.0))


def _covered(edges: Floats, starts: Floats) -> Floats:
    """∫ up to each edge of the number of `starts` at or before x."""
    ordered = np.sort(starts) - edges[0]
    at = edges - edges[0]
    sums = np.concatenate([[0.0], np.cumsum(ordered)])
    count = np.searchsorted(ordered, at, side="right")
    return count * at - sums[count]


def _ends_inside(edges: Floats, ends: Floats) -> Integers:
    ordered = np.sort(ends)
    return np.searchsorted(ordered, edges[1:], "left") - np.searchsorted(ordered, edges[:-1], "right")


def mass_on(edges: Floats, density: Density | None) -> Floats:
    """Return ∫φ between consecutive edges, summing to 1; uniform over the hull where no density is given."""
    at = edges if density is None else np.asarray(density(edges), np.float64)
    mass = np.diff(at)
    total = mass.sum()
    if not (np.isfinite(total) and total > 0 and (mass >= 0).all()):
        raise ValueError("density must be a cumulative distribution function that rises over the hull of the intervals")
    return mass / total
