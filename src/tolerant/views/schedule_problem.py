"""Defines a scheduling problem: arrivals, costs and the limit, checked and as arrays for compiled code."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tolerant.views.cost_curves import Cost, Curves, PackedCurves
from tolerant.views.rule_plan import next_broken
from tolerant.views.table_sets import FARTHEST, MOST_TABLES

Actions = list[tuple[int, tuple[int, ...]]]
"""(tick, tables that are emptied then), ticks ascending, tables sorted."""


@dataclass(frozen=True)
class ScheduleProblem:
    """Arrivals of a view's tables over ticks, with costs and limit.

    Attributes:
        total: int64[ticks, tables], rows that have arrived up to and including a tick.
        look: `total` plus the rows that arrive before the next possible action (equal to `total` without lead).
        bound: the limit plus rounding slack; infinite where recomputing keeps any limit.
        recompute: cost of clearing all tables at once; infinite where that is not allowed.
    """

    curves: Curves
    total: NDArray[np.int64]
    look: NDArray[np.int64]
    bound: float
    recompute: float

    @property
    def packed(self) -> PackedCurves:
        """Return the costs, for compiled code."""
        return self.curves.packed()

    @property
    def last(self) -> int:
        """Return the tick at which everything is pushed."""
        return len(self.total) - 1

    def next_broken(self, base: NDArray[np.int64], start: int) -> int:
        """Return the first tick ≥ `start` that breaks the limit, or the last, when `base` rows have been pushed."""
        return next_broken(self.look, base, self.packed, self.bound, start)

    def state(self, tick: int, base: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return pending rows before the action, and rows expected on top of them."""
        return self.total[tick] - base, self.look[tick] - self.total[tick]


def posed(
    costs: Sequence[Cost] | Curves,
    arrivals: NDArray[np.int64],
    limit: float,
    *,
    recompute: float | None = None,
    lead: int = 0,
    foresight: bool = False,
    predicts: bool = False,
) -> ScheduleProblem:
    """Return the problem of keeping `limit` on these arrivals, int64[ticks ≥ 1, tables].

    With `foresight` the rows expected ahead are those of the next `lead` ticks; without it they are `lead` times the
    most that arrived in one tick so far. A rule that `predicts` needs costs of future rows.
    """
    curves = costs if isinstance(costs, Curves) else Curves(costs)
    total = np.cumsum(arrivals, axis=0, dtype=np.int64)
    look = _ahead(total, arrivals, lead, foresight)
    bound, again = working_bound(limit, recompute)
    burst = arrivals.max(axis=0, initial=0)
    far = (look[-1] + FARTHEST * burst).tolist() if predicts else ()
    curves.cover(bound, look[-1].tolist(), ((1 + lead) * burst).tolist(), far)
    return ScheduleProblem(curves, total, look, bound, again)


def working_bound(limit: float, recompute: float | None) -> tuple[float, float]:
    """Return the bound on pending work, and the price of recomputing.

    Pending work never takes longer than recomputing, so a limit that recomputing keeps is never broken.
    """
    bound = limit + 1e-9 * max(1.0, limit)
    again = math.inf if recompute is None else recompute
    return (math.inf if again <= bound else bound), again


def _ahead(total: NDArray[np.int64], arrivals: NDArray[np.int64], lead: int, foresight: bool) -> NDArray[np.int64]:
    if lead == 0:
        return total
    if foresight:
        return np.ascontiguousarray(total[np.minimum(np.arange(len(total)) + lead, len(total) - 1)])
    return total + lead * np.maximum.accumulate(arrivals, axis=0)


def tables_of(mask: int) -> tuple[int, ...]:
    """Return the tables of a set, sorted.

    >>> tables_of(0b101)
    (0, 2)
    """
    return tuple(i for i in range(int(mask).bit_length()) if mask >> i & 1)


def mask_of(tables: Sequence[int]) -> int:
    """Return the set of these tables."""
    return sum(1 << i for i in tables)


def checked_costs(costs: Sequence[Cost]) -> tuple[Cost, ...]:
    """Return the costs, one callable per table; refused if there are none or too many."""
    functions = tuple(costs)
    if not 1 <= len(functions) <= MOST_TABLES:
        raise ValueError(f"costs must be of 1 to {MOST_TABLES} tables, got {len(functions)}")
    for table, cost in enumerate(functions):
        if not callable(cost):
            raise ValueError(f"costs: table {table}: expected a callable from rows to a cost, got {cost!r}")
    return functions


def checked_arrivals(arrivals: Any, tables: int, name: str = "arrivals") -> NDArray[np.int64]:
    """Return int64[ticks, tables]; refused if a count is negative or not whole, or the width is wrong."""
    rows = np.asarray(arrivals)
    if rows.size == 0 and (rows.ndim == 1 or rows.shape[1:] == (tables,)):
        return np.zeros((0, tables), np.int64)
    if rows.ndim != 2 or rows.shape[1] != tables:
        raise ValueError(f"{name} must have the shape [ticks, {tables}], a column for each cost, got {rows.shape}")
    if not np.issubdtype(rows.dtype, np.integer):
        raise ValueError(f"{name} must be whole numbers of rows (an integer array), got {rows.dtype}")
    if rows.min() < 0:
        tick, table = (int(where[0]) for where in np.nonzero(rows < 0))
        raise ValueError(f"{name} must not be negative, got {rows[tick, table]} at tick {tick}, table {table}")
    return np.ascontiguousarray(rows, np.int64)


def checked_number(name: str, value: float) -> float:
    """Return a number ≥ 0, infinity allowed."""
    number = float(value)
    if not number >= 0:
        raise ValueError(f"{name} must be a number ≥ 0, got {value!r}")
    return number


def checked_count(name: str, value: int, least: int) -> int:
    """Return a whole number ≥ `least`."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < least:
        raise ValueError(f"{name} must be a whole number ≥ {least}, got {value!r}")
    return int(value)
