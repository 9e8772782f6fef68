"""Computes h1: the score of a row by its distance from a random walk's present value ([DISS] 3.5.5, Theorem 11)."""

from __future__ import annotations

import math

import numpy as np

from tolerant.kernels.compiled import compiled
from tolerant.retention.rounded_normal import cell
from tolerant.retention.value_arrays import Floats, Integers

_DIRECT = 256
"""Terms that are added one by one; beyond, the sum is an integral and one correction (Euler and Maclaurin)."""

_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(10)


@compiled
def _term(distance: float, drift: float, sigma: float, alpha: float, ahead: float) -> float:
    return cell(distance - drift * ahead, sigma * math.sqrt(ahead)) * math.exp(-ahead / alpha)


@compiled
def walk_sum(distance: float, drift: float, sigma: float, alpha: float, life: int) -> float:
    """Return Σ_{d ≤ life} Pr{a walk is `distance` away in d ticks}·e^(−d/alpha), to 1e−11 of its peak."""
    end = min(float(life), math.ceil(37.0 * alpha) + 1.0)
    total = 0.0
    direct = int(min(end, _DIRECT))
    for ahead in range(1, direct + 1):
        total += _term(distance, drift, sigma, alpha, float(ahead))
    if end <= direct:
        return total
    step = _term(distance, drift, sigma, alpha, direct + 1.0) - _term(distance, drift, sigma, alpha, float(direct))
    last = _term(distance, drift, sigma, alpha, end + 1.0) - _term(distance, drift, sigma, alpha, end)
    total += (step - last) / 24.0
    low = direct + 0.5
    # A drift passes the value within some √d ticks: the panels must resolve that.
    narrow = 1e300 if drift == 0.0 else sigma / abs(drift)
    while low < end + 0.5:
        high = min(low + min(low / 2.0, 2.0 * alpha, narrow * math.sqrt(low)), end + 0.5)
        half, middle = (high - low) / 2.0, (high + low) / 2.0
        for k in range(_NODES.size):
            total += half * _WEIGHTS[k] * _term(distance, drift, sigma, alpha, middle + half * _NODES[k])
        low = high
    return total


@compiled
def walk_sums(distances: Floats, drift: float, sigma: float, alpha: float, lives: Integers) -> Floats:
    """Return `walk_sum` of each distance, for each life, float64[lives, distances]."""
    out = np.empty((lives.size, distances.size))
    for row in range(lives.size):
        for k in range(distances.size):
            out[row, k] = walk_sum(distances[k], drift, sigma, alpha, lives[row])
    return out


def decay_rates(drift: float, sigma: float, alpha: float) -> tuple[float, float]:
    """Return how fast h1 falls to the left and to the right, per unit of distance: both solve σ²κ²/2 ±
    drift·κ = 1/α.
    """
    root = math.sqrt(drift * drift + 2.0 * sigma * sigma / alpha)
    # 2/α over the sum, not the difference over σ²: no cancellation where the drift is strong.
    down = 2.0 / alpha / (root + abs(drift))
    up = (root + abs(drift)) / (sigma * sigma)
    return (up, down) if drift >= 0 else (down, up)


def h1(distances: Floats, drift: float, sigma: float, alpha: float) -> Floats:
    """Return the score of a row by its distance from the partner's present value, float64[n].

    >>> h1(np.array([0.0, 1.0]), 0.0, 1.0, 10.0).round(6).tolist()
    [1.635209, 1.377889]
    """
    return walk_sums(np.asarray(distances, np.float64), drift, sigma, alpha, np.array([2**62]))[0]
