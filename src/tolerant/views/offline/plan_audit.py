"""Checks a plan against the definitions of valid, lazy and minimal (`docs/design/views.md` §2.1).

Slow, and shares no code with the planners.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from tolerant.views.cost_curves import Cost
from tolerant.views.schedule_problem import checked_arrivals, checked_costs, checked_number


@dataclass(frozen=True)
class PlanAudit:
    """Whether a plan is valid, lazy and minimal, as [DISS] defines them; every plan written as actions is greedy.

    Attributes:
        valid: pending work is within the limit after every tick, and nothing is pending after the last.
        lazy: no action before the last tick unless the limit was broken before it.
        minimal: no action before the last tick empties a table that it need not.
        cost: of all actions.
        worst: the most pending work that any tick left.
    """

    valid: bool
    lazy: bool
    minimal: bool
    cost: float
    worst: float


def audit(
    costs: Sequence[Cost], arrivals: Any, limit: float, actions: Iterable[tuple[int, Sequence[int]]]
) -> PlanAudit:
    """Follow the actions over the arrivals, int[ticks, tables], and return which properties hold.

    >>> from tolerant.views import Linear
    >>> audit([Linear(1.0)], [[2], [2]], limit=3, actions=[(1, (0,))])
    PlanAudit(valid=True, lazy=True, minimal=True, cost=4.0, worst=2.0)
    """
    functions = checked_costs(costs)
    rows = checked_arrivals(arrivals, len(functions)).tolist()
    bound = checked_number("limit", limit) + 1e-9 * max(1.0, limit)
    planned = {tick: tuple(tables) for tick, tables in actions}
    outside = [tick for tick in planned if not 0 <= tick < len(rows)]
    if outside:
        raise ValueError(f"actions must be at ticks 0 … {len(rows) - 1}, got {outside[0]}")
    pending = [0] * len(functions)
    lazy = minimal = True
    cost = worst = 0.0

    def work(without: Sequence[int] = ()) -> float:
        return sum(f(k) for i, (f, k) in enumerate(zip(functions, pending, strict=True)) if i not in without)

    for tick, arrived in enumerate(rows):
        pending = [k + more for k, more in zip(pending, arrived, strict=True)]
        tables = planned.get(tick, ())
        if tables and tick < len(rows) - 1:
            lazy &= work() > bound
            minimal &= all(work([i for i in tables if i != spared]) > bound for spared in tables)
        cost += sum(functions[i](pending[i]) for i in tables)
        pending = [0 if i in tables else k for i, k in enumerate(pending)]
        worst = max(worst, work())
    return PlanAudit(worst <= bound and not any(pending), lazy, minimal, float(cost), float(worst))
