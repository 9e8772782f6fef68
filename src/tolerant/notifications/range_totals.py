"""Maintains COUNT, SUM and AVG over ranges: a change is sent as it is, and each range derives its effect (§2.9)."""

from __future__ import annotations

import math
from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any, NamedTuple, Self

import numpy as np

from tolerant.kernels.compiled import compiled
from tolerant.notifications.identifiers import Identifiers, id_array, listed
from tolerant.notifications.range_arguments import Floats, Integers, finite, floats, intervals, refuse


class Delta(NamedTuple):
    """A row before and after a change; None for an absent row.

    >>> Delta(3, 10, 7, 12).change(1, 5), Delta(3, 10, 7, 12).change(1, 8), Delta(3, 10, 7, 12).change(5, 8)
    ((-1, -10), (0, 2), (1, 12))
    """

    old_x: float | None
    old_y: float | None
    new_x: float | None
    new_y: float | None

    def change(self, x1: float, x2: float) -> tuple[int, float]:
        """Return what [x1, x2] adds to its count and sum; (0, 0) if it is not affected. Must be applied once only."""
        was = self.old_x is not None and x1 <= self.old_x <= x2
        is_ = self.new_x is not None and x1 <= self.new_x <= x2
        new, old = (self.new_y or 0 if is_ else 0), (self.old_y or 0 if was else 0)
        return is_ - was, new - old

    def affects(self, x1: float, x2: float) -> bool:
        """Return whether the count or the sum of [x1, x2] changes."""
        return self.change(x1, x2) != (0, 0)


@dataclass
class RunningTotal:
    """A subscriber's count and sum: one snapshot, then deltas. Compensated summation: what a float addition loses is
    kept.

    >>> total = RunningTotal(2, 10.0)
    >>> total.add(*Delta(None, None, 4, 5).change(1, 9))
    >>> total.count, total.sum, total.average
    (3, 15.0, 5.0)
    """

    count: int = 0
    total: float = 0.0
    lost: float = 0.0

    def add(self, count: int, total: float) -> None:
        """Add the result of `Delta.change`."""
        self.count += count
        self.total, self.lost = _two_sum(self.total, total, self.lost)
        if self.count == 0:
            self.total = self.lost = 0.0

    @property
    def sum(self) -> float:
        """Return the sum, with the compensation."""
        return self.total + self.lost

    @property
    def average(self) -> float | None:
        """Return sum / count; None without rows."""
        return self.sum / self.count if self.count else None


def _two_sum(a: float, b: float, lost: float) -> tuple[float, float]:
    """Return a + b, and `lost` plus the rounding error of that sum (Neumaier)."""
    total = a + b
    return total, lost + ((a - total) + b if abs(a) >= abs(b) else (b - total) + a)


class RangeTotals:
    """Rows whose count and sum are watched through ranges.

    Each change yields one `Delta` for all ranges, none if it changes neither x nor y. `totals` initialises a range.

    >>> stock = RangeTotals.of([1, 2], xs=[10, 20], ys=[3, 4])
    >>> stock.update(1, 15, 5)
    [Delta(old_x=10.0, old_y=3.0, new_x=15.0, new_y=5.0)]
    >>> stock.totals(0, 30)
    (2, 9.0)
    """

    def __init__(self) -> None:
        self._rows: dict[Hashable, tuple[float, float]] = {}
        self._sums: tuple[Floats, Floats, Floats, Floats] | None = None

    @classmethod
    def of(cls, ids: Any, xs: Any, ys: Any) -> Self:
        """Return a table with these rows; no messages are made."""
        table, known, names = cls(), Identifiers(), listed(ids)
        known.load(names)
        x, y = floats("xs", xs, len(names)), floats("ys", ys, len(names))
        refuse("xs", x, ~np.isfinite(x), "finite")
        refuse("ys", y, ~np.isfinite(y), "finite")
        table._rows = dict(zip(names, zip(x.tolist(), y.tolist(), strict=True), strict=True))
        return table

    def __len__(self) -> int:
        return len(self._rows)

    def __contains__(self, id: Hashable) -> bool:
        return id in self._rows

    def rows(self) -> tuple[Any, Floats, Floats]:
        """Return all rows: ids, xs, ys. `of` makes the same table of them."""
        both = np.array(list(self._rows.values()), np.float64).reshape(-1, 2)
        return id_array(self._rows), both[:, 0].copy(), both[:, 1].copy()

    def insert(self, id: Hashable, x: float, y: float) -> list[Delta]:
        """Add a row."""
        row = finite("x", x), finite("y", y)
        if id in self._rows:
            raise ValueError(f"id must be new, got {id!r}, which is there; update it instead?")
        return self._changed(id, (None, None), row)

    def delete(self, id: Hashable) -> list[Delta]:
        """Remove a row."""
        return self._changed(id, self._row(id), (None, None))

    def update(self, id: Hashable, x: float, y: float) -> list[Delta]:
        """Set a row's place, y, or both."""
        row = finite("x", x), finite("y", y)
        old = self._row(id)
        return [] if row == old else self._changed(id, old, row)

    def totals(self, x1: float, x2: float) -> tuple[int, float]:
        """Return count and sum of the rows in [x1, x2]; an end may be infinite."""
        counts, sums = self.totals_many([x1], [x2])
        return int(counts[0]), float(sums[0])

    def totals_many(self, x1s: Any, x2s: Any) -> tuple[Integers, Floats]:
        """Return `totals` of many ranges at once: O(log n) per range, and O(n log n) once after a change."""
        low, high = intervals(x1s, x2s)
        if self._sums is None:
            _, xs, ys = self.rows()
            order = np.argsort(xs, kind="stable")
            self._sums = (xs[order], ys[order], *_running(ys[order]))
        xs, ys, total, lost = self._sums
        begin, end = np.searchsorted(xs, low, "left"), np.searchsorted(xs, high, "right")
        with np.errstate(over="ignore", invalid="ignore"):
            sums = (total[end] - total[begin]) + (lost[end] - lost[begin])
        for at in np.flatnonzero(~np.isfinite(sums)).tolist():  # an intermediate sum overflows
            sums[at] = _exact(ys[begin[at] : end[at]])
        return (end - begin).astype(np.int64), sums

    def _row(self, id: Hashable) -> tuple[float, float]:
        if id not in self._rows:
            raise ValueError(f"id must be that of a row, got {id!r}; insert it first?")
        return self._rows[id]

    def _changed(
        self, id: Hashable, old: tuple[float | None, float | None], new: tuple[float | None, float | None]
    ) -> list[Delta]:
        if new[0] is None or new[1] is None:
            del self._rows[id]
        else:
            self._rows[id] = new[0], new[1]
        self._sums = None
        return [Delta(*old, *new)]


@compiled
def _running(ys: Floats) -> tuple[Floats, Floats]:
    """Return running sums in two floats each, so that differences of large sums are as exact as direct sums."""
    total, lost = np.zeros(len(ys) + 1), np.zeros(len(ys) + 1)
    for i in range(len(ys)):
        sum_ = total[i] + ys[i]
        part = sum_ - total[i]
        error = (total[i] - (sum_ - part)) + (ys[i] - part)
        total[i + 1], lost[i + 1] = sum_, lost[i] + error
    return total, lost


def _exact(ys: Floats) -> float:
    try:
        return math.fsum(ys)
    except OverflowError:
        with np.errstate(over="ignore"):
            return float(np.sum(ys))
