"""Computes the probability that a rounded normal number is a given integer (`docs/design/retention.md` §2.3)."""

from __future__ import annotations

import math

import numpy as np

from tolerant.kernels.compiled import compiled
from tolerant.retention.value_arrays import Floats

_ROOT = 1.0 / math.sqrt(2.0)


@compiled
def cell(distance: float, deviation: float) -> float:
    """Return the probability that N(0, deviation²) rounds to the integer at `distance` from its mean.

    Computed on the negative side: symmetric, and without cancellation in the tails.
    """
    if deviation == 0.0:
        return 1.0 if -0.5 <= distance < 0.5 else 0.0
    left = -abs(distance)
    scale = _ROOT / deviation
    return 0.5 * (math.erfc(-(left + 0.5) * scale) - math.erfc(-(left - 0.5) * scale))


@compiled
def cells(distances: Floats, deviations: Floats) -> Floats:
    """Return `cell` of each pair, float64[n]."""
    out = np.empty(distances.size)
    for k in range(distances.size):
        out[k] = cell(distances[k], deviations[k])
    return out
