"""Cosines of items that no single node observes together, from random signs that all nodes share
(`docs/design/planning.md` §2.3).
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import ArrayLike

from tolerant.kernels.random import bits, key_of
from tolerant.kernels.snapshots import Fields, Restorable
from tolerant.planning.planning_arrays import Floats


class CosineSketch(Restorable):
    """z_i = Σ_t ξ(t)·Δ_i(t) with signs ξ(t) that are a hash of (seed, t); float64[items, size].

    Sketches of the same seed add up, and the angle between two rows estimates the cosine of their items, wherever they
    were made. Root mean square error: 0.12 for size 64, 0.06 for 256, 0.03 for 1024.
    """

    FIELDS = Fields("size", "seed", "sums", "_last", items=(list, tuple))

    def __init__(self, items: Iterable[str], size: int = 256, seed: int = 0) -> None:
        if size < 1:
            raise ValueError(f"size must be at least 1, got {size}")
        self.items = tuple(str(item) for item in items)
        self.size, self.seed = int(size), int(seed)
        self.sums = np.zeros((len(self.items), self.size))
        self._last = np.full(len(self.items), np.nan)

    def update(self, tick: int, values: ArrayLike) -> None:
        """Add the items' values at a tick, float64[items]; NaN: no reading, the last one counts."""
        row = np.asarray(values, np.float64)
        if row.shape != self._last.shape:
            raise ValueError(f"values must have one entry for each of the {len(self.items)} items, got {row.shape}")
        moves = np.nan_to_num(row - self._last)
        self.sums += moves[:, None] * signs(self.seed, tick, self.size)
        self._last = np.where(np.isnan(row), self._last, row)

    def merge(self, other: CosineSketch) -> None:
        """Add what another node observed of the same items."""
        if (self.items, self.size, self.seed) != (other.items, other.size, other.seed):
            raise ValueError("only sketches of the same items, size and seed add up")
        self.sums += other.sums

    def decay(self, factor: float) -> None:
        """Scale everything observed so far by `factor`."""
        if not 0 <= factor <= 1:
            raise ValueError(f"factor must be from 0 to 1, got {factor}")
        self.sums *= factor


def cosine_between(*sketches: CosineSketch) -> Floats:
    """Return the estimated cosines of all items of the sketches, one after the other; float64[items, items]."""
    if len({(sketch.size, sketch.seed) for sketch in sketches}) != 1:
        raise ValueError("sketches must have the same size and seed")
    rows = np.vstack([sketch.sums for sketch in sketches])
    length = np.sqrt((rows**2).sum(axis=1))
    unit = rows / np.where(length > 0, length, 1.0)[:, None]
    cosine = np.clip(unit @ unit.T, -1.0, 1.0)
    np.fill_diagonal(cosine, 1.0)
    return cosine


def signs(seed: int, tick: int, size: int) -> Floats:
    """Return ξ(tick): +1 or −1, float64[size]; the same at every node."""
    words = bits(key_of(seed, tick), np.arange((size + 63) // 64))
    ones = np.unpackbits(words.view(np.uint8), count=size)
    return 1.0 - 2.0 * ones.astype(np.float64)
