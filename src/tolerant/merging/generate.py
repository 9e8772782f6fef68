"""Subscriptions like those of the seed's simulator (seed 002 §7.1): some gather in clusters, some lie anywhere."""

from __future__ import annotations

import numpy as np

from tolerant.merging.arrays import Floats

SMALL, SMALL_SIDE, LARGE_SIDE = 12, 100.0, 400.0
"""Up to `SMALL` queries the seed's database is `SMALL_SIDE` wide, above it `LARGE_SIDE`."""


def generate(
    n: int,
    *,
    clustered: float = 0.8,
    share: float = 0.3,
    spread: float = 100.0,
    side: float | None = None,
    smallest: float = 20.0,
    largest: float = 40.0,
    seed: int = 0,
) -> Floats:
    """n rectangles float[n, 4] in a square database.

    Args:
        clustered: the share of queries that gather in clusters (cf).
        share: the share of those that make one cluster (sf); the last cluster takes the remainder.
        spread: the deviation of a member's distance from its cluster's origin (df).
        side: of the database; 100 for up to 12 queries, else 400.
        smallest, largest: sides are uniform between them.

    A centre that falls outside is drawn again, then the rectangle is moved inside: the seed leaves this open.

    >>> generate(100).shape
    (100, 4)
    """
    width = (SMALL_SIDE if n <= SMALL else LARGE_SIDE) if side is None else float(side)
    _check(n, clustered, share, spread, width, smallest, largest)
    rng = np.random.default_rng(seed)
    gathered = round(clustered * n)
    each = max(1, round(share * gathered))
    origins = rng.uniform(0, width, (-(-gathered // each), 2))
    centres = np.concatenate(
        [
            _around(rng, origins[np.arange(gathered) // each], spread, width),
            rng.uniform(0, width, (n - gathered, 2)),
        ]
    )
    sides = rng.uniform(smallest, largest, (n, 2))
    lows = np.clip(centres - sides / 2, 0, np.maximum(width - sides, 0))
    return np.concatenate([lows, np.minimum(lows + sides, width)], axis=1)


def _around(rng: np.random.Generator, origins: Floats, spread: float, width: float) -> Floats:
    """A centre inside the database for each origin."""
    centres = np.empty_like(origins)
    waiting = np.arange(len(origins))
    while len(waiting):
        direction = rng.uniform(0, 2 * np.pi, len(waiting))
        steps = rng.normal(0, spread, len(waiting))[:, None] * np.column_stack([np.cos(direction), np.sin(direction)])
        centres[waiting] = origins[waiting] + steps
        inside = ((centres[waiting] >= 0) & (centres[waiting] <= width)).all(axis=1)
        waiting = waiting[~inside]
    return centres


def _check(
    n: int, clustered: float, share: float, spread: float, width: float, smallest: float, largest: float
) -> None:
    if n < 0:
        raise ValueError(f"n must not be negative, got {n}")
    for name, value in (("clustered", clustered), ("share", share)):
        if not 0 <= value <= 1:
            raise ValueError(f"{name} must be in [0, 1], got {value}")
    if not (spread >= 0 and np.isfinite(spread)):
        raise ValueError(f"spread must be finite and not negative, got {spread}")
    if not (width > 0 and np.isfinite(width)):
        raise ValueError(f"side must be positive and finite, got {width}")
    if not 0 <= smallest <= largest <= width:
        raise ValueError(f"smallest ≤ largest ≤ side must hold, got {smallest}, {largest}, {width}")
