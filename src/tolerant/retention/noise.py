"""Noise of a trend: integers around 0, at most `bound` away."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike

from tolerant.retention.rounded_normal import cells
from tolerant.retention.value_arrays import Floats, finite, whole_number


@runtime_checkable
class Noise(Protocol):
    """`weights()` are the probabilities of −bound … bound; `life`: mean ticks in which a drift of 1
    passes through it.
    """

    @property
    def bound(self) -> int: ...  # noqa: D102

    def weights(self) -> Floats: ...  # noqa: D102

    @property
    def life(self) -> float: ...  # noqa: D102


@dataclass(frozen=True)
class UniformNoise:
    """Every integer from −bound to bound is equally likely.

    >>> UniformNoise(2).pmf([-3, 0, 2]).tolist()
    [0.0, 0.2, 0.2]
    """

    bound: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "bound", whole_number("bound", self.bound, 0))

    def weights(self) -> Floats:
        """Return the probabilities of −bound … bound."""
        return np.full(2 * self.bound + 1, 1.0 / (2 * self.bound + 1))

    def pmf(self, values: ArrayLike) -> Floats:
        """Return the probability of each value."""
        return _looked_up(self.weights(), self.bound, values)

    @property
    def life(self) -> float:
        """Return the mean ticks in which a row is of use under a drift of 1 per tick ([DISS], 3.5.3)."""
        return float(self.bound)


@dataclass(frozen=True)
class NormalNoise:
    """N(0, sigma²), rounded, truncated to ±bound and normalised.

    >>> NormalNoise(1, 10).pmf([0, 1]).round(6).tolist()
    [0.382925, 0.24173]
    """

    sigma: float
    bound: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "sigma", finite("sigma", self.sigma, 0.0))
        object.__setattr__(self, "bound", whole_number("bound", self.bound, 0))

    def weights(self) -> Floats:
        """Return the probabilities of −bound … bound."""
        distances = np.arange(-self.bound, self.bound + 1, dtype=np.float64)
        weights = cells(distances, np.full(distances.size, self.sigma))
        return weights / weights.sum()

    def pmf(self, values: ArrayLike) -> Floats:
        """Return the probability of each value."""
        return _looked_up(self.weights(), self.bound, values)

    @property
    def life(self) -> float:
        """Return the mean ticks in which a row is of use under a drift of 1 per tick ([DISS], 3.5.4)."""
        return 2.0 * self.sigma


def _looked_up(weights: Floats, bound: int, values: ArrayLike) -> Floats:
    at = np.asarray(values, np.int64)
    inside = np.abs(at) <= bound
    return np.where(inside, weights[np.where(inside, at + bound, 0)], 0.0)
