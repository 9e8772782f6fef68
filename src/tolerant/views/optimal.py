"""`method="optimal"`: arrivals are known; the best lazy, greedy, minimal plan, proved so within a budget of labels."""

from __future__ import annotations

from dataclasses import dataclass

from tolerant.views.floors import floors_of
from tolerant.views.problem import Actions, Problem, tables_of
from tolerant.views.search import search

BUDGET = 2_000_000
"""Labels that the search may take before beam search steps in."""

_WIDEST, _NARROWEST = 1_000, 8


@dataclass(frozen=True)
class Best:
    """The best plan found; `proved` says whether there is no better one, `labels` how many the search took."""

    actions: Actions
    cost: float
    proved: bool
    labels: int


def best_plan(problem: Problem, budget: int = BUDGET) -> Best:
    """The best plan for known arrivals; by beam search, and not proved, where the budget is not enough."""
    arrays = (problem.total, problem.look, problem.packed, floors_of(problem), problem.bound, problem.recompute)
    ticks, masks, cost, labels = search(*arrays, budget, 0)
    proved = cost < float("inf")
    if not proved:
        width = min(_WIDEST, max(_NARROWEST, budget // (4 * len(problem.total))))
        ticks, masks, cost, labels = search(*arrays, budget, width)
    actions = [(int(tick), tables_of(int(mask))) for tick, mask in zip(ticks, masks, strict=True)]
    return Best(actions, float(cost), proved, int(labels))
