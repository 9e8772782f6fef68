"""How likely a rounded normal number is each integer (`specs/6-retention.md` §2.3)."""

from __future__ import annotations

import math

import numpy as np

from tolerant.kernels.compiled import compiled
from tolerant.retention.arrays import Floats

_ROOT = 1.0 / math.sqrt(2.0)


@compiled
def cell(distance: float, deviation: float) -> float:
    """The probability that N(0, deviation²) rounds to the integer at `distance` from its mean.

    Taken on the negative side, so that it is the same to the left and to the right, and does not cancel in the tails.
    """
    if deviation == 0.0:
        return 1.0 if -0.5 <= distance < 0.5 else 0.0
    left = -abs(distance)
    scale = _ROOT / deviation
    return 0.5 * (math.erfc(-(left + 0.5) * scale) - math.erfc(-(left - 0.5) * scale))


@compiled
def cells(distances: Floats, deviations: Floats) -> Floats:
    """`cell` of each pair, float64[n]."""
    out = np.empty(distances.size)
    for k in range(distances.size):
        out[k] = cell(distances[k], deviations[k])
    return out
