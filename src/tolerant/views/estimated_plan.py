"""Implements `method="estimated"`: follows a plan made for estimated arrivals lazily and in order
(`docs/design/views.md` §2.6).
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import count

import numpy as np
from numpy.typing import NDArray

from tolerant.views.cost_curves import Curves, PackedCurves
from tolerant.views.optimal_plan import BUDGET, best_plan
from tolerant.views.schedule_problem import Actions, ScheduleProblem, mask_of, posed, tables_of
from tolerant.views.table_sets import CHEAPEST, choose, everything, left_over, price_of


def cycle_of(
    curves: Curves,
    estimate: NDArray[np.int64],
    limit: float,
    *,
    recompute: float | None = None,
    lead: int = 0,
    budget: int = BUDGET,
) -> list[int]:
    """Return the sets of tables of the best plan for estimated arrivals, in order; empty if it has no actions."""
    if not len(estimate):
        return []
    problem = posed(curves, estimate, limit, recompute=recompute, lead=lead, foresight=True)
    return [mask_of(tables) for _, tables in best_plan(problem, budget).actions]


def steady(ticks: int, tables: int) -> NDArray[np.int64]:
    """Return one row per tick and table over ticks 0 … `ticks`."""
    return np.ones((ticks + 1, tables), np.int64)


def follow(
    curves: PackedCurves,
    counts: NDArray[np.int64],
    extra: NDArray[np.int64],
    planned: int,
    bound: float,
    recompute: float,
) -> tuple[int, float]:
    """Return the set to empty and its price: the planned set, or the cheapest minimal set where that leaves the limit
    broken.
    """
    whole = everything(counts)
    mask = planned & whole
    if left_over(curves, counts, extra, mask) > bound and mask != whole:
        rest = counts.copy()
        rest[list(tables_of(mask))] = 0
        more, _ = choose(curves, rest, extra, np.zeros(len(counts)), 0, 0.0, bound, recompute, CHEAPEST)
        mask |= int(more)
    return priced(curves, counts, mask, whole, recompute)


def priced(
    curves: PackedCurves, counts: NDArray[np.int64], mask: int, whole: int, recompute: float
) -> tuple[int, float]:
    """Return the set and its price; all tables where recomputing is cheaper."""
    price = float(price_of(curves, counts, mask))
    return (mask, price) if price <= recompute else (whole, recompute)


def follow_plan(problem: ScheduleProblem, cycle: Sequence[int]) -> tuple[Actions, float]:
    """Return actions and cost of following the cycle: its next set whenever the limit breaks, everything at the end."""
    actions: Actions = []
    base, tick, cost = np.zeros(len(problem.curves), np.int64), -1, 0.0
    for turn in count():
        tick = problem.next_broken(base, tick + 1)
        counts, extra = problem.state(tick, base)
        whole = int(everything(counts))
        if tick == problem.last:
            mask, price = priced(problem.packed, counts, whole, whole, problem.recompute)
        else:
            planned = cycle[turn % len(cycle)] if cycle else 0
            mask, price = follow(problem.packed, counts, extra, planned, problem.bound, problem.recompute)
        if mask:
            actions.append((tick, tables_of(mask)))
            cost += price
        if tick == problem.last:
            return actions, cost
        base[list(tables_of(mask))] = problem.total[tick, list(tables_of(mask))]
    raise AssertionError  # `count` does not end
