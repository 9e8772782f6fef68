"""Represents cost functions as arrays for compiled code: piecewise linear between knots, a line beyond the last."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tolerant.kernels.compiled import compiled_no_refcount
from tolerant.views.linear import Linear
from tolerant.views.measured import Measured
from tolerant.views.subadditive_closure import Closure

Cost = Callable[[int], float]
"""Maps the rows of one batch to the cost of pushing them."""


_CLOSELY = 4_096
"""Number of rows up to which predictions use exact costs, whatever has been seen."""


class PackedCurves(NamedTuple):
    """The costs of n tables. Beyond the last knot a table costs slope·rows + setup; an infinite setup means
    "above the limit", by an unspecified amount.
    """

    start: NDArray[np.int64]  # [n + 1] where a table's knots begin
    dense: NDArray[np.int64]  # [n] the first so many knots are at 1, 2, 3, … rows
    sizes: NDArray[np.int64]
    values: NDArray[np.float64]
    slope: NDArray[np.float64]  # [n]
    setup: NDArray[np.float64]  # [n]


@compiled_no_refcount
def cost_of(curves: PackedCurves, table: int, rows: int) -> float:
    """Return the cost of one batch of `rows` changes of a table."""
    if rows <= 0:
        return 0.0
    first, last = curves.start[table], curves.start[table + 1]
    if rows <= curves.dense[table]:
        return curves.values[first + rows - 1]
    if first == last or rows > curves.sizes[last - 1]:
        return curves.slope[table] * rows + curves.setup[table]
    low, high = first, last - 1
    while low < high:
        middle = (low + high) // 2
        if curves.sizes[middle] < rows:
            low = middle + 1
        else:
            high = middle
    if low == first:
        return curves.values[first]  # no batch is assumed cheaper than the smallest that was timed
    left, right = curves.sizes[low - 1], curves.sizes[low]
    share = (rows - left) / (right - left)
    return curves.values[low - 1] + share * (curves.values[low] - curves.values[low - 1])


class Curves:
    """The costs of a view's tables, evaluated as far as they have been needed.

    `Linear` and most `Measured` costs are used as formulas; any other callable is tabulated and checked.
    """

    def __init__(self, costs: Sequence[Cost]) -> None:
        self.costs = tuple(costs)
        self._closures = {
            table: Closure(cost, f"costs: table {table}")
            for table, cost in enumerate(self.costs)
            if not _is_formula(cost)
        }
        self._warned = False
        self._packed: PackedCurves | None = None

    def __len__(self) -> int:
        return len(self.costs)

    @property
    def are_linear(self) -> bool:
        """Return whether every cost is a setup plus a constant per row."""
        return all(isinstance(cost, Linear) for cost in self.costs)

    def cover(self, bound: float, reach: Sequence[int], burst: Sequence[int], far: Sequence[int] = ()) -> None:
        """Evaluate each table up to its `reach` in rows; or, where a size costs more than `bound` before that, up to
        the first such size plus `burst`. Larger sizes count as above the bound. Up to `far` costs are sampled.
        """
        for table, closure in self._closures.items():
            before = closure.top
            while closure.last <= bound and closure.top < reach[table]:
                closure.extend()
            beyond = int(np.searchsorted(closure.values, bound, "right"))
            if beyond < len(closure.sizes):
                closure.cover(min(reach[table], int(closure.sizes[beyond]) + burst[table]))
            while far and closure.last <= bound and closure.top < far[table]:
                if closure.top < _CLOSELY:
                    closure.extend()
                else:
                    closure.sample()
            if closure.top != before:
                self._packed = None
        self._warn()

    def packed(self) -> PackedCurves:
        """Return the costs as arrays for compiled code."""
        if self._packed is None:
            knots = [self._knots(table) for table in range(len(self.costs))]
            self._packed = PackedCurves(
                np.cumsum([0, *(len(part[0]) for part in knots)], dtype=np.int64),
                np.array([part[2] for part in knots], np.int64),
                np.concatenate([part[0] for part in knots]),
                np.concatenate([part[1] for part in knots]),
                np.array([part[3] for part in knots], np.float64),
                np.array([part[4] for part in knots], np.float64),
            )
        return self._packed

    def _knots(self, table: int) -> tuple[NDArray[np.int64], NDArray[np.float64], int, float, float]:
        cost = self.costs[table]
        if isinstance(cost, Linear):
            return np.zeros(0, np.int64), np.zeros(0), 0, cost.slope, cost.setup
        if table not in self._closures:
            assert isinstance(cost, Measured)
            return *cost.knots, 0, cost.slope, cost.tail
        closure = self._closures[table]
        return closure.sizes, closure.values, closure.dense, 0.0, math.inf

    def _warn(self) -> None:
        split = [table for table, closure in self._closures.items() if closure.splits]
        if split and not self._warned:
            self._warned = True
            warnings.warn(
                f"costs: of table {', '.join(map(str, split))} a batch costs more than its parts (not subadditive); "
                "batches are taken to be pushed in the cheapest pieces",
                stacklevel=4,
            )


def _is_formula(cost: Cost) -> bool:
    return isinstance(cost, Linear) or (isinstance(cost, Measured) and cost.is_subadditive)
