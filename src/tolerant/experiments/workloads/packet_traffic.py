"""Generates packet rates like those of [OJW03]: heavy-tailed bursts, averaged over a one-minute moving window."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

_TAIL = 1.5
"""Shape of the Pareto lengths: below 2 the variance is infinite, the self-similar traffic of [PF95]."""


def bursty_traffic(
    means: Sequence[float], ticks: int, *, on: float = 30.0, off: float = 270.0, window: int = 60, seed: int = 0
) -> NDArray[np.float64]:
    """Return moving averages over `window` ticks of packets per tick, float64[ticks, items]; a column for each of
    `means`.

    An item is silent or bursting in turns, for Pareto lengths of `off` and `on` ticks in the mean; `off` = 0 never
    rests. While it bursts its packets are Poisson, at the rate that makes `means` the long-run average.

    >>> bursty_traffic([5.0, 0.0], ticks=100, seed=1).shape
    (100, 2)
    """
    if ticks < 1 or window < 1:
        raise ValueError(f"ticks and window must be at least 1, got {ticks} and {window}")
    if on <= 0 or off < 0:
        raise ValueError(f"on must be positive and off not negative, got {on} and {off}")
    length = ticks + window - 1
    values = np.zeros((ticks, len(means)))
    for item, mean in enumerate(means):
        if mean > 0:
            rng = np.random.default_rng((seed, item))
            packets = rng.poisson(_bursting(rng, length, on, off) * mean * (on + off) / on)
            total = np.concatenate([[0], np.cumsum(packets)])
            values[:, item] = (total[window:] - total[:-window]) / window
    return values


def _bursting(rng: np.random.Generator, length: int, on: float, off: float) -> NDArray[np.bool_]:
    if off == 0:
        return np.ones(length, bool)
    state = np.zeros(length, bool)
    bursts = bool(rng.random() < on / (on + off))
    at = -int(rng.random() * (on if bursts else off))
    while at < length:
        mean = on if bursts else off
        # A Pareto of shape a and least value x has the mean a·x/(a − 1).
        span = max(1, round((1 + rng.pareto(_TAIL)) * mean * (_TAIL - 1) / _TAIL))
        if bursts:
            state[max(at, 0) : max(at + span, 0)] = True
        at += span
        bursts = not bursts
    return state
