"""Plans for recorded arrivals: `schedule` and its result."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tolerant.views.cost_curves import Cost, Curves
from tolerant.views.estimated_plan import cycle_of, follow_plan, steady
from tolerant.views.forecast_plan import WINDOW, plan_by_forecast
from tolerant.views.optimal_plan import BUDGET, best_plan
from tolerant.views.rule_plan import averages, run
from tolerant.views.schedule_problem import (
    Actions,
    ScheduleProblem,
    checked_arrivals,
    checked_costs,
    checked_count,
    checked_number,
    posed,
    tables_of,
)
from tolerant.views.table_sets import HISTORY, NAIVE, PER_TICK


@dataclass(frozen=True)
class Schedule:
    """When to push which tables.

    Attributes:
        actions: (tick, tables emptied then), ticks ascending, tables sorted, the refresh at the last tick included.
        cost: of all actions together.
        proved: whether this is known to be a best lazy, greedy and minimal plan (`method="optimal"` within its budget).
    """

    actions: Actions
    cost: float
    proved: bool = field(default=False, compare=False)


@dataclass(frozen=True)
class ScheduleOptions:
    """Options of planning, beyond costs and limit; see `schedule`."""

    estimate: Any = None
    recompute: float | None = None
    lead: int = 0
    window: int = WINDOW
    memory: int | None = None
    budget: int = BUDGET

    def __post_init__(self) -> None:
        checked_count("lead", self.lead, 0)
        checked_count("window", self.window, 1)
        checked_count("budget", self.budget, 2)
        if self.memory is not None:
            checked_count("memory", self.memory, 1)
        if self.recompute is not None:
            checked_number("recompute", self.recompute)


def schedule(  # noqa: PLR0913
    costs: Sequence[Cost],
    arrivals: Any,
    limit: float,
    method: str = "online",
    *,
    estimate: Any = None,
    recompute: float | None = None,
    lead: int = 0,
    window: int = WINDOW,
    memory: int | None = None,
    budget: int = BUDGET,
) -> Schedule:
    """Plan when to push which tables' changes into a view, so that pending work never takes longer than `limit`.

    Args:
        costs: for each table a callable from rows to the cost of pushing them in one batch.
        arrivals: int[ticks, tables], new changes; at the last tick the view is refreshed.
        limit: the most that pending work may cost after any tick.
        method: "naive" pushes everything when the limit breaks; "online" is rule H of [DISS], "per-tick" takes the
            set that is cheapest per tick until the limit breaks again, "forecast" plans ahead on predicted arrivals;
            "estimated" follows a plan made for `estimate`; "optimal" uses all arrivals.
        estimate: for "estimated": the expected last tick at one row per tick and table, or expected arrivals.
        recompute: the cost of recomputing the view, where that is allowed.
        lead: act so many ticks before the limit would break, judged by the largest arrivals so far.
        window: steps that "forecast" looks ahead.
        memory: ticks over which rates are averaged; None: over all so far.
        budget: labels that "optimal" may use; beyond, the plan is not `proved`.

    >>> from tolerant.views import Linear
    >>> plan = schedule([Linear(1.0), Linear(0.5, 4.0)], [[1, 1]] * 7, limit=8, method="optimal")
    >>> plan.cost, plan.actions
    (14.5, [(2, (0,)), (4, (0,)), (6, (0, 1))])

    Raises:
        ValueError: an argument is invalid; a cost is negative, NaN, falling, or not 0 for 0 rows.
    """
    functions = checked_costs(costs)
    rows = checked_arrivals(arrivals, len(functions))
    bound = checked_number("limit", limit)
    options = ScheduleOptions(estimate, recompute, lead, window, memory, budget)
    if method not in METHODS:
        raise ValueError(f"method must be one of {', '.join(map(repr, METHODS))}, got {method!r}")
    curves = Curves(functions)
    estimated = estimate_of(options.estimate, len(functions)) if method == "estimated" else None
    if not len(rows):
        return Schedule([], 0.0, method == "optimal")
    return METHODS[method](_Task(curves, rows, bound, options, estimated))


@dataclass(frozen=True)
class _Task:
    curves: Curves
    arrivals: NDArray[np.int64]
    limit: float
    options: ScheduleOptions
    estimate: NDArray[np.int64] | None

    def problem(self, *, foresight: bool = False, predicts: bool = False) -> ScheduleProblem:
        return posed(
            self.curves,
            self.arrivals,
            self.limit,
            recompute=self.options.recompute,
            lead=self.options.lead,
            foresight=foresight,
            predicts=predicts,
        )

    def rates(self) -> NDArray[np.float64]:
        if self.options.memory is None:
            ticks = np.arange(1, len(self.arrivals) + 1)[:, None]
            return np.cumsum(self.arrivals, axis=0) / ticks
        return averages(self.arrivals, self.options.memory)


def _by_rule(rule: int) -> Callable[[_Task], Schedule]:
    def plan(task: _Task) -> Schedule:
        problem = task.problem(predicts=rule != NAIVE)
        rates = np.zeros((0, len(task.curves))) if task.options.memory is None else task.rates()
        ticks, masks, cost = run(
            problem.total, problem.look, rates, problem.packed, problem.bound, problem.recompute, rule
        )
        tuples = {mask: tables_of(mask) for mask in set(masks.tolist())}
        return Schedule([(t, tuples[m]) for t, m in zip(ticks.tolist(), masks.tolist(), strict=True)], float(cost))

    return plan


def _estimated(task: _Task) -> Schedule:
    options = task.options
    assert task.estimate is not None
    cycle = cycle_of(
        task.curves, task.estimate, task.limit, recompute=options.recompute, lead=options.lead, budget=options.budget
    )
    return Schedule(*follow_plan(task.problem(), cycle))


def _forecast(task: _Task) -> Schedule:
    return Schedule(*plan_by_forecast(task.problem(predicts=True), task.rates(), task.options.window))


def _optimal(task: _Task) -> Schedule:
    best = best_plan(task.problem(foresight=True), task.options.budget)
    return Schedule(best.actions, best.cost, best.proved)


def estimate_of(estimate: Any, tables: int) -> NDArray[np.int64]:
    """Return the arrivals that "estimated" plans for, int64[ticks, tables]."""
    if estimate is None:
        raise ValueError(
            'estimate must be given for method "estimated": the expected last tick, or int[ticks, tables], got None'
        )
    if np.ndim(estimate) == 0:
        return steady(checked_count("estimate", estimate, 0), tables)
    return checked_arrivals(estimate, tables, "estimate")


METHODS: dict[str, Callable[[_Task], Schedule]] = {
    "naive": _by_rule(NAIVE),
    "online": _by_rule(HISTORY),
    "per-tick": _by_rule(PER_TICK),
    "estimated": _estimated,
    "forecast": _forecast,
    "optimal": _optimal,
}
"""The planners by method."""
