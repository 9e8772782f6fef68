"""Plans that move width between items when that saves more messages than it costs (`docs/design/filters.md` §5.1).

A plan moves width from a few items to others. It is carried out only if it saves more over a horizon than its messages
cost: one for a growth, two for a tightening (the grant, and the update that confirms it). The total cost of all
plans is limited to a share of the updates received.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tolerant.filters.constraints import ConstraintArrays
from tolerant.filters.prices import KnownRates, PriceWorkspace, expected_rate, find_targets
from tolerant.filters.state import Flags, Floats, Integers
from tolerant.kernels.compiled import compiled, compiled_no_refcount

_SHORT, _LONG = 50, 300
"""Ticks: the least horizon, and a longer one that is tried too."""
SPARE = 0.5
"""Limit of the total cost of all plans, as a fraction of the cost of the updates received. A limit of .15 sent 2 to 6 %
more on shifted recorded traces and on generated traces that were not used to choose this value."""
_NARROWER, _WIDER = 0.9, 1.1
"""Multiples of the width: an item whose target lies between them is not moved."""
TIGHTENING = 2.0
"""Messages per tightening."""


class WidthPlan(NamedTuple):
    """`width`: the new width of every item that moves, NaN for the others. `worth`: savings over the horizon minus
    `cost`, the cost of its messages."""

    width: Floats
    worth: float
    cost: float


@compiled
def best_plan(  # noqa: PLR0913
    rows: ConstraintArrays,
    known: KnownRates,
    widths: Floats,
    movable: Flags,
    tick: int,
    last: int,
    spent: float,
    received: float,
    space: PriceWorkspace,
) -> WidthPlan:
    """The plan that saves most at `tick`; an empty plan of worth 0 if none pays.

    widths: the believed ones, infinite where unknown. movable: the adaptable items whose width is confirmed. last: the
    tick of the previous plan. spent, received: the cost of all plans so far, and of all updates.
    """
    best = WidthPlan(np.full(widths.size, np.nan), 0.0, 0.0)
    allowed = SPARE * received - spent
    if allowed <= 0.0 or allowed < _least_cost(movable, known):
        return best
    recent, long = max(_SHORT, tick - last), min(_LONG, tick)
    for horizon in (recent, long):
        if horizon == recent or long > 1.5 * recent:
            find_targets(rows, known, widths, movable, tick, float(horizon), space)
            best = _choose(rows, known, widths, tick, last, float(horizon), allowed, space, best)
    return best


@compiled
def _least_cost(movable: Flags, known: KnownRates) -> float:
    """The cost of the cheapest growth, a lower bound of a plan's cost."""
    least = np.inf
    for item in range(known.cost.size):
        if movable[item]:
            least = min(least, known.cost[item])
    return least


@compiled
def _choose(  # noqa: PLR0913
    rows: ConstraintArrays,
    known: KnownRates,
    widths: Floats,
    tick: int,
    last: int,
    horizon: float,
    allowed: float,
    space: PriceWorkspace,
    best: WidthPlan,
) -> WidthPlan:
    """The best of `best` and of the plans that move towards the targets."""
    before, after, patience = np.zeros(widths.size), np.zeros(widths.size), np.zeros(widths.size)
    gain = np.zeros(widths.size)
    for item in range(widths.size):
        if space.corners[item]:
            before[item] = known.cost[item] * expected_rate(known, item, widths[item], space)
            after[item] = known.cost[item] * expected_rate(known, item, space.target[item], space)
            gain[item] = before[item] - after[item] + space.price[item] * (widths[item] - space.target[item])
            other = known.narrowed[item] if space.target[item] > widths[item] else known.widened[item]
            patience[item] = min(horizon, max(_SHORT, tick - last, tick - other))
    tightened = _ranked((space.target < _NARROWER * widths) & (space.corners > 0), gain)
    grown = _ranked((space.target > _WIDER * widths) & (space.corners > 0), gain)
    count = 0
    while count <= tightened.size:
        plan = _play(rows, known, widths, space, before, after, patience, tightened[:count], grown)
        if plan.worth > best.worth and plan.cost <= allowed:
            best = plan
        count += 1 + count // 4
    return best


@compiled
def _ranked(which: Flags, gain: Floats) -> Integers:
    """The chosen items by decreasing gain."""
    items = np.flatnonzero(which)
    return items[np.argsort(-gain[items])]


@compiled
def _play(  # noqa: PLR0913
    rows: ConstraintArrays,
    known: KnownRates,
    widths: Floats,
    space: PriceWorkspace,
    before: Floats,
    after: Floats,
    patience: Floats,
    tightened: Integers,
    grown: Integers,
) -> WidthPlan:
    """The plan that tightens these items and grows those of `grown` that profit from what is free then."""
    new, target = np.full(widths.size, np.nan), space.target
    free = _free(rows, widths)
    saved, cost, horizon = 0.0, 0.0, np.inf
    for item in tightened:
        new[item] = target[item]
        saved += before[item] - after[item]
        cost += TIGHTENING * known.cost[item]
        horizon = min(horizon, patience[item])
        _use(rows, item, target[item] - widths[item], free)
    for item in grown:
        width = min(target[item], widths[item] + _room(rows, item, free))
        if width <= _WIDER * widths[item] and width < target[item]:
            continue
        less = before[item] - (
            after[item] if width == target[item] else known.cost[item] * expected_rate(known, item, width, space)
        )
        if less * patience[item] > known.cost[item]:
            new[item] = width
            saved += less
            cost += known.cost[item]
            horizon = min(horizon, patience[item])
            _use(rows, item, width - widths[item], free)
    return WidthPlan(new, saved * horizon - cost if cost > 0.0 else 0.0, cost)


@compiled
def _free(rows: ConstraintArrays, widths: Floats) -> Floats:
    free = np.empty(rows.beta.size)
    for row in range(rows.beta.size):
        used = 0.0
        for entry in range(rows.indptr[row], rows.indptr[row + 1]):
            used += rows.coefficients[entry] * widths[rows.items[entry]]
        free[row] = rows.beta[row] - used
    return free


@compiled_no_refcount
def _room(rows: ConstraintArrays, item: int, free: Floats) -> float:
    room = np.inf
    for entry in range(rows.item_indptr[item], rows.item_indptr[item + 1]):
        room = min(room, free[rows.item_rows[entry]] / rows.item_coefficients[entry])
    return max(room, 0.0)


@compiled_no_refcount
def _use(rows: ConstraintArrays, item: int, width: float, free: Floats) -> None:
    for entry in range(rows.item_indptr[item], rows.item_indptr[item + 1]):
        free[rows.item_rows[entry]] -= rows.item_coefficients[entry] * width
