"""Divides a bound over parts so that the estimated cost is least, exactly (`docs/design/planning.md` §2.5)."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from tolerant.kernels.compiled import compiled_no_refcount
from tolerant.planning.planning_arrays import SLACK, Floats


def allocate(roughness: ArrayLike, floors: ArrayLike, within: float, offsets: ArrayLike | None = None) -> Floats:
    """Return the bounds C that minimise Σ A/(C − h)² subject to Σ C ≤ within and C ≥ X; float64[parts].

    roughness: A > 0 of each part. floors: X ≥ 0. offsets: h, at most X; None: 0.

    >>> allocate([8, 1, 1], [0, 0, 0], 8).tolist()
    [4.0, 2.0, 2.0]

    Raises:
        ValueError: the floors add up to more than `within`.
    """
    rough, lows = np.array(roughness, np.float64), np.array(floors, np.float64)
    shifts = np.zeros(lows.size) if offsets is None else np.array(offsets, np.float64)
    if rough.ndim != 1 or rough.size == 0 or rough.shape != lows.shape or rough.shape != shifts.shape:
        raise ValueError(
            "roughness, floors and offsets must have one entry per part, "
            f"got {rough.shape}, {lows.shape}, {shifts.shape}"
        )
    if not (np.isfinite(rough) & (rough > 0)).all():
        raise ValueError(f"roughness must be finite and positive, got {rough.tolist()}")
    if not (np.isfinite(lows) & (lows >= 0)).all():
        raise ValueError(f"floors must be finite and not negative, got {lows.tolist()}")
    if not (np.isfinite(shifts) & (shifts <= lows)).all():
        raise ValueError(f"offsets must be finite and at most the floors, got {shifts.tolist()}")
    if not (np.isfinite(within) and within > 0):
        raise ValueError(f"within must be finite and positive, got {within}")
    if lows.sum() > within * (1 + SLACK):
        raise ValueError(f"the floors add up to {lows.sum():g}, more than within = {within:g}")
    slopes = np.cbrt(rough)
    level = level_of(slopes, lows, shifts, float(within))
    return np.maximum(lows, shifts + level * slopes)


@compiled_no_refcount
def level_of(slopes: Floats, floors: Floats, offsets: Floats, within: float) -> float:
    """Return λ with Σ max(X, h + λa) = within, skipping parts of slope 0; 0 where the floors leave nothing.

    Newton's method on a convex, piecewise linear sum: it descends from the λ at which no floor matters, fixing parts
    whose floor is above their share, and is exact when no more are. A pass is O(parts), and few are needed; in the
    worst case it fixes one part per pass, as going through them in the order of (X − h)/a would.
    """
    level, least = np.inf, 0.0
    for k in range(slopes.size):
        least += floors[k]
    if least >= within * (1.0 - SLACK):
        return 0.0
    while True:
        left, slope = within, 0.0
        for k in range(slopes.size):
            if slopes[k] > 0.0:
                # The first pass counts every part as free: ∞ · a exceeds any floor.
                if offsets[k] + level * slopes[k] >= floors[k]:
                    left -= offsets[k]
                    slope += slopes[k]
                else:
                    left -= floors[k]
        if slope == 0.0:
            return 0.0
        lower = left / slope
        if lower >= level:
            return lower
        level = lower


@compiled_no_refcount
def cost_at(slopes: Floats, floors: Floats, offsets: Floats, level: float) -> float:
    """Return Z = Σ A/(C − h)² at the bounds for λ = `level`, where A is the cube of the slope (12)."""
    cost = 0.0
    for k in range(slopes.size):
        if slopes[k] > 0.0:
            room = max(floors[k] - offsets[k], level * slopes[k])
            cost += slopes[k] ** 3 / room**2
    return cost
