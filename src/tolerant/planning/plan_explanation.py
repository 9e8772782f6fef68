"""Explains what each part of a plan does, for the page and the command line (`docs/design/planning.md` §5.1)."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from tolerant.planning.optimizer.plan_problem import offset_of
from tolerant.planning.query_plan import Part, Plan

OVERSHOOT = 0.58
"""Mean number of steps by which a random walk overshoots the bound that it leaves (0.583 for normal steps)."""


@dataclass(frozen=True)
class PartExplanation:
    """One part of a plan.

    push: how far the part may drift before it is sent. refreshes: expected messages per hour, None where the dynamics
    do not say over how many ticks they are. cancelled: the share of its items' moves that cancel inside the part.
    cancels: up to three pairs of items that cancel most.
    """

    aggregator: str
    items: tuple[str, ...]
    bound: float
    floor: float
    push: float
    refreshes: float | None
    cancelled: float
    cancels: tuple[tuple[str, str], ...]

    def __str__(self) -> str:
        rate = "" if self.refreshes is None else f", about {self.refreshes:.3g} refreshes an hour"
        pairs = ", ".join(f"{item} with {other}" for item, other in self.cancels)
        cancels = f"; {self.cancelled:.0%} of its moves cancel" + (f" ({pairs})" if pairs else "")
        return (
            f"{self.aggregator} answers {', '.join(self.items)} within {self.bound:.4g} "
            f"(its copies alone: {self.floor:.4g}; sent after {self.push:.4g}){rate}{cancels if self.cancelled else ''}"
        )


def explain(plan: Plan, tick: float = 1.0) -> tuple[PartExplanation, ...]:
    """Return one explanation per part; `tick`: seconds from one tick to the next.

    Raises:
        ValueError: the plan does not say which dynamics it was made from.
    """
    if plan.dynamics is None:
        raise ValueError("dynamics: a plan that was made by hand has none, so that nothing can be expected of it")
    if not tick > 0:
        raise ValueError(f"tick must be a positive number of seconds, got {tick}")
    return tuple(_explained(plan, part, tick) for part in plan.parts)


def expected_refreshes(plan: Plan, ticks: float) -> float:
    """Return how many messages the plan is expected to send in so many ticks; NaN where its dynamics have no ticks."""
    assert plan.dynamics is not None
    if plan.dynamics.ticks == 0:
        return math.nan
    return sum(ticks * _rate(plan, part) for part in plan.parts)


def _rate(plan: Plan, part: Part) -> float:
    """Return refreshes per tick: a random walk of step σ leaves ±C after about (C/σ + 0.58)² steps; at most one."""
    assert plan.dynamics is not None
    step = _motion(plan, part)[0] / plan.dynamics.ticks * math.sqrt(math.pi / 2)
    bounds = plan.network.bounds[part.aggregator]
    squares = sum((weight * bounds[item]) ** 2 for item, weight in part.weights.items())
    room = part.within - offset_of(plan.query.fn in ("min", "max"), part.floor, squares)
    return 1.0 / max(1.0, (room / step + OVERSHOOT) ** 2) if step > 0 else 0.0


def _motion(plan: Plan, part: Part) -> tuple[float, float]:
    """Return how much the part moves, R, and its items apart, D."""
    assert plan.dynamics is not None
    places = plan.dynamics.at(part.weights)
    signed = np.array(list(part.weights.values()))
    apart = np.abs(signed) * plan.dynamics.sumdiff[places]
    if plan.query.fn in ("min", "max"):
        return float(apart.max()), float(apart.sum())
    shares = signed * plan.dynamics.sumdiff[places]
    together = shares @ plan.dynamics.cosine[places[:, None], places] @ shares
    return math.sqrt(max(float(together), 0.0)), float(apart.sum())


def _explained(plan: Plan, part: Part, tick: float) -> PartExplanation:
    assert plan.dynamics is not None
    moved, apart = _motion(plan, part)
    return PartExplanation(
        part.aggregator,
        tuple(part.weights),
        part.within,
        part.floor,
        part.push,
        3600.0 / tick * _rate(plan, part) if plan.dynamics.ticks else None,
        1.0 - moved / apart if apart > 0 else 0.0,
        _opposed(plan, part),
    )


def _opposed(plan: Plan, part: Part) -> tuple[tuple[str, str], ...]:
    """Return the pairs whose moves cancel most, most first; of a min or max none does."""
    assert plan.dynamics is not None
    if plan.query.fn in ("min", "max"):
        return ()
    items = tuple(part.weights)
    places = plan.dynamics.at(items)
    shares = np.array(list(part.weights.values())) * plan.dynamics.sumdiff[places]
    together = np.triu(shares[:, None] * plan.dynamics.cosine[places[:, None], places] * shares, 1)
    order = np.argsort(together, axis=None, kind="stable")[:3]
    pairs = [divmod(int(k), len(items)) for k in order]
    return tuple((items[i], items[j]) for i, j in pairs if together[i, j] < 0)
