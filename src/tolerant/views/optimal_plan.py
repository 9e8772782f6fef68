"""Implements `method="optimal"`: the best lazy, greedy, minimal plan for known arrivals, within a budget of labels."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from tolerant.views.cost_floors import floors_of
from tolerant.views.plan_search import COUNT, FOUND, PAID, Labels, first_label, grown, path, search
from tolerant.views.schedule_problem import Actions, ScheduleProblem, tables_of
from tolerant.views.table_sets import everything, price_of

BUDGET = 2_000_000
"""Labels that the search may use before beam search replaces it."""

_NO_BUDGET = 1 << 31

_SPAN = 32
"""Ticks over which labels are compared; a dominating label is seldom forced much later."""

_WIDEST, _NARROWEST = 1_000, 8


@dataclass(frozen=True)
class OptimalPlan:
    """The best plan found; `proved`: whether none is better; `labels`: how many the search used."""

    actions: Actions
    cost: float
    proved: bool
    labels: int


def best_plan(problem: ScheduleProblem, budget: int = BUDGET) -> OptimalPlan:
    """Return the best plan for known arrivals; by beam search, and not proved, where the budget is not enough."""
    labels = _searched(problem, budget, 0)
    proved = labels is not None
    if labels is None:
        width = min(_WIDEST, max(_NARROWEST, budget // (4 * len(problem.total))))
        labels = _searched(problem, _NO_BUDGET, width)
        assert labels is not None
    steps = [(tick, mask) for tick, mask in path(labels) if mask]
    base = labels.base[labels.numbers[FOUND]]
    steps.append((problem.last, int(everything(problem.total[-1] - base))))
    cost = float(labels.costs[labels.numbers[FOUND], PAID])
    actions = [(tick, tables_of(mask)) for tick, mask in steps if mask]
    return OptimalPlan(actions, cost, proved, int(labels.numbers[COUNT]))


def _searched(problem: ScheduleProblem, budget: int, width: int) -> Labels | None:
    """Return the labels when the search is done; None where the budget did not suffice."""
    n, last = len(problem.curves), problem.last
    first = problem.next_broken(np.zeros(n, np.int64), 0)
    labels = first_label(last + 1, n, first, 1024 + (1 << n))
    if first == last:
        whole = int(everything(problem.total[-1]))
        labels.costs[0, PAID] = min(float(price_of(problem.packed, problem.total[-1], whole)), problem.recompute)
    span = _SPAN if problem.curves.are_linear and problem.recompute == math.inf else 1
    task = (problem.total, problem.look, problem.packed, floors_of(problem), problem.bound, problem.recompute, span)
    while not search(labels, *task, width):
        if labels.numbers[COUNT] >= budget:
            return None
        labels = grown(labels, 2 * len(labels.heap))
    return labels if labels.numbers[COUNT] <= budget else None
