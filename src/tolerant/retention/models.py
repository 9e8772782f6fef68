"""Defines models of how a stream moves: Pr{X_{t+d} = v | everything up to t} (`docs/design/retention.md` §2.3).

The value of a row of one stream follows from the *other* stream's model.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike

from tolerant.retention.noise import Noise
from tolerant.retention.rounded_normal import cells
from tolerant.retention.value_arrays import Floats, Integers, finite, whole_numbers

_OVER = 1e-9


@runtime_checkable
class StreamModel(Protocol):
    """Probabilities of values at future ticks."""

    def chances(self, values: Integers, at: int, last: int | None, steps: int) -> Floats:
        """Return Pr{X_{at+d} = v}, d = 1…steps, float64[values, steps]; `last` is the value at tick `at`, if there is
        one.
        """


@dataclass(frozen=True, eq=False)
class Known:
    """The stream's values are known in advance; beyond their end no row arrives.

    >>> Known([4, 5, 4]).chances(np.array([4]), 0, 4, 3).tolist()
    [[0.0, 1.0, 0.0]]
    """

    values: Integers

    def __init__(self, values: ArrayLike) -> None:
        object.__setattr__(self, "values", whole_numbers("values", values))

    def chances(self, values: Integers, at: int, last: int | None, steps: int) -> Floats:
        """Return 1 where the value occurs, float64[values, steps]."""
        out = np.zeros((len(values), steps))
        ahead = self.values[at + 1 : at + 1 + steps]
        out[:, : len(ahead)] = values[:, None] == ahead
        return out


@dataclass(frozen=True, eq=False)
class Stationary:
    """Every tick is an independent draw from the same distribution: {value: probability}, or an array indexed by value.

    The probability missing to 1 is that of values that join nothing.
    """

    probabilities: Mapping[int, float] | ArrayLike
    values: Integers = field(init=False, repr=False)
    weights: Floats = field(init=False, repr=False)

    def __post_init__(self) -> None:
        values, weights = distribution("probabilities", self.probabilities)
        object.__setattr__(self, "values", values)
        object.__setattr__(self, "weights", weights)

    def chance(self, values: Integers) -> Floats:
        """Return the probability of each value."""
        return looked_up(self.values, self.weights, values)

    def chances(self, values: Integers, at: int, last: int | None, steps: int) -> Floats:
        """Return the same at every step, float64[values, steps]."""
        return np.repeat(self.chance(values)[:, None], steps, axis=1)


@dataclass(frozen=True)
class Trend:
    """A known line plus noise: X_t = ⌊slope·t + offset + ½⌋ + noise; t counts rows of the stream."""

    slope: float
    offset: float
    noise: Noise

    def __post_init__(self) -> None:
        object.__setattr__(self, "slope", finite("slope", self.slope))
        object.__setattr__(self, "offset", finite("offset", self.offset))
        if not isinstance(self.noise, Noise):
            raise ValueError(f"noise must be UniformNoise or NormalNoise, got {self.noise!r}")

    def centres(self, ticks: Integers) -> Integers:
        """Return the line at these ticks, rounded."""
        return np.floor(self.slope * ticks + self.offset + 0.5).astype(np.int64)

    def chances(self, values: Integers, at: int, last: int | None, steps: int) -> Floats:
        """Return float64[values, steps]."""
        weights, bound = self.noise.weights(), self.noise.bound
        centres = self.centres(at + 1 + np.arange(steps))
        distances = values[:, None] - centres
        inside = np.abs(distances) <= bound
        return np.where(inside, weights[np.where(inside, distances + bound, 0)], 0.0)


@dataclass(frozen=True)
class AR1:
    """X_t = phi·X_{t−1} + constant + N(0, sigma²), rounded where it is compared (A.14.1)."""

    constant: float
    phi: float
    sigma: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "constant", finite("constant", self.constant))
        object.__setattr__(self, "phi", finite("phi", self.phi))
        object.__setattr__(self, "sigma", finite("sigma", self.sigma, 0.0))
        if abs(self.phi) > 1.0:
            warnings.warn(f"phi = {self.phi} is beyond ±1: such a stream runs away", stacklevel=3)

    def moments(self, last: float, steps: int) -> tuple[Floats, Floats]:
        """Return mean and standard deviation 1…steps ticks ahead."""
        ahead = np.arange(1, steps + 1, dtype=np.float64)
        power = self.phi**ahead
        if self.phi == 1.0:
            return last + self.constant * ahead, self.sigma * np.sqrt(ahead)
        mean = power * last + self.constant * (1.0 - power) / (1.0 - self.phi)
        if abs(self.phi) == 1.0:
            return mean, self.sigma * np.sqrt(ahead)
        return mean, self.sigma * np.sqrt((1.0 - power**2) / (1.0 - self.phi**2))

    def chances(self, values: Integers, at: int, last: int | None, steps: int) -> Floats:
        """Return float64[values, steps]."""
        if last is None:
            raise ValueError("history must have at least one value: this model continues from the last one")
        mean, deviation = self.moments(0.0 if self.phi == 1.0 else float(last), steps)
        base = values - last if self.phi == 1.0 else values
        distances = base.astype(np.float64)[:, None] - mean
        return cells(distances.ravel(), np.tile(deviation, len(values))).reshape(distances.shape)


class Walk(AR1):
    """A random walk: X_t = X_{t−1} + drift + N(0, sigma²)."""

    def __init__(self, drift: float, sigma: float) -> None:
        super().__init__(finite("drift", drift), 1.0, sigma)

    @property
    def drift(self) -> float:
        """Return the mean of a step."""
        return self.constant

    def __repr__(self) -> str:
        return f"Walk(drift={self.drift}, sigma={self.sigma})"


@dataclass(frozen=True, eq=False)
class Scripted:
    """A distribution for each tick, {value: probability}, ticks independent; beyond the list no row arrives."""

    ticks: Sequence[Mapping[int, float]]
    parts: tuple[tuple[Integers, Floats], ...] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        parts = tuple(distribution(f"ticks[{t}]", tick) for t, tick in enumerate(self.ticks))
        object.__setattr__(self, "parts", parts)

    def chances(self, values: Integers, at: int, last: int | None, steps: int) -> Floats:
        """Return float64[values, steps]."""
        out = np.zeros((len(values), steps))
        for d, part in enumerate(self.parts[at + 1 : at + 1 + steps]):
            out[:, d] = looked_up(*part, values)
        return out


def distribution(name: str, given: Mapping[int, float] | ArrayLike) -> tuple[Integers, Floats]:
    """Return values in order, and their probabilities.

    Raises:
        ValueError: some are negative or not numbers, or they sum to more than 1.
    """
    if isinstance(given, Mapping):
        values = whole_numbers(f"{name}'s values", list(given))
        weights = np.array(list(given.values()), np.float64)
    else:
        weights = np.array(given, np.float64)
        if weights.ndim != 1:
            raise ValueError(f"{name} must be a dict or one flat array, got {weights.ndim} dimensions")
        values = np.arange(weights.size)
    if not (weights >= 0.0).all():
        raise ValueError(f"{name} must not be negative or NaN, got {weights[~(weights >= 0.0)][0]}")
    if weights.sum() > 1.0 + _OVER:
        raise ValueError(f"{name} must sum to at most 1, got {weights.sum()}")
    order = np.argsort(values, kind="stable")
    return values[order], weights[order]


def looked_up(values: Integers, weights: Floats, wanted: Integers) -> Floats:
    """Return the weight of each wanted value; 0 for values that are not in `values` (sorted)."""
    if not values.size:
        return np.zeros(len(wanted))
    if values[-1] - values[0] == values.size - 1:
        at = np.clip(wanted - values[0], 0, values.size - 1)
    else:
        at = np.minimum(np.searchsorted(values, wanted), values.size - 1)
    return np.where(values[at] == wanted, weights[at], 0.0)
