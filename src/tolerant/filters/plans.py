"""Which moves of width are worth their messages (`specs/1-filters.md` §5.1).

A plan takes width from a few items and gives it to others. It is carried out only if what it saves over a horizon is
more than its messages: a growth costs one, a tightening two (the request, and the update that confirms it). All plans
together may cost a share of the updates received, so that planning never costs much more than it found to save.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tolerant.filters.prices import Known, Market, expected_rate, find_targets
from tolerant.filters.rows import RowArrays
from tolerant.filters.state import Flags, Floats, Integers
from tolerant.kernels.compiled import borrowing, compiled

_SHORT, _LONG = 50, 300
"""Ticks: the least horizon, and a longer one that is tried besides."""
SPARE = 0.5
"""Of the cost of the updates received: what all plans together may cost. The specification has .15, which
sent 2 to 6 % more on shifted recorded traces and on generated ones that were not used to choose this."""
_NARROWER, _WIDER = 0.9, 1.1
"""Times the width: an item whose target lies between stays."""
TIGHTENING = 2.0
"""Messages that a tightening takes."""


class Plan(NamedTuple):
    """`width`: the new width of every item that is to move, NaN for the others. `worth`: what it saves over its
    horizon, less `cost`, that of its messages."""

    width: Floats
    worth: float
    cost: float


@compiled
def best_plan(
    rows: RowArrays,
    known: Known,
    widths: Floats,
    movable: Flags,
    tick: int,
    last: int,
    spent: float,
    received: float,
    space: Market,
) -> Plan:
    """The plan that saves most at `tick`; one without moves and worth 0 if none pays.

    widths: those that must be reckoned with now, infinite where unknown. movable: the adaptable items whose width is
    known to be just that. last: the tick of the plan before. spent, received: the cost
    of all plans so far, and of all updates.
    """
    best = Plan(np.full(widths.size, np.nan), 0.0, 0.0)
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
def _least_cost(movable: Flags, known: Known) -> float:
    """No plan costs less than the cheapest item's growth."""
    least = np.inf
    for item in range(known.cost.size):
        if movable[item]:
            least = min(least, known.cost[item])
    return least


@compiled
def _choose(
    rows: RowArrays,
    known: Known,
    widths: Floats,
    tick: int,
    last: int,
    horizon: float,
    allowed: float,
    space: Market,
    best: Plan,
) -> Plan:
    """The best of `best` and the plans that move towards the targets."""
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
    """The items chosen, by decreasing gain."""
    found = np.flatnonzero(which)
    return found[np.argsort(-gain[found])]


@compiled
def _play(
    rows: RowArrays,
    known: Known,
    widths: Floats,
    space: Market,
    before: Floats,
    after: Floats,
    patience: Floats,
    tightened: Integers,
    grown: Integers,
) -> Plan:
    """What comes of tightening these and letting those grow that profit from what is free then."""
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
    return Plan(new, saved * horizon - cost if cost > 0.0 else 0.0, cost)


@compiled
def _free(rows: RowArrays, widths: Floats) -> Floats:
    free = np.empty(rows.beta.size)
    for row in range(rows.beta.size):
        used = 0.0
        for entry in range(rows.indptr[row], rows.indptr[row + 1]):
            used += rows.coefficients[entry] * widths[rows.items[entry]]
        free[row] = rows.beta[row] - used
    return free


@borrowing
def _room(rows: RowArrays, item: int, free: Floats) -> float:
    room = np.inf
    for entry in range(rows.item_indptr[item], rows.item_indptr[item + 1]):
        room = min(room, free[rows.item_rows[entry]] / rows.item_coefficients[entry])
    return max(room, 0.0)


@borrowing
def _use(rows: RowArrays, item: int, width: float, free: Floats) -> None:
    for entry in range(rows.item_indptr[item], rows.item_indptr[item + 1]):
        free[rows.item_rows[entry]] -= rows.item_coefficients[entry] * width
