"""Builds scorers from models: chooses the table or the sum that scores a row."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from tolerant.kernels.compiled import compiled
from tolerant.retention.benefit import first_chances
from tolerant.retention.models import AR1, Known, Scripted, Stationary, StreamModel, Trend
from tolerant.retention.rounded_normal import cell
from tolerant.retention.scorer import (
    ENDLESS,
    EVENTS,
    KEYS,
    LINE,
    OFFSETS,
    REVERTING,
    SURFACE,
    Scorer,
)
from tolerant.retention.survival import (
    EXPONENTIAL,
    FIXED,
    Exponential,
    Fixed,
    Survival,
    coded,
    log_survival,
    weights_of,
)
from tolerant.retention.value_arrays import Floats, Integers
from tolerant.retention.walk_scores import decay_rates, walk_sums

_EMPTY = np.zeros(0)
_NONE = np.zeros(0, np.int64)

WIDEST = 1024
"""An AR(1) stream whose values span more than this is summed for each row instead of looked up."""

_COSTLY = 3e8
"""Nor is it looked up if filling the table takes more terms than this: some ten seconds."""

_LONGEST = 2048
"""Entries of a walk's table to each side."""

_DEEPEST = 35.0
"""The table of a walk ends where e^−this of the peak is left; beyond it falls exponentially."""

_HORIZON = 256
"""Ticks ahead for a cache of a dependent stream whose survival is not exponential."""

_EVERY_LIFE, _NEXT_LIFE = 64, 1.1


def is_static(model: StreamModel) -> bool:
    """Return whether a value's probability is the same at every tick."""
    return isinstance(model, Stationary) or (isinstance(model, Trend) and model.slope == 0.0)


def static_chances(model: StreamModel, values: Integers) -> Floats:
    """Return the probability of each value under a model that `is_static`."""
    return model.chances(values, 0, None, 1)[:, 0] if len(values) else np.zeros(0)


def keys_only() -> Scorer:
    """Return the scorer of rows that carry their scores."""
    return Scorer(KEYS, _EMPTY, _EMPTY, _NONE, _NONE)


def scorer_of(
    model: StreamModel,
    survivals: Sequence[Survival],
    *,
    cached: bool = False,
    window: int | None = None,
    span: tuple[int, int] | None = None,
) -> Scorer:
    """Return the scorer for rows that are matched with a stream of this model; one layer for each of `survivals`.

    span: the least and the largest possible value, where known.
    """
    if is_static(model):
        return keys_only()
    if isinstance(model, Trend):
        return _trend(model, survivals, cached, window)
    if isinstance(model, AR1):
        if model.phi == 1.0 and model.sigma > 0.0:
            return _walk(model, survivals, cached, window)
        return _reverting(model, survivals, cached, window, span)
    if isinstance(model, (Known, Scripted)):
        return _events(model, survivals, cached)
    raise ValueError(f"models must be of Known, Stationary, Trend, Walk, AR1 or Scripted, got {model!r}")


def _parameters(survivals: Sequence[Survival]) -> list[float]:
    return [coded(survival)[1] for survival in survivals]


def _trend(model: Trend, survivals: Sequence[Survival], cached: bool, window: int | None) -> Scorer:
    weights, bound = _trimmed(model)
    code = coded(survivals[0])[0]
    numbers = np.array([model.slope, model.offset, *_parameters(survivals)])
    line = Scorer(LINE, weights, numbers, np.array([bound, code, int(cached)]), _NONE)
    exponential = all(isinstance(survival, Exponential) for survival in survivals)
    if model.slope != math.floor(model.slope) or not exponential or window is not None:
        return line
    stride, sign = abs(int(model.slope)), 1 if model.slope > 0 else -1
    low, length = stride - bound, 2 * bound + 1
    rests = np.exp(-1.0 / np.array(_parameters(survivals)))
    table = _line_table(np.ascontiguousarray(weights[::sign]), stride, rests, cached)
    drops = [drop for survival in survivals for drop in (0.0, 1.0 / coded(survival)[1])]
    whole = np.array([bound, sign, 1, low, length, 1, 0, stride, 0])
    return Scorer(OFFSETS, table, np.array([model.slope, model.offset, *drops]), whole, _NONE)


def _trimmed(model: Trend) -> tuple[Floats, int]:
    """Return the noise without the outermost values of negligible probability, and its bound."""
    weights, bound = model.noise.weights(), model.noise.bound
    real = int(np.abs(np.flatnonzero(weights > 0.0) - bound).max())
    return np.ascontiguousarray(weights[bound - real : bound + real + 1]), real


