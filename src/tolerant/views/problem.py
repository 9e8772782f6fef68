"""What is to be planned: arrivals, costs and the limit, checked and in the form that compiled code takes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tolerant.views.curves import Cost, Curves, Packed
from tolerant.views.runs import next_broken
from tolerant.views.sets import FARTHEST, MOST_TABLES

Actions = list[tuple[int, tuple[int, ...]]]
"""(tick, tables that are emptied then), ticks ascending, tables sorted."""


@dataclass(frozen=True)
class Problem:
    """Arrivals of a view's tables over ticks, and what they must keep to.

    Attributes:
        total: int64[ticks, tables], rows that have come up to and with a tick.
        look: the same with the rows that must be borne before one can act again (equal to `total` without lead).
        bound: the limit with room for rounding; infinite where recomputing keeps any limit.
        recompute: what clearing all tables at once costs; infinite where that is no choice.
    """

    curves: Curves
    total: NDArray[np.int64]
    look: NDArray[np.int64]
    bound: float
    recompute: float

    @property
    def packed(self) -> Packed:
        """The costs, for compiled code."""
        return self.curves.packed()

    @property
    def last(self) -> int:
        """The tick at which everything is pushed."""
        return len(self.total) - 1

    def next_broken(self, base: NDArray[np.int64], start: int) -> int:
        """The first tick ≥ `start` that breaks the limit, or the last, when `base` rows have been pushed."""
        return next_broken(self.look, base, self.packed, self.bound, start)

    def state(self, tick: int, base: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Pending rows before the action, and rows expected on top of them."""
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
) -> Problem:
    """The problem of keeping `limit` on these arrivals, int64[ticks ≥ 1, tables].

    With `foresight` the rows to be borne ahead are those that will come in the next `lead` ticks; without it they are
    `lead` times the most that came in one tick so far. A rule that `predicts` asks for costs of rows yet to come.
    """
    curves = costs if isinstance(costs, Curves) else Curves(costs)
    total = np.cumsum(arrivals, axis=0, dtype=np.int64)
    look = _ahead(total, arrivals, lead, foresight)
    bound, again = working_bound(limit, recompute)
    burst = arrivals.max(axis=0, initial=0)
    far = (look[-1] + FARTHEST * burst).tolist() if predicts else ()
    curves.cover(bound, look[-1].tolist(), ((1 + lead) * burst).tolist(), far)
    return Problem(curves, total, look, bound, again)


def working_bound(limit: float, recompute: float | None) -> tuple[float, float]:
    """What pending work is compared with, and the price of recomputing.

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
    """The tables of a set, sorted.

    >>> tables_of(0b101)
    (0, 2)
    """
    return tuple(i for i in range(int(mask).bit_length()) if mask >> i & 1)


def mask_of(tables: Sequence[int]) -> int:
    """The set of these tables."""
    return sum(1 << i for i in tables)


def checked_costs(costs: Sequence[Cost]) -> tuple[Cost, ...]:
    """The costs, one callable a table; refused where there are none or too many."""
    found = tuple(costs)
    if not 1 <= len(found) <= MOST_TABLES:
        raise ValueError(f"costs must be of 1 to {MOST_TABLES} tables, got {len(found)}")
    for table, cost in enumerate(found):
        if not callable(cost):
            raise ValueError(f"costs: table {table}: expected a callable from rows to a cost, got {cost!r}")
    return found


def checked_arrivals(arrivals: Any, tables: int, name: str = "arrivals") -> NDArray[np.int64]:
    """int64[ticks, tables]; refused where a count is negative or not whole, or the width is another."""
    found = np.asarray(arrivals)
    if found.size == 0 and (found.ndim == 1 or found.shape[1:] == (tables,)):
        return np.zeros((0, tables), np.int64)
    if found.ndim != 2 or found.shape[1] != tables:
        raise ValueError(f"{name} must have the shape [ticks, {tables}], a column for each cost, got {found.shape}")
    if not np.issubdtype(found.dtype, np.integer):
        raise ValueError(f"{name} must be whole numbers of rows (an integer array), got {found.dtype}")
    if found.min() < 0:
        tick, table = (int(where[0]) for where in np.nonzero(found < 0))
        raise ValueError(f"{name} must not be negative, got {found[tick, table]} at tick {tick}, table {table}")
    return np.ascontiguousarray(found, np.int64)


def checked_number(name: str, value: float) -> float:
    """A number ≥ 0, infinity allowed."""
    number = float(value)
    if not number >= 0:
        raise ValueError(f"{name} must be a number ≥ 0, got {value!r}")
    return number


def checked_count(name: str, value: int, least: int) -> int:
    """A whole number ≥ `least`."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < least:
        raise ValueError(f"{name} must be a whole number ≥ {least}, got {value!r}")
    return int(value)
