"""Models how long a row is kept: L(d), the assumed probability that it is still held d ticks from now
([DISS] 3.4.3).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from tolerant.kernels.compiled import compiled
from tolerant.retention.models import AR1, StreamModel, Trend
from tolerant.retention.value_arrays import Floats, finite, whole_number

EXPONENTIAL, FIXED, FOREVER, INVERSE = range(4)


@dataclass(frozen=True)
class Exponential:
    """L(d) = e^(−d/alpha)."""

    alpha: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "alpha", finite("alpha", self.alpha, 0.0))
        if self.alpha == 0.0:
            raise ValueError("alpha must be positive, got 0")


@dataclass(frozen=True)
class Fixed:
    """L(d) = 1 for d ≤ steps, then 0."""

    steps: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "steps", whole_number("steps", self.steps, 1))


@dataclass(frozen=True)
class Forever:
    """L(d) = 1: the probability of ever being referenced; for caching only."""


@dataclass(frozen=True)
class Inverse:
    """L(d) = 1/d: the expected inverse waiting time; for caching only."""


Survival: TypeAlias = Exponential | Fixed | Forever | Inverse


def coded(survival: Survival) -> tuple[int, float]:
    """Return kind and parameter, for compiled code."""
    match survival:
        case Exponential(alpha):
            return EXPONENTIAL, alpha
        case Fixed(steps):
            return FIXED, float(steps)
        case Forever():
            return FOREVER, 0.0
        case Inverse():
            return INVERSE, 0.0


@compiled
def log_survival(code: int, parameter: float, ahead: float) -> float:
    """Return ln L(ahead); −∞ where L is 0."""
    if code == EXPONENTIAL:
        return -ahead / parameter
    if code == FIXED:
        return 0.0 if ahead <= parameter else -np.inf
    if code == FOREVER:
        return 0.0
    return -math.log(ahead)


def weights_of(survival: Survival, steps: int) -> Floats:
    """Return L(1…steps)."""
    ahead = np.arange(1.0, steps + 1)
    match survival:
        case Exponential(alpha):
            return np.exp(-ahead / alpha)
        case Fixed(limit):
            return (ahead <= limit).astype(np.float64)
        case Forever():
            return np.ones(steps)
        case Inverse():
            return 1.0 / ahead


def of_mean_life(life: float) -> Survival:
    """Return the exponential survival whose mean life is `life` ticks; at 1 or less only the next tick counts.

    >>> round(of_mean_life(2.0).alpha, 4)
    1.4427
    """
    if life <= 1.0:
        return Fixed(1)
    return Exponential(-1.0 / math.log1p(-1.0 / life))


def check_survival(survival: Any, joining: bool) -> Survival:
    """Return the survival function.

    Raises:
        ValueError: it is not a survival function, or not one for joining.
    """
    if not isinstance(survival, (Exponential, Fixed, Forever, Inverse)):
        raise ValueError(f"survival must be Exponential, Fixed, Forever or Inverse, got {survival!r}")
    if joining and isinstance(survival, (Forever, Inverse)):
        raise ValueError(f"survival {survival!r} is for caching only: a join may run for ever; use Exponential")
    return survival


def for_joining(models: tuple[StreamModel, StreamModel], memory: int) -> Survival:
    """Return the default for a join: [DISS]'s mean life for trends, capped at the memory (§5); else α = memory."""
    lives = [_trend_life(model) for model in models]
    if lives[0] is not None and lives[1] is not None:
        return of_mean_life(min((lives[0] + lives[1]) / 2.0, float(memory)))
    return Exponential(float(max(memory, 1)))


def for_caching(model: StreamModel, memory: int) -> Survival:
    """Return the default for a cache: as for joining, and α = memory/4 for a stream that reverts to its mean (§5)."""
    life = _trend_life(model)
    if life is not None:
        return of_mean_life(min(life, float(memory)))
    reverts = isinstance(model, AR1) and model.phi != 1.0
    return Exponential(max(memory, 1) / (4.0 if reverts else 1.0))


def _trend_life(model: StreamModel) -> float | None:
    if isinstance(model, Trend) and model.slope != 0.0:
        return model.noise.life / abs(model.slope)
    return None
