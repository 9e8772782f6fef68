"""Fits models to data: the best of AR(1), walk, trend and stationary, by one-step predictions (§5)."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike

from tolerant.retention.models import AR1, Stationary, StreamModel, Trend, Walk
from tolerant.retention.noise import NormalNoise, UniformNoise
from tolerant.retention.rounded_normal import cells
from tolerant.retention.value_arrays import Floats, Integers, whole_numbers

_UNLIKELY = 1e-12
"""Probability assumed for a value that a model excludes, so that one outlier does not rule out the model."""

_WIDEST, _STEEPEST = 2**16, 2**40
"""Largest noise and slope per tick of a trend: tables of its noise must fit the memory, and codes have no trend."""

_SNAP = 3.0
"""A slope within this many standard errors of a whole number is that number."""


def fit(values: ArrayLike) -> StreamModel:
    """Return the model that predicts each value from those before it best, by the Bayesian information criterion.

    >>> fit([7, 8, 8, 7] * 10)
    Stationary(probabilities={7: 0.5, 8: 0.5})
    """
    given = whole_numbers("values", values)
    if len(given) < 3:
        return frequencies(given)
    ticks = np.arange(len(given))
    candidates: list[tuple[StreamModel, int]] = [(frequencies(given), len(np.unique(given)) - 1)]
    trend = fit_trend(ticks, given)
    if trend is not None:
        candidates.append((trend, 4))
    candidates.append((fit_walk(given), 2))
    reverting, is_walk = fit_reverting(given)
    if not is_walk:
        candidates.append((reverting, 3))
    penalty = math.log(len(given) - 1)
    criteria = [
        parameters * penalty - 2.0 * float(log_chances(model, ticks, given).sum()) for model, parameters in candidates
    ]
    return candidates[int(np.argmin(criteria))][0]


def log_chances(model: StreamModel, ticks: Integers, values: Integers) -> Floats:
    """Return ln of the probability that the model gave each value but the first, given the one before it."""
    if isinstance(model, AR1):
        before = values[:-1].astype(np.float64)
        if model.phi == 1.0:
            apart = (values[1:] - values[:-1]).astype(np.float64) - model.constant
        else:
            apart = values[1:] - (model.phi * before + model.constant)
        chances = cells(apart, np.full(len(apart), model.sigma))
    elif isinstance(model, Trend):
        distances = values[1:] - model.centres(ticks[1:])
        weights, bound = model.noise.weights(), model.noise.bound
        inside = np.abs(distances) <= bound
        chances = np.where(inside, weights[np.where(inside, distances + bound, 0)], 0.0)
    else:
        chances = model.chances(values[1:], 0, None, 1)[:, 0]
    return np.log(np.maximum(chances, _UNLIKELY))


def frequencies(values: Integers) -> Stationary:
    """Return the relative frequencies as a stationary model."""
    distinct, counts = np.unique(values, return_counts=True)
    return Stationary(dict(zip(distinct.tolist(), (counts / max(len(values), 1)).tolist(), strict=True)))


def fit_walk(values: Integers) -> Walk:
    """Return the mean step and its spread."""
    steps = np.diff(values).astype(np.float64)
    return Walk(float(steps.mean()), float(steps.std()))


def fit_reverting(values: Integers) -> tuple[AR1, bool]:
    """Fit each value to the one before by least squares; second: whether it is indistinguishable from a walk."""
    x, y = values[:-1].astype(np.float64), values[1:].astype(np.float64)
    centred = x - x.mean()
    spread = float(centred @ centred)
    if spread == 0.0:
        return AR1(float(y.mean()), 0.0, float(y.std())), False
    phi = float(centred @ (y - y.mean())) / spread
    constant = float(y.mean() - phi * x.mean())
    errors = y - phi * x - constant
    error = math.sqrt(float(errors @ errors) / max(len(x) - 2, 1) / spread)
    is_walk = phi >= 1.0 - 3.0 * error
    return AR1(constant, min(phi, 1.0), float(errors.std())), is_walk


def fit_trend(ticks: Integers, values: Integers) -> Trend | None:
    """Return a line by least squares; around it normal noise, or uniform if that explains it better.

    None: all rows of one tick, or values too far apart for a line.
    """
    t, x = ticks.astype(np.float64), values.astype(np.float64)
    centred = t - t.mean()
    spread = float(centred @ centred)
    if spread == 0.0:
        return None
    slope = float(centred @ (x - x.mean())) / spread
    errors = x - x.mean() - slope * centred
    if np.abs(errors).max() > _WIDEST or abs(slope) > _STEEPEST:
        return None
    error = math.sqrt(float(errors @ errors) / max(len(t) - 2, 1) / spread)
    if abs(slope - round(slope)) <= _SNAP * error + 1e-9:
        slope = float(round(slope))
    rest = x - slope * t
    choices = [_normal(slope, rest, ticks, values), _uniform(slope, rest)]
    return max(choices, key=lambda model: float(log_chances(model, ticks, values).sum()))


def _normal(slope: float, rest: Floats, ticks: Integers, values: Integers) -> Trend:
    offset = float(rest.mean())
    spread = math.sqrt(max(float(rest.var()) - 1.0 / 12.0, 0.0)) if slope != round(slope) else float(rest.std())
    bound = math.ceil(max(np.abs(rest - offset).max(), 4.0 * spread)) + 1
    return Trend(slope, offset, NormalNoise(max(spread, 0.05), bound))


def _uniform(slope: float, rest: Floats) -> Trend:
    low, high = float(rest.min()), float(rest.max())
    middle = (low + high) / 2.0
    bound = math.ceil((high - low) / 2.0 - 1e-9)
    return Trend(slope, math.floor(middle) if slope == round(slope) else middle, UniformNoise(bound))
