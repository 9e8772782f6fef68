"""Computes h2: the score of a row by its value and the partner's last value, for an AR(1) stream (Theorem 11)."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike
from scipy.interpolate import RectBivariateSpline

from tolerant.kernels.compiled import compiled
from tolerant.retention.models import AR1
from tolerant.retention.scorer import ENDLESS, reverting_sum
from tolerant.retention.survival import EXPONENTIAL
from tolerant.retention.value_arrays import Floats, whole_number


def h2(model: AR1, alpha: float, values: ArrayLike, lasts: ArrayLike) -> Floats:
    """Return h2 to a millionth, float64[values, lasts]; neither needs to be whole.

    >>> h2(AR1(5.59, 0.72, 4.22), 10.0, [10, 20, 30], [20]).round(5).ravel().tolist()
    [0.1457, 0.66507, 0.14322]
    """
    v, x = np.asarray(values, np.float64), np.asarray(lasts, np.float64)
    return _exact(model.constant, model.phi, model.sigma, alpha, v, x)


class Surface:
    """h2 from `points` × `points` exact values over a square, bicubic between them; [DISS] uses 5 × 5.

    A coarse one is far off: on the temperatures of [DISS] by up to 41 % of the peak, 17 × 17 points by 0.3 %.
    """

    def __init__(self, model: AR1, alpha: float, low: float, high: float, points: int = 17) -> None:
        points = whole_number("points", points, 4)
        if not low < high:
            raise ValueError(f"low must be less than high, got {low} and {high}")
        at = np.linspace(low, high, points)
        self._spline = RectBivariateSpline(at, at, h2(model, alpha, at, at))

    def __call__(self, values: ArrayLike, lasts: ArrayLike) -> Floats:
        """Return float64[values, lasts]."""
        return self._spline(np.asarray(values, np.float64), np.asarray(lasts, np.float64))


@compiled
def _exact(constant: float, phi: float, sigma: float, alpha: float, values: Floats, lasts: Floats) -> Floats:
    out = np.empty((values.size, lasts.size))
    for i in range(values.size):
        for j in range(lasts.size):
            out[i, j] = reverting_sum(constant, phi, sigma, EXPONENTIAL, alpha, values[i] - lasts[j], lasts[j], ENDLESS)
    return out
