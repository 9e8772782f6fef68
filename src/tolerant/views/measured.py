"""Fits a cost function to timings of real batches."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tolerant.views.linear import Linear
from tolerant.views.subadditive_closure import Closure

_NEAR = 1.25
"""A timing updates the sizes within this factor of its own."""


@dataclass(frozen=True, eq=False)
class Measured:
    """The cost of a batch, from timings (`docs/design/views.md` §2.7): `sizes` rows took `seconds`.

    The median of each size, made monotone (isotonic regression), linear between sizes and beyond the last,
    the cost of the smallest timed size below it; then the subadditive closure, which is reached by splitting a batch.

    >>> cost = Measured(sizes=[1, 10, 10, 20], seconds=[1.0, 2.0, 2.0, 3.0])
    >>> cost(0), cost(1), cost(15), cost(30)
    (0.0, 1.0, 2.5, 4.0)
    """

    sizes: ArrayLike
    seconds: ArrayLike
    _timed: tuple[NDArray[np.int64], NDArray[np.float64]] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_timed", _timings(self.sizes, self.seconds))

    def __call__(self, rows: int) -> float:
        """Return the cost of pushing `rows` changes, in pieces where that is cheaper; seconds."""
        return self._plain(rows) if self.is_subadditive else self._closure.at(rows)

    @cached_property
    def knots(self) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """Return the distinct sizes timed, and their monotone costs in seconds."""
        sizes, seconds = self._timed
        distinct = np.unique(sizes)
        return distinct, isotonic(np.array([np.median(seconds[sizes == size]) for size in distinct]))

    @cached_property
    def slope(self) -> float:
        """Return seconds per row beyond the largest size timed: the last slope, or from the origin if one size was
        timed.
        """
        sizes, costs = self.knots
        if len(sizes) == 1:
            return float(costs[0] / sizes[0])
        return float((costs[-1] - costs[-2]) / (sizes[-1] - sizes[-2]))

    @cached_property
    def is_subadditive(self) -> bool:
        """Return whether larger batches are always cheaper per row, so that no batch gains by being split."""
        sizes, costs = self.knots
        ratios = costs / sizes
        return bool(np.all(ratios[1:] <= ratios[:-1]) and self.slope <= ratios[-1])

    def linear(self) -> Linear:
        """Return the straight line nearest to the timings (least squares), its slope and setup not negative."""
        rows, seconds = self._timed[0].astype(np.float64), self._timed[1]
        if np.ptp(rows) == 0:
            return Linear(float(seconds.mean() / rows[0]), 0.0)
        slope = float(np.cov(rows, seconds, bias=True)[0, 1] / rows.var())
        setup = float(seconds.mean() - slope * rows.mean())
        if slope < 0:
            return Linear(0.0, float(seconds.mean()))
        if setup < 0:
            return Linear(float(rows @ seconds / (rows @ rows)), 0.0)
        return Linear(slope, setup)

    def learned(self, rows: int, seconds: float, weight: float = 0.2) -> Measured:
        """Return this cost updated by one more timing, which has weight `weight` against all before it.

        Sizes near `rows` move in proportion; where none is near, `rows` becomes a size of its own.
        """
        if not 0 < weight <= 1:
            raise ValueError(f"weight must be in (0, 1], got {weight!r}")
        (size,), (took,) = _timings([rows], [seconds])
        sizes, costs = self.knots
        near = (sizes * _NEAR >= size) & (sizes <= size * _NEAR)
        expected = self(int(size))
        if not near.any():
            costs = np.append(costs, (1 - weight) * expected + weight * took)
            return Measured(np.append(sizes, size), costs)
        factor = 1 + weight * (took / expected - 1) if expected > 0 else 1.0
        moved = np.where(near, costs * factor, costs) if expected > 0 else np.where(near, weight * took, costs)
        return Measured(sizes, moved)

    @cached_property
    def _closure(self) -> Closure:
        return Closure(self._plain, "a measured cost")

    def _plain(self, rows: int) -> float:
        sizes, costs = self.knots
        if rows <= 0:
            return 0.0
        if rows > sizes[-1]:
            return float(self.slope * rows + self.tail)
        return float(np.interp(rows, sizes, costs))

    @cached_property
    def tail(self) -> float:
        """Return the cost beyond the largest size timed is slope·rows + tail, seconds."""
        sizes, costs = self.knots
        return float(costs[-1] - self.slope * sizes[-1])


def isotonic(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the nearest non-decreasing sequence (pool adjacent violators), all values of equal weight.

    >>> isotonic(np.array([1.0, 3.0, 2.0, 4.0])).tolist()
    [1.0, 2.5, 2.5, 4.0]
    """
    means: list[float] = []
    counts: list[int] = []
    for value in values.tolist():
        means.append(value)
        counts.append(1)
        while len(means) > 1 and means[-2] > means[-1]:
            mean, count = means.pop(), counts.pop()
            means[-1] = (means[-1] * counts[-1] + mean * count) / (counts[-1] + count)
            counts[-1] += count
    return np.repeat(means, counts)


def _timings(sizes: Any, seconds: Any) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    rows, took = np.asarray(sizes), np.asarray(seconds, np.float64)
    if rows.ndim != 1 or rows.shape != took.shape or not len(rows):
        raise ValueError(
            f"sizes and seconds must be lists of one length ≥ 1, got the shapes {rows.shape} and {took.shape}"
        )
    if not np.issubdtype(rows.dtype, np.integer) or rows.min() < 1:
        raise ValueError(f"sizes must be whole numbers of rows ≥ 1, got {sizes!r}")
    if not (np.isfinite(took).all() and took.min() >= 0):
        raise ValueError(f"seconds must be finite numbers ≥ 0, got {seconds!r}")
    return rows.astype(np.int64), took
