"""Implements `method="forecast"`: when an action is due, plans predicted arrivals and takes the first step.

See `docs/design/views.md` §5.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tolerant.views.cost_curves import Curves
from tolerant.views.optimal_plan import best_plan
from tolerant.views.schedule_problem import Actions, ScheduleProblem, mask_of, tables_of
from tolerant.views.table_sets import everything, minimal_sets, price_of, ticks_until_broken

WINDOW = 100
"""Steps that a forecast looks ahead."""

_BUDGET = 20_000
_STEPS_TO_FULL = 24
"""Steps after which the limit breaks from empty tables; it sets the ticks per step, so that a window sees several."""


def first_action(
    curves: Curves,
    counts: NDArray[np.int64],
    extra: NDArray[np.int64],
    rates: NDArray[np.float64],
    bound: float,
    recompute: float,
    window: int = WINDOW,
) -> tuple[int, float]:
    """Return the set to empty now, when `counts` rows are pending and `rates` rows per tick are expected; and its
    price.
    """
    packed = curves.packed()
    masks, prices, sets = minimal_sets(packed, counts, extra, bound, recompute)
    if sets < 2:
        return (int(masks[0]), float(prices[0])) if sets else (0, 0.0)
    empty = np.zeros(len(counts), np.int64)
    stride = max(1, round(ticks_until_broken(packed, empty, extra, rates, bound) / _STEPS_TO_FULL))
    total = counts + np.floor(np.outer(np.arange(window + 1) * stride, rates) + 1e-9).astype(np.int64)
    burst = np.maximum(counts, np.diff(total, axis=0).max(axis=0))
    curves.cover(bound, (total[-1] + extra).tolist(), (burst + extra).tolist())
    problem = ScheduleProblem(curves, total, total + extra, bound, recompute)
    tick, tables = best_plan(problem, _BUDGET).actions[0]
    assert tick == 0, "the limit is broken now"
    which = int(np.flatnonzero(masks[:sets] == mask_of(tables))[0])
    return int(masks[which]), float(prices[which])


def plan_by_forecast(
    problem: ScheduleProblem, rates: NDArray[np.float64], window: int = WINDOW
) -> tuple[Actions, float]:
    """Return actions and cost over recorded arrivals; `rates` float64[ticks, tables] are the expected rows per tick."""
    actions: Actions = []
    base, tick, cost = np.zeros(len(problem.curves), np.int64), -1, 0.0
    while True:
        tick = problem.next_broken(base, tick + 1)
        counts, extra = problem.state(tick, base)
        if tick == problem.last:
            mask = int(everything(counts))
            price = min(float(price_of(problem.packed, counts, mask)), problem.recompute)
        else:
            mask, price = first_action(
                problem.curves, counts, extra, rates[tick], problem.bound, problem.recompute, window
            )
        tables = list(tables_of(mask))
        if tables:
            actions.append((tick, tuple(tables)))
            cost += price
        if tick == problem.last:
            return actions, cost
        base[tables] = problem.total[tick, tables]
