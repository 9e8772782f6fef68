"""Predicts values between pulls: a few predictors per item, the best one in use (`docs/design/polling.md` §5.2)."""

from __future__ import annotations

import math

import numpy as np

from tolerant.kernels.compiled import compiled, compiled_no_refcount
from tolerant.polling.poller_arrays import Floats, Record

REVERTING = np.array([0.98, 0.95, 0.9, 0.8])
"""φ: fraction of the distance from the level that is left after a tick."""
DAMPED = np.array([0.5, 0.8, 0.9, 0.97])
"""ψ: fraction of the trend that is left after a tick."""
PREDICTORS = 1 + len(REVERTING) + len(DAMPED)


@compiled
def predicted_value(value: float, level: float, rate: float, predictor: int, ticks: int) -> float:
    """Return what a predictor says `ticks` ticks after the value was pulled; at 0 ticks, exactly the value."""
    if predictor == 0 or ticks == 0:
        return value
    if predictor <= 4:
        return value - (value - level) * (1.0 - math.pow(REVERTING[predictor - 1], ticks))
    left = DAMPED[predictor - 5]
    return value + rate * left * (1.0 - math.pow(left, ticks)) / (1.0 - left)


@compiled
def value_in_use(item: Record, tick: int) -> float:
    """Return the value that answers use for an item."""
    if item.predictor == 0:
        return item.value
    return predicted_value(item.value, item.level, item.rate, item.predictor, tick - item.last)


@compiled_no_refcount
def judge_predictors(item: Record, errors: Floats, value: float, ticks: int, share: float) -> None:
    """Compare what each predictor said with the value pulled, and keep the best one; before the item is updated.

    One other than "hold" is trusted after 20 pulls, if its squared error is at most 0.9 of hold's.
    """
    best = 0
    for p in range(errors.size):
        miss = value - predicted_value(item.value, item.level, item.rate, p, ticks)
        errors[p] += share * (min(miss * miss / ticks, 1e280) - errors[p])
        if errors[p] < errors[best]:
            best = p
    trusted = item.pulls >= 20 and errors[best] <= 0.9 * errors[0]
    item.predictor = best if trusted else 0
    item.variance = errors[item.predictor]
    item.level += 0.1 * (value - item.level)
    item.rate = (value - item.value) / ticks
