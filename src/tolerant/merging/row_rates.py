"""Counts rows per period and cell as they arrive, for sizes that follow the data."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from tolerant.kernels.array_types import Floats
from tolerant.kernels.snapshots import Fields, Restorable
from tolerant.merging.sizes import RowCounts

_CELLS = {1: 1024, 2: 64}
"""Cells per axis, by the number of axes."""

_NEWEST = 0.1
"""The weight of the newest period in the mean, after the first ten."""

_NARROWEST = 1e-12


class RowRates(Restorable):
    """The mean number of rows per period in each cell: over the first ten periods or so all weigh the same, later a
    period that is ten periods old weighs a third.

    The frame doubles towards a row outside it, and pairs of cells are joined then; so the location of rows need not be
    known in advance. `rows`: the number of rows counted.

    >>> rates = RowRates(2)
    >>> rates.add([[1, 1], [2, 2], [9, 9]])
    >>> rates.on_period_end()
    >>> rates.size()(np.array([[0.0, 0.0, 5.0, 5.0]])).round().tolist()
    [2.0]
    """

    FIELDS = Fields("_new", "_mean", "_low", "_width", "_periods", "rows")

    def __init__(self, dimensions: int) -> None:
        if dimensions not in _CELLS:
            raise ValueError(f"dimensions must be one or two, got {dimensions}")
        self._cells = _CELLS[dimensions]
        shape = (self._cells,) * dimensions
        self._new, self._mean = np.zeros(shape), np.zeros(shape)  # of this period, and of those before
        self._low, self._width = np.zeros(dimensions), np.zeros(dimensions)  # width 0: no rows yet
        self._periods = 0
        self.rows = 0

    def add(self, points: ArrayLike) -> None:
        """Count rows at these points, float[m, d], all finite."""
        given = np.asarray(points, np.float64)
        if not len(given):
            return
        self._frame(given.min(axis=0), given.max(axis=0))
        places = ((given - self._low) / self._width * self._cells).astype(np.int64)
        places = np.clip(places, 0, self._cells - 1)
        flat = np.ravel_multi_index(tuple(places.T), self._new.shape)
        self._new += np.bincount(flat, minlength=self._new.size).reshape(self._new.shape)
        self.rows += len(given)

    def on_period_end(self, periods: int = 1) -> None:
        """End this many periods: the rows counted since the last call are of all of them."""
        before, self._periods = self._periods, self._periods + periods
        # At first a mean over all periods, each of the same weight.
        kept = (1.0 - _NEWEST) ** periods if before >= 1.0 / _NEWEST else before / self._periods
        self._mean = kept * self._mean + (1.0 - kept) / periods * self._new
        self._new = np.zeros_like(self._new)

    def size(self) -> RowCounts | None:
        """Return the size that counts rows per period; None before the first period has ended."""
        if not self._width.all() or not self._periods:
            return None
        return RowCounts(self._mean, self._low, self._low + self._width)

    def _frame(self, low: Floats, high: Floats) -> None:
        """Extend the frame to contain everything from `low` to `high`."""
        if not self._width.all():
            widest = np.maximum(np.abs(low), np.abs(high))
            self._low = low.copy()
            self._width = np.maximum(np.where(high > low, high - low, 1.0), np.maximum(1e-9 * widest, _NARROWEST))
            return
        for axis in range(len(low)):
            while low[axis] < self._low[axis]:
                self._low[axis] -= self._width[axis]
                self._widen(axis, behind=True)
            while high[axis] > self._low[axis] + self._width[axis]:
                self._widen(axis, behind=False)

    def _widen(self, axis: int, behind: bool) -> None:
        self._width[axis] *= 2
        self._new, self._mean = (_halved(table, axis, behind) for table in (self._new, self._mean))


def _halved(table: Floats, axis: int, behind: bool) -> Floats:
    """Join pairs of cells along an axis; they become the half behind or in front of the table."""
    moved = np.moveaxis(table, axis, 0)
    joined = moved[0::2] + moved[1::2]
    empty = np.zeros_like(joined)
    return np.moveaxis(np.concatenate([empty, joined] if behind else [joined, empty]), 0, axis)
