"""Computes the probability that future rows match: Σ_v Pr{own at t+i = v}·Pr{partner at t+j = v} ([DISS] 3.3)."""

from __future__ import annotations

import math

import numpy as np

from tolerant.retention.models import AR1, Known, Scripted, Stationary, StreamModel, Trend
from tolerant.retention.rounded_normal import cells
from tolerant.retention.value_arrays import Floats, Integers

_WIDE = 8.0
"""Beyond this standard deviation the sum over integers is the integral, to ten digits."""


class MatchChances:
    """Match probabilities of one pair of models; what does not depend on the tick is computed once."""

    def __init__(self, own: StreamModel, partner: StreamModel, steps: int) -> None:
        self._own, self._partner, self._steps = own, partner, steps
        self._fixed: Floats | None = None
        self._overlap: Floats | None = None
        if isinstance(own, Stationary) and isinstance(partner, Stationary):
            self._fixed = np.full((steps, steps), float(own.weights @ partner.chance(own.values)))
        elif isinstance(own, Trend) and isinstance(partner, Trend):
            self._overlap = np.correlate(own.noise.weights(), partner.noise.weights(), "full")

    def at(self, tick: int, last: int | None, partner_last: int | None) -> Floats:
        """Return float64[steps, steps]: own row i + 1 ticks from now, partner's row j + 1 ticks from now."""
        if self._fixed is not None:
            return self._fixed
        own, partner, steps = self._own, self._partner, self._steps
        if isinstance(own, Trend) and isinstance(partner, Trend):
            return self._of_trends(own, partner, tick)
        if isinstance(own, AR1) and isinstance(partner, AR1):
            return _of_normals(own, partner, last, partner_last, steps)
        if isinstance(own, AR1):
            return self._listed(partner, own, tick, partner_last, last).T
        return self._listed(own, partner, tick, last, partner_last)

    def _of_trends(self, own: Trend, partner: Trend, tick: int) -> Floats:
        assert self._overlap is not None
        ahead = tick + 1 + np.arange(self._steps)
        apart = partner.centres(ahead)[None, :] - own.centres(ahead)[:, None]
        reach = own.noise.bound + partner.noise.bound
        inside = np.abs(apart) <= reach
        return np.where(inside, self._overlap[np.where(inside, apart + reach, 0)], 0.0)

    def _listed(
        self, listed: StreamModel, other: StreamModel, tick: int, last: int | None, other_last: int | None
    ) -> Floats:
        """Return the probabilities where the first of the two has few values at a tick, which are enumerated."""
        out = np.zeros((self._steps, self._steps))
        for i in range(self._steps):
            values, weights = support(listed, tick + 1 + i)
            if len(values):
                out[i] = weights @ other.chances(values, tick, other_last, self._steps)
        return out


def support(model: StreamModel, tick: int) -> tuple[Integers, Floats]:
    """Return the possible values at a tick, and their probabilities."""
    if isinstance(model, Stationary):
        return model.values, model.weights
    if isinstance(model, Trend):
        centre = int(model.centres(np.array([tick]))[0])
        return centre + np.arange(-model.noise.bound, model.noise.bound + 1), model.noise.weights()
    if isinstance(model, Scripted):
        return model.parts[tick] if 0 <= tick < len(model.parts) else (np.zeros(0, np.int64), np.zeros(0))
    if isinstance(model, Known):
        values = model.values[tick : tick + 1]
        return values, np.ones(len(values))
    raise ValueError(f"models must be of Known, Stationary, Trend, Walk, AR1 or Scripted, got {model!r}")


def _of_normals(own: AR1, partner: AR1, last: int | None, partner_last: int | None, steps: int) -> Floats:
    if last is None or partner_last is None:
        raise ValueError("history must have at least one value: these models continue from the last one")
    (mean, spread), (other, wide) = own.moments(float(last), steps), partner.moments(float(partner_last), steps)
    out = np.zeros((steps, steps))
    for i in range(steps):
        for j in range(steps):
            both = math.hypot(spread[i], wide[j])
            if min(spread[i], wide[j]) > _WIDE:
                apart = (mean[i] - other[j]) / both
                out[i, j] = math.exp(-0.5 * apart * apart) / (both * math.sqrt(2.0 * math.pi))
            else:
                out[i, j] = _summed(mean[i], spread[i], other[j], wide[j])
    return out


def _summed(mean: float, spread: float, other: float, wide: float) -> float:
    """Sum over the values of the narrower one."""
    if wide < spread:
        mean, spread, other, wide = other, wide, mean, spread
    reach = math.ceil(8.0 * spread) + 1
    values = np.arange(math.floor(mean) - reach, math.floor(mean) + reach + 1, dtype=np.float64)
    return float(cells(values - mean, np.full(values.size, spread)) @ cells(values - other, np.full(values.size, wide)))
