"""Schedules live: counts changes as they arrive and returns the tables to push now."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tolerant.views.cost_curves import Cost, Curves
from tolerant.views.estimated_plan import cycle_of, follow
from tolerant.views.forecast_plan import WINDOW, first_action
from tolerant.views.measured import Measured
from tolerant.views.schedule import ScheduleOptions, estimate_of
from tolerant.views.schedule_problem import (
    checked_arrivals,
    checked_costs,
    checked_count,
    checked_number,
    tables_of,
    working_bound,
)
from tolerant.views.table_sets import FARTHEST, HISTORY, NAIVE, PER_TICK, choose, everything, left_over, price_of

_RULES = {"naive": NAIVE, "online": HISTORY, "per-tick": PER_TICK}
_METHODS = (*_RULES, "estimated", "forecast")
_MOST_EXCESS = 10.0
_FADING, _MEMORY = 0.9, 0.05
_REHEARSED_FADING, _REHEARSED_MEMORY = 0.5, 0.25
"""How much of the slowness is kept, and what the newest deviation weighs, after a push and after a rehearsed one, which
is made to find out whether a table that was slow still is.
"""
_SURE = 2.33 * math.sqrt(math.pi / 2)
"""Mean absolute deviations that cover 99 of 100 pushes, if the logarithms of actual over predicted time are normal.
With squares, one slow push in a hundred would dominate all others.
"""


class Scheduler:
    """Decides which of a view's tables to push, tick by tick, so that pending work stays within `limit`.

    Deterministic: the same calls in the same order return the same answers. The arguments are those of `schedule`;
    "optimal" is not available, because it needs future arrivals. `margin`: the largest share of the limit that pending
    work may fill. `spread`: the initial deviation of each table's pushes from their prediction. Returned tables count
    as pushed: a caller that cannot push them must load an older `state`. `limit` may be set at any time, and so may
    `least`, below which the working limit is not lowered, however long pushes take.

    >>> from tolerant.views import Linear
    >>> live = Scheduler([Linear(1.0), Linear(0.5, 4.0)], limit=8)
    >>> [live.arrive([1, 1]) for _ in range(5)]
    [(), (), (0,), (), (0,)]
    >>> live.work, live.refresh(), live.work
    (6.5, (1,), 0.0)
    """

    def __init__(  # noqa: PLR0913
        self,
        costs: Sequence[Cost],
        limit: float,
        method: str = "forecast",
        *,
        estimate: Any = None,
        recompute: float | None = None,
        lead: int = 0,
        window: int = WINDOW,
        memory: int | None = None,
        learn: float = 0.2,
        margin: float = 1.0,
        spread: Sequence[float] | None = None,
    ) -> None:
        self._costs = list(checked_costs(costs))
        self.limit = checked_number("limit", limit)
        self.least = 0.0
        if method not in _METHODS:
            raise ValueError(f"method must be one of {', '.join(map(repr, _METHODS))}, got {method!r}")
        if not 0 <= learn <= 1:
            raise ValueError(f"learn must be in [0, 1], got {learn!r}")
        if not 0 < margin <= 1:
            raise ValueError(f"margin must be above 0 and at most 1, got {margin!r}")
        self.margin = margin
        self._options = ScheduleOptions(estimate, recompute, lead, window, memory)
        self._method, self._learn = method, learn
        self._curves = Curves(self._costs)
        n = len(self._costs)
        self.pending = np.zeros(n, np.int64)
        self._arrived, self._peak = np.zeros(n, np.int64), np.zeros(n, np.int64)
        self._rate, self._excess = np.zeros(n), np.ones(n)
        self._spread = np.zeros(n) if spread is None else np.array(spread, np.float64)
        if self._spread.shape != (n,) or not (np.isfinite(self._spread).all() and (self._spread >= 0).all()):
            raise ValueError(f"spread must be {n} finite numbers ≥ 0, got {spread!r}")
        self._before = np.ones((n, 2))  # actual over predicted time of the last two pushes of each table
        self._ticks, self._turn, self._spent = 0, 0, 0.0
        self._cycle: list[int] = []
        if method == "estimated":
            expected = estimate_of(estimate, n)
            self._cycle = cycle_of(self._curves, expected, self.limit, recompute=recompute, lead=lead)

    @property
    def costs(self) -> tuple[Cost, ...]:
        """Return the present cost estimates."""
        return tuple(self._costs)

    @property
    def working_limit(self) -> float:
        """Return the working limit: the share `margin` of the promised limit, less where 99 of 100 pushes, by their
        spread about predictions, would exceed it, and less for a while after a slow push.
        """
        sure = np.exp(_SURE * self._spread)
        limit = self.limit / min(_MOST_EXCESS, max(1 / self.margin, float(np.maximum(self._excess, sure).max())))
        return max(self.least, limit)

    @property
    def slowness(self) -> NDArray[np.float64]:
        """Return the present ratio of actual to predicted time of each table's pushes: from their mean deviation, and
        for a while after slow pushes.
        """
        return np.maximum(self._excess, np.exp(self._spread))

    @property
    def work(self) -> float:
        """Return the predicted cost of refreshing the view now."""
        self._cover(0)
        return self._priced(int(everything(self.pending)))

    def arrive(self, counts: Sequence[int] | NDArray[np.int64]) -> tuple[int, ...]:
        """Return the tables to push now, with all their changes, after a tick that brought so many changes of each."""
        rows = checked_arrivals(np.asarray(counts)[None], len(self._costs), "counts")[0]
        self._ticks += 1
        self.pending = self.pending + rows
        self._arrived += rows
        np.maximum(self._peak, rows, out=self._peak)
        self._rate += (rows - self._rate) / min(self._ticks, self._options.memory or self._ticks)
        bound, again = working_bound(self.working_limit, self._options.recompute)
        extra = self._options.lead * self._peak
        self._cover(0)
        if left_over(self._curves.packed(), self.pending, extra, 0) <= bound:
            return ()
        self._cover(FARTHEST)
        return self._empty(*self._chosen(extra, bound, again))

    def refresh(self) -> tuple[int, ...]:
        """Return the tables to push to refresh the view on request."""
        self._cover(0)
        mask = int(everything(self.pending))
        return self._empty(mask, self._priced(mask))

    def pushed(self, table: int, rows: int, seconds: float, *, rehearsed: bool = False) -> None:
        """Learn from a push that was made: `rows` changes of a table took `seconds`.

        A `Measured` cost is refitted, the newest timing weighing `learn`. Pushes that take longer than predicted lower
        the working limit by as much, and pushes that spread about their predictions lower it by that spread; those
        that match the prediction raise it again. The median of the last three pushes counts: a single slow push, caused
        by other load of the machine, affects the spread only.

        `rehearsed`: the push was only made to see how slow the table is now. It may raise the slowness, and lowers
        costs and spread but raises neither.
        """
        if not 0 <= checked_count("table", table, 0) < len(self._costs):
            raise ValueError(f"table must be one of 0 … {len(self._costs) - 1}, got {table}")
        size, took = checked_count("rows", rows, 1), checked_number("seconds", seconds)
        cost = self._costs[table]
        expected = float(cost(size))
        over = took / expected if expected > 0 else (1.0 if took == 0 else _MOST_EXCESS)
        over = min(_MOST_EXCESS, max(over, 1 / _MOST_EXCESS))
        believed = float(np.median([over, *self._before[table]]))
        self._before[table] = self._before[table, 1], over
        fading, memory = (_REHEARSED_FADING, _REHEARSED_MEMORY) if rehearsed else (_FADING, _MEMORY)
        faded = 1 + fading * (self._excess[table] - 1)
        self._excess[table] = max(1.0, believed, faded)
        # Only logarithms above 0, doubled: a push that finishes early makes no refresh late.
        deviation = 0.0 if rehearsed else 2 * math.log(max(1.0, over))
        self._spread[table] += memory * (deviation - self._spread[table])
        if isinstance(cost, Measured) and self._learn > 0 and not (rehearsed and believed > 1):
            self._costs[table] = cost.learned(size, believed * expected if expected > 0 else took, self._learn)
            self._curves = Curves(self._costs)

    def _chosen(self, extra: NDArray[np.int64], bound: float, again: float) -> tuple[int, float]:
        packed = self._curves.packed()
        rates = self._arrived / self._ticks if self._options.memory is None else self._rate
        if self._method == "forecast":
            return first_action(self._curves, self.pending, extra, rates, bound, again, self._options.window)
        if self._method == "estimated":
            planned = self._cycle[self._turn % len(self._cycle)] if self._cycle else 0
            self._turn += 1
            return follow(packed, self.pending, extra, planned, bound, again)
        rule = _RULES[self._method]
        return choose(packed, self.pending, extra, rates, self._ticks - 1, self._spent, bound, again, rule)

    def _empty(self, mask: int, price: float) -> tuple[int, ...]:
        tables = tables_of(mask)
        self.pending[list(tables)] = 0
        self._spent += price
        return tables

    def _priced(self, mask: int) -> float:
        again = self._options.recompute
        price = float(price_of(self._curves.packed(), self.pending, mask))
        return price if again is None else min(price, again)

    def _cover(self, ticks: int) -> None:
        """Evaluate the costs of pending rows, and of those that may be pending in so many ticks."""
        lead = self._options.lead
        bound, _ = working_bound(self.working_limit, self._options.recompute)
        reach, burst = self.pending + lead * self._peak, (1 + lead) * self._peak + self.pending
        far = (reach + ticks * self._peak).tolist() if ticks else ()
        self._curves.cover(bound, reach.tolist(), burst.tolist(), far)

    # -- state -----------------------------------------------------------------------------------------------------

    def state(self) -> tuple[dict[str, NDArray[Any]], Any]:
        """Return the whole state as arrays and plain values, for `tolerant.kernels.snapshots.pack`."""
        arrays: dict[str, NDArray[Any]] = {
            "pending": self.pending,
            "arrived": self._arrived,
            "peak": self._peak,
            "rate": self._rate,
            "excess": self._excess,
            "spread": self._spread,
            "before": self._before,
        }
        arrays = {name: array.copy() for name, array in arrays.items()}
        for table, cost in enumerate(self._costs):
            if isinstance(cost, Measured):
                arrays[f"sizes.{table}"], arrays[f"seconds.{table}"] = cost.knots
        return arrays, [self._ticks, self._turn, self._spent]

    def load(self, arrays: Mapping[str, NDArray[Any]], values: Any) -> None:
        """Restore `state` to the bit; with the same constructor arguments, the same answers follow."""
        self.pending, self._arrived, self._peak = (arrays[name].copy() for name in ("pending", "arrived", "peak"))
        self._rate, self._excess, self._spread = (arrays[name].copy() for name in ("rate", "excess", "spread"))
        self._before = arrays["before"].copy()
        self._ticks, self._turn, self._spent = values
        for table, cost in enumerate(self._costs):
            if isinstance(cost, Measured):
                self._costs[table] = Measured(arrays[f"sizes.{table}"], arrays[f"seconds.{table}"])
        self._curves = Curves(self._costs)
