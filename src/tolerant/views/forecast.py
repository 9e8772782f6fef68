"""`method="forecast"`: when forced, plan the near future as predicted, take the first step (`specs/7-views.md` §5)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tolerant.views.curves import Curves
from tolerant.views.optimal import best_plan
from tolerant.views.problem import Actions, Problem, mask_of, tables_of
from tolerant.views.sets import everything, minimal_sets, peace, price_of

WINDOW = 100
"""Steps that a forecast looks ahead."""

_BUDGET = 20_000
_STEPS_TO_FULL = 24
"""A step is so many ticks that the limit breaks about so many steps from empty: the window sees several rounds."""


def first_action(
    curves: Curves,
    counts: NDArray[np.int64],
    extra: NDArray[np.int64],
    rates: NDArray[np.float64],
    bound: float,
    recompute: float,
    window: int = WINDOW,
) -> tuple[int, float]:
    """The set to empty now, when `counts` rows are pending and `rates` rows a tick are expected; and its price."""
    packed = curves.packed()
    masks, prices, sets = minimal_sets(packed, counts, extra, bound, recompute)
    if sets < 2:
        return (int(masks[0]), float(prices[0])) if sets else (0, 0.0)
    empty = np.zeros(len(counts), np.int64)
    stride = max(1, round(peace(packed, empty, extra, rates, bound) / _STEPS_TO_FULL))
    total = counts + np.floor(np.outer(np.arange(window + 1) * stride, rates) + 1e-9).astype(np.int64)
    burst = np.maximum(counts, np.diff(total, axis=0).max(axis=0))
    curves.cover(bound, (total[-1] + extra).tolist(), (burst + extra).tolist())
    problem = Problem(curves, total, total + extra, bound, recompute)
    tick, tables = best_plan(problem, _BUDGET).actions[0]
    assert tick == 0, "the limit is broken now"
    which = int(np.flatnonzero(masks[:sets] == mask_of(tables))[0])
    return int(masks[which]), float(prices[which])


def foresee(problem: Problem, rates: NDArray[np.float64], window: int = WINDOW) -> tuple[Actions, float]:
    """Actions and cost over recorded arrivals; `rates` float64[ticks, tables] are what is expected at each tick."""
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
