"""Computes the subadditive closure of a cost: the cost of a batch that may be pushed in pieces (`docs/design/views.md`
§2.7).

f*(n) = min(f(n), min_{b<n} f*(b) + f*(n−b)) is tabulated only as far as sizes are needed. Every size up to `DENSE`
is evaluated; beyond, sizes a 1024th apart, with straight lines between them. Pieces of up to `PIECE` rows are tried
(so up to twice that the closure is exact), and beyond the dense part those that end where a size was evaluated.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

DENSE = 32_768
PIECE = 4_096
_APART, _FAR_APART = 1_024, 64
_ROUNDING = 1e-9


class Closure:
    """f* of a cost function, which is checked when it is evaluated: finite, not negative, 0 for 0 rows, never falling.

    `name` begins the message of a `ValueError`. `splits`: whether some evaluated batch is cheaper in pieces;
    sizes 1 … `dense` are evaluated one by one.

    >>> square = Closure(lambda rows: rows * rows, "example")
    >>> square.at(5), square.splits
    (5.0, True)
    """

    def __init__(self, cost: Callable[[int], float], name: str) -> None:
        self._cost, self._name = cost, name
        self._sizes = np.zeros(64, np.int64)
        self._values = np.zeros(64)
        self._count = 0
        self.dense = 0
        self._raw = 0.0
        self._least = math.inf  # cost per row of the cheapest size so far
        self.splits = False
        if self._evaluated(0) != 0.0:
            raise ValueError(f"{name} at 0 rows: expected a cost of 0, got {self._evaluated(0)!r}")

    @property
    def top(self) -> int:
        """Return the largest size evaluated so far."""
        return int(self._sizes[self._count - 1]) if self._count else 0

    @property
    def last(self) -> float:
        """Return f* of that size."""
        return float(self._values[self._count - 1]) if self._count else 0.0

    @property
    def sizes(self) -> NDArray[np.int64]:
        """Return the sizes evaluated so far, ascending, from 1."""
        return self._sizes[: self._count]

    @property
    def values(self) -> NDArray[np.float64]:
        """Return f* at `sizes`."""
        return self._values[: self._count]

    def cover(self, size: int) -> None:
        """Evaluate up to `size` rows at least."""
        while self.top < size or self.dense < min(size, DENSE):
            self.extend()

    def at(self, size: int) -> float:
        """Return f* of `size` rows."""
        self.cover(size)
        if size <= 0:
            return 0.0
        if size <= self.dense:
            return float(self._values[size - 1])
        return float(np.interp(size, self.sizes, self.values))

    def extend(self) -> None:
        """Evaluate the next size."""
        if self.dense < min(self.top, DENSE):  # sizes that were only sampled are evaluated now
            self._count = self.dense
            self._raw = self.last
        self._evaluate(self.top + max(1, self.top // _APART if self.top >= DENSE else 1))

    def sample(self) -> None:
        """Evaluate a size well beyond, for predictions that need only a rough value there."""
        self._evaluate(self.top + max(1, self.top // _FAR_APART))

    def _evaluate(self, size: int) -> None:
        raw = self._evaluated(size)
        if raw < self._raw * (1 - _ROUNDING):
            raise ValueError(
                f"{self._name} at {size} rows: expected a cost that does not fall as rows are added, "
                f"got {raw!r} after {self._raw!r} for {self.top} rows"
            )
        self._raw = max(raw, self._raw)
        self._append(size, self._in_pieces(size, self._raw))

    def _in_pieces(self, size: int, value: float) -> float:
        # Where no smaller batch is cheaper per row, no split is cheaper.
        if value <= self._least * size:
            return value
        first = min(size // 2, PIECE)
        if size == self.dense + 1:
            best = float(np.min(self._values[:first] + self._values[size - 1 - first : size - 1][::-1]))
        else:
            pieces = np.concatenate([self.sizes[: min(self.dense, PIECE)], self.sizes[self.dense :]])
            pieces = pieces[pieces >= size - self.top]  # the remainder is known too
            best = float(np.min(self._between(pieces) + self._between(size - pieces)))
        if best < value * (1 - _ROUNDING):
            self.splits = True
            return best
        return value

    def _between(self, sizes: NDArray[np.int64]) -> NDArray[np.float64]:
        return np.interp(sizes, self.sizes, self.values)

    def _append(self, size: int, value: float) -> None:
        if self._count == len(self._sizes):
            self._sizes = np.concatenate([self._sizes, np.zeros_like(self._sizes)])
            self._values = np.concatenate([self._values, np.zeros_like(self._values)])
        self._sizes[self._count], self._values[self._count] = size, value
        self._count += 1
        self.dense += size == self.dense + 1 <= DENSE
        self._least = min(self._least, value / size)

    def _evaluated(self, size: int) -> float:
        value = float(self._cost(size))
        if not (math.isfinite(value) and value >= 0):
            raise ValueError(f"{self._name} at {size} rows: expected a finite cost ≥ 0, got {value!r}")
        return value