@compiled
def _line_table(weights: Floats, stride: int, rests: Floats, cached: bool) -> Floats:
    """Return ln of G(o) = rest·(pmf(o − a) + G(o − a)), or of F(o) = rest·(p + (1 − p)·F(o − a)) for a cache; rest =
    e^(−1/α).

    For offsets from stride − bound, before which all is 0, to stride + bound, after which it falls by `rest` per
    stride.
    """
    length = weights.size
    table = np.empty(rests.size * length)
    for layer in range(rests.size):
        base = layer * length
        for k in range(length):
            before = table[base + k - stride] if k >= stride else 0.0
            kept = 1.0 - weights[k] if cached else 1.0
            table[base + k] = rests[layer] * (weights[k] + kept * before)
    return np.log(table)


def _walk(model: AR1, survivals: Sequence[Survival], cached: bool, window: int | None) -> Scorer:
    alphas = [survival.alpha for survival in survivals if isinstance(survival, Exponential)]
    if len(alphas) < len(survivals):
        return _walk_by_ticks(model, survivals, cached, window)
    drift, sigma = model.constant, model.sigma
    rates = [decay_rates(drift, sigma, alpha) for alpha in alphas]
    reach = _reach(drift, sigma, max(alphas), window)
    left = min(math.ceil(_DEEPEST / min(rate[0] for rate in rates)) + 1, reach)
    right = min(math.ceil(_DEEPEST / min(rate[1] for rate in rates)) + 1, reach)
    step = max(1, min(_ceiling(max(left, right), _LONGEST), int(sigma / 16.0)))
    left, right = min(left, 32 * _LONGEST * step), min(right, 32 * _LONGEST * step)
    low = -_ceiling(left, step) * step
    length = (-low + right) // step + 2
    distances = (low + step * np.arange(length)).astype(np.float64)
    lives = _lives(window, max(alphas))
    layers = [_walk_table(distances, drift, sigma, alpha, lives) for alpha in alphas]
    if cached:
        layers = [table / (1.0 + table[:, -low // step][:, None]) for table in layers]
    with np.errstate(divide="ignore"):
        logs = np.maximum(np.log(np.maximum(np.concatenate(layers), 0.0)), -700.0)
    drops = [step * rate for pair in rates for rate in pair]
    whole = np.array([0, 1, 0, low, length, step, step, step, 0 if window is None else len(lives)])
    return Scorer(OFFSETS, logs.ravel(), np.array([0.0, 0.0, *drops]), whole, lives)


def _reach(drift: float, sigma: float, alpha: float, window: int | None) -> int:
    """Return the distance beyond which h1 is an exponential.

    Its Fourier transform has a pole for each k = 0, ±1, …; what those but the first add falls to nothing within some σ,
    or, where the drift leaves gaps between one tick and the next, within some drift³/σ². In a window it ends at the
    walk's reach.
    """
    if window is not None:
        ticks = min(float(window), 37.0 * alpha)
        return math.ceil(8.0 * sigma * math.sqrt(ticks) + abs(drift) * ticks) + 1
    return math.ceil(min(16.0 * sigma + 8.0 * abs(drift) + 2.0 * abs(drift) ** 3 / sigma**2, 2.0**50)) + 1


def _ceiling(number: int, step: int) -> int:
    return -(-number // step)


def _walk_table(distances: Floats, drift: float, sigma: float, alpha: float, lives: Integers) -> Floats:
    if drift != 0.0:
        return walk_sums(distances, drift, sigma, alpha, lives)
    sizes, places = np.unique(np.abs(distances), return_inverse=True)  # symmetric
    return walk_sums(sizes, drift, sigma, alpha, lives)[:, places]


def _lives(window: int | None, alpha: float) -> Integers:
    """Return the remaining lives that a table has rows for: all short ones, then each a tenth longer."""
    if window is None:
        return np.array([ENDLESS])
    longest = max(min(window, math.ceil(37.0 * alpha) + 1), 1)
    lives = list(range(1, min(longest, _EVERY_LIFE) + 1))
    while lives[-1] < longest:
        lives.append(min(math.ceil(lives[-1] * _NEXT_LIFE), longest))
    return np.array(lives)


def _walk_by_ticks(model: AR1, survivals: Sequence[Survival], cached: bool, window: int | None) -> Scorer:
    """Return the scorer with a table for survival functions that are not exponential."""
    if not cached:
        return _direct(model, survivals, cached)
    steps = max(_steps(survival) for survival in survivals)
    reach = math.ceil(8.0 * model.sigma * math.sqrt(steps) + abs(model.constant) * steps) + 1
    step = max(1, _ceiling(reach, _LONGEST))
    low = -_ceiling(reach, step) * step
    distances = np.arange(low, reach + step + 1, step)
    first = first_chances(model, distances, np.zeros(1, np.int64), steps)
    with np.errstate(divide="ignore"):
        table = np.log(np.concatenate([first @ weights_of(survival, steps) for survival in survivals]))
    drops = [1.0, 1.0] * len(survivals)
    whole = np.array([0, 1, 0, low, len(distances), step, step, step, 0])
    return Scorer(OFFSETS, np.maximum(table, -700.0), np.array([0.0, 0.0, *drops]), whole, _NONE)


def _steps(survival: Survival) -> int:
    return min(survival.steps, _HORIZON) if isinstance(survival, Fixed) else _HORIZON


def _direct(model: AR1, survivals: Sequence[Survival], cached: bool) -> Scorer:
    numbers = np.array([model.constant, model.phi, model.sigma, *_parameters(survivals)])
    whole = np.array([coded(survivals[0])[0], int(cached)])
    return Scorer(REVERTING, _EMPTY, numbers, whole, _NONE)


def _reverting(
    model: AR1, survivals: Sequence[Survival], cached: bool, window: int | None, span: tuple[int, int] | None
) -> Scorer:
    exponential = all(isinstance(survival, Exponential) for survival in survivals)
    narrow = span is not None and span[1] - span[0] < WIDEST
    if cached and not exponential and not narrow:
        raise ValueError(
            f"survival {survivals[0]!r} needs values that span less than {WIDEST} with {model!r}; use Exponential"
        )
    if not narrow or window is not None:
        return _direct(model, survivals, cached)
    assert span is not None
    if exponential and (span[1] - span[0] + 1) ** 2 * _terms(model, survivals) > _COSTLY:
        return _direct(model, survivals, cached)
    low, width = span[0], span[1] - span[0] + 1
    if exponential or not cached:
        code, parameters = coded(survivals[0])[0], np.array(_parameters(survivals))
        tables = list(_surfaces(model.constant, model.phi, model.sigma, code, parameters, low, width))
        if cached:
            tables = [table / (1.0 + np.diagonal(table)) for table in tables]
    else:
        tables = [_surface_by_ticks(model, survival, low, width) for survival in survivals]
    with np.errstate(divide="ignore"):
        logs = np.log(np.concatenate(tables).ravel())
    return Scorer(SURFACE, logs, _EMPTY, np.array([low, width]), _NONE)


def _terms(model: AR1, survivals: Sequence[Survival]) -> float:
    """Return how many ticks ahead `reverting_sum` looks at most."""
    settles = math.log(1e-6) / math.log(abs(model.phi)) if 0.0 < abs(model.phi) < 1.0 else math.inf
    return min(max(settles, 1.0), 33.0 * max(_parameters(survivals)))


@compiled
def _surfaces(constant: float, phi: float, sigma: float, code: int, parameters: Floats, low: int, width: int) -> Floats:
    """Return h2 for each parameter, [parameters, last value, row's value]: `reverting_sum` for a whole square."""
    out = np.zeros((parameters.size, width, width))
    weights = np.empty(parameters.size)
    power, variance = 1.0, 0.0
    shift = 0.0  # the mean is power·last + shift
    ahead = 0
    chances = np.empty(width)
    while True:
        ahead += 1
        power *= phi
        shift = phi * shift + constant
        variance = phi * phi * variance + sigma * sigma
        settled = code == EXPONENTIAL and abs(power) < 1e-6
        for j in range(parameters.size):
            weights[j] = math.exp(log_survival(code, parameters[j], float(ahead)))
            if settled:
                weights[j] /= 1.0 - math.exp(-1.0 / parameters[j])
        for x in range(width):
            mean = power * (low + x) + shift
            for v in range(width):
                chances[v] = cell(low + v - mean, math.sqrt(variance))
            for j in range(parameters.size):
                for v in range(width):
                    out[j, x, v] += weights[j] * chances[v]
        if settled or (code == FIXED and ahead >= parameters.max()) or weights.max() < 1e-14:
            return out


def _surface_by_ticks(model: AR1, survival: Survival, low: int, width: int) -> Floats:
    steps = _steps(survival)
    values = np.arange(low, low + width)
    weights = weights_of(survival, steps)
    return np.array([first_chances(model, values, values[x : x + 1], steps) @ weights for x in range(width)])


def _events(model: Known | Scripted, survivals: Sequence[Survival], cached: bool) -> Scorer:
    if isinstance(model, Known):
        values, ticks, chances = model.values, np.arange(len(model.values)), np.ones(len(model.values))
    else:
        sizes = [len(part[0]) for part in model.parts]
        values = np.concatenate([_NONE, *(part[0] for part in model.parts)])
        chances = np.concatenate([_EMPTY, *(part[1] for part in model.parts)])
        ticks = np.repeat(np.arange(len(sizes)), np.array(sizes, np.int64))
        values, ticks, chances = values[chances > 0], ticks[chances > 0], chances[chances > 0]
    order = np.lexsort((ticks, values))
    distinct, starts = np.unique(values[order], return_index=True)
    whole = np.array([coded(survivals[0])[0], int(cached), len(distinct)])
    listed = np.concatenate([distinct, starts, [len(values)], ticks[order]]).astype(np.int64)
    return Scorer(EVENTS, chances[order], np.array(_parameters(survivals)), whole, listed)
