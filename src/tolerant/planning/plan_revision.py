"""Revises plans: only when it pays, and as little as possible (`docs/design/planning.md` §2.10, §5.1)."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from tolerant.planning.aggregator_network import Network
from tolerant.planning.dynamics import Dynamics
from tolerant.planning.heuristics import plan
from tolerant.planning.optimizer.bound_allocation import allocate
from tolerant.planning.optimizer.plan_problem import PlanProblem, moments_of, offset_of, pose, roughness_of
from tolerant.planning.plan_explanation import expected_refreshes
from tolerant.planning.planning_arrays import SLACK, Floats, Integers
from tolerant.planning.query_plan import Part, Plan

PERIOD = 1000
"""Ticks from one revision of the plans to the next."""

WORTH = 0.9
"""A new plan must cost less than this fraction of the old one."""

STATEMENT_ITEMS = 12
"""Queries up to this size are planned exactly when no heuristic is given."""


def default_heuristic(items: int) -> str:
    """Return the heuristic for a query of so many items: an exact plan takes 5 ms for 10 of them."""
    return "exact" if items <= STATEMENT_ITEMS else "search"


def roughness_and_offsets(plan: Plan, dynamics: Dynamics) -> tuple[list[float], list[float]]:
    """Return roughness A and offset h of each of the plan's parts under these dynamics."""
    ready = pose(plan.query, plan.network, dynamics)
    problem, places = ready.problem, {item: place for place, item in enumerate(ready.weights)}
    roughness, offsets = [], []
    for part in plan.parts:
        items = np.array([places[item] for item in part.weights], np.int64)
        shares = np.array([weight / ready.weights[item] for item, weight in part.weights.items()])
        own = _part_of(problem, items, shares)
        num, den = moments_of(own, np.arange(items.size), items.size)
        roughness.append(float(roughness_of(num, den, float(own.apart.sum()), float(own.weight.sum()))))
        bounds = plan.network.bounds[part.aggregator]
        squares = sum((weight * bounds[item]) ** 2 for item, weight in part.weights.items())
        offsets.append(float(offset_of(problem.extreme, part.floor, squares)))
    return roughness, offsets


def _part_of(problem: PlanProblem, items: Integers, shares: Floats) -> PlanProblem:
    """Return the problem of these shares of these items alone."""
    both, squared = (items[:, None], items), shares[:, None] * shares
    return problem._replace(
        apart=problem.apart[items] * shares,
        weight=problem.weight[items] * shares,
        motion=problem.motion[both] * squared,
        mixing=problem.mixing[both] * squared,
    )


def cost_under(plan: Plan, dynamics: Dynamics) -> float:
    """Return Z of the plan's parts and bounds under other dynamics than it was made for."""
    roughness, offsets = roughness_and_offsets(plan, dynamics)
    rooms = [part.within - offset for part, offset in zip(plan.parts, offsets, strict=True)]
    return sum(rough / room**2 if room > 0 else math.inf for rough, room in zip(roughness, rooms, strict=True))


def reallocate(
    old: Plan, within: float, dynamics: Dynamics, heuristic: str = "max-gain", *, alpha: float = 0.0
) -> Plan:
    """Return the same parts for another `within`, with new bounds; new parts only where the old ones cannot meet it.

    Raises:
        Unsatisfiable: no plan meets it.
    """
    query = replace(old.query, within=within)
    pose(query, old.network, dynamics)  # raises if it is wrong or no plan can meet it
    floors = [part.floor for part in old.parts]
    extreme = query.fn in ("min", "max")
    if (max(floors) if extreme else sum(floors)) > within * (1 + SLACK):
        return plan(query, old.network, dynamics, heuristic, alpha=alpha)
    roughness, offsets = roughness_and_offsets(old, dynamics)
    bounds = [query.within] * len(floors)
    if not extreme:
        bounds = allocate(roughness, floors, query.within, offsets).tolist()
    parts = tuple(replace(part, within=bound) for part, bound in zip(old.parts, bounds, strict=True))
    new = Plan(query, old.network, parts, 0.0, old.repairs, dynamics)
    return replace(new, cost=cost_under(new, dynamics))


def replan(
    old: Plan,
    dynamics: Dynamics,
    network: Network | None = None,
    heuristic: str | None = None,
    *,
    alpha: float = 0.0,
    seed: int = 0,
    period: float = PERIOD,
) -> Plan:
    """Return a new plan where it pays to change, else the old one.

    It pays if the messages that the new plan is expected to send in a period, plus one for each part that is new, are
    under 0.9 of those of the old one; where dynamics do not say over how many ticks they are, the costs themselves are
    compared. A plan that the network no longer serves is always replaced. heuristic None: `default_heuristic`.

    Raises:
        Unsatisfiable: the network cannot meet the bound (any more).
    """
    network = old.network if network is None else network
    chosen = heuristic or default_heuristic(len(old.query.weights))
    new = plan(old.query, network, dynamics, chosen, alpha=alpha, seed=seed)
    if not still_served(old, network):
        return new
    before = cost_under(old, dynamics)
    if math.isinf(before):
        return new if new.cost < before else old
    messages = expected_refreshes(replace(old, dynamics=dynamics), period)
    scale = 1.0 if math.isnan(messages) else messages / before
    changed = len(set(map(_key, new.parts)) - set(map(_key, old.parts)))
    return new if scale * new.cost + changed < WORTH * scale * before else old


def still_served(plan: Plan, network: Network) -> bool:
    """Return whether the network still serves every part of the plan as before."""
    if plan.network is network:
        return True
    return all(
        part.aggregator in network.bounds
        and network.path(part.aggregator, item) == plan.network.path(part.aggregator, item)
        and network.bounds[part.aggregator].get(item) == plan.network.bounds[part.aggregator][item]
        for part in plan.parts
        for item in part.weights
    )


def _key(part: Part) -> tuple[object, ...]:
    return (part.aggregator, tuple(part.weights.items()), part.within)
