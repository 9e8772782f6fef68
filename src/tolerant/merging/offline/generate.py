"""Generates subscriptions as the simulator of [CBGM] §7.1 does: some in clusters, some anywhere."""

from __future__ import annotations

import numpy as np

from tolerant.kernels.array_types import Floats

SMALL, SMALL_SIDE, LARGE_SIDE = 12, 100.0, 400.0
"""Up to `SMALL` queries the database of [CBGM] is `SMALL_SIDE` wide, above `LARGE_SIDE`."""


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
    """Return n rectangles float[n, 4] in a square database.

    Args:
        clustered: the share of queries that are in clusters (cf).
        share: the share of those in one cluster (sf); the last cluster has the remainder.
        spread: the deviation of a member's distance from the origin of its cluster (df).
        side: of the database; 100 for up to 12 queries, else 400.
        smallest, largest: sides are uniform between them.

    A centre outside is drawn again, then the rectangle is moved inside: [CBGM] leaves this open.

    >>> generate(100).shape
    (100, 4)
    """
    width = (SMALL_SIDE if n <= SMALL else LARGE_SIDE) if side is None else float(side)
    _check(n, clustered, share, spread, width, smallest, largest)
    rng = np.random.default_rng(seed)
    in_clusters = round(clustered * n)
    per_cluster = max(1, round(share * in_clusters))
    origins = rng.uniform(0, width, (-(-in_clusters // per_cluster), 2))
    centres = np.concatenate(
        [
            _around(rng, origins[np.arange(in_clusters) // per_cluster], spread, width),
            rng.uniform(0, width, (n - in_clusters, 2)),
        ]
    )
    sides = rng.uniform(smallest, largest, (n, 2))
    lows = np.clip(centres - sides / 2, 0, np.maximum(width - sides, 0))
    return np.concatenate([lows, np.minimum(lows + sides, width)], axis=1)


def _around(rng: np.random.Generator, origins: Floats, spread: float, width: float) -> Floats:
    """Draw a centre inside the database for each origin."""
    centres = np.empty_like(origins)
    outside = np.arange(len(origins))
    while len(outside):
        direction = rng.uniform(0, 2 * np.pi, len(outside))
        steps = rng.normal(0, spread, len(outside))[:, None] * np.column_stack([np.cos(direction), np.sin(direction)])
        centres[outside] = origins[outside] + steps
        inside = ((centres[outside] >= 0) & (centres[outside] <= width)).all(axis=1)
        outside = outside[~inside]
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
