"""Better plans, a window at a time: a few neighbouring groups are solved again on their own (`specs/4-merging.md` §5.1).

The rest of the plan is untouched, because cost is additive over groups.
"""

from __future__ import annotations

import numpy as np

from tolerant.kernels.compiled import compiled
from tolerant.kernels.random import absorbed
from tolerant.merging.arrays import Floats, Integers
from tolerant.merging.descent import TINY, State, search, state_of
from tolerant.merging.model import Model
from tolerant.merging.plan import EVALUATED, Plan, attach, detach, neighbourhood, open_group, prices_of, settle

WINDOW = 20
"""Units in a window, about."""

LARGEST = 8 * WINDOW
"""A group with more units than this is not solved again: a descent would take too long."""


@compiled
def _matched(plan: Plan, units: Integers, fresh: Integers, chosen: Integers) -> Integers:
    """For each new label the old group that most of its queries come from; −1 where another label has it."""
    labels, groups = len(units), len(chosen)
    shared = np.zeros((labels, groups))
    for k in range(len(units)):
        for g in range(groups):
            if chosen[g] == plan.group[units[k]]:
                shared[fresh[k], g] += plan.counts[units[k]]
    match = np.full(labels, -1, np.int64)
    for _ in range(groups):
        best, label, at = 0.0, -1, -1
        for f in range(labels):
            for g in range(groups):
                if shared[f, g] > best:
                    best, label, at = shared[f, g], f, g
        if label < 0:
            break
        match[label] = chosen[at]
        shared[label, :] = 0.0
        shared[:, at] = 0.0
    return match


@compiled
def solve(
    plan: Plan, model: Model, group: int, tries: int, key: np.uint64, hysteresis: float, found: Integers, state: State
) -> tuple[Integers, Floats, Integers]:
    """Solve the window around a group again and adopt what is cheaper by more than `hysteresis` a query that moves.

    Gives the groups of the window (number, serial number) and their boxes as they were, and for each unit (unit, serial
    number of its group before, and after): empty arrays when nothing was adopted.
    """
    chosen, n = neighbourhood(plan, model, group, WINDOW, found)
    nothing = (np.empty((0, 2), np.int64), np.empty((0, 4)), np.empty((0, 3), np.int64))
    if n > len(state.labels) or n < 2:
        return nothing
    units, start = np.empty(n, np.int64), np.empty(n, np.int64)
    at = 0
    for g in range(len(chosen)):
        unit = plan.head[chosen[g]]
        while unit >= 0:
            units[at] = unit
            start[at] = g
            at += 1
            unit = plan.after[unit]
    before = prices_of(plan, model, chosen)
    fresh, cost, evaluated = search(
        start, plan.boxes[units], plan.counts[units], plan.own[units], model, False, tries, key, _cut(state, n)
    )
    plan.tally[EVALUATED] += evaluated
    saved = before - cost
    if not saved > TINY * before:
        return nothing
    match = _matched(plan, units, fresh, chosen)
    moves, moved = np.empty((n, 3), np.int64), 0.0
    for k in range(n):
        moves[k, 0] = units[k]
        moves[k, 1] = plan.serial[plan.group[units[k]]]
        if match[fresh[k]] != plan.group[units[k]]:
            moved += plan.counts[units[k]]
    if not saved > hysteresis * moved:
        return nothing
    old, was = plan.group_boxes[chosen], np.empty((len(chosen), 2), np.int64)
    was[:, 0], was[:, 1] = chosen, plan.serial[chosen]
    _regroup(plan, model, units, fresh, match, chosen)
    for k in range(n):
        moves[k, 2] = plan.serial[plan.group[units[k]]]
    return was, old, moves


@compiled
def _cut(state: State, n: int) -> State:
    """The same room, for n units only."""
    return State(
        state.labels[:n],
        state.boxes[:n],
        state.counts[:n],
        state.units[:n],
        state.sizes[:n],
        state.best[:n],
        state.partner[:n],
        state.off[:n],
    )


@compiled
def _regroup(plan: Plan, model: Model, units: Integers, fresh: Integers, match: Integers, chosen: Integers) -> None:
    was = plan.group[units]
    for k in range(len(units)):
        label = fresh[k]
        if match[label] < 0:
            match[label] = open_group(plan)
        if match[label] != was[k]:
            detach(plan, units[k])
            attach(plan, units[k], match[label])
    for label in range(len(match)):
        if match[label] >= 0:
            settle(plan, model, match[label])
    for g in range(len(chosen)):
        if plan.head[chosen[g]] < 0:
            settle(plan, model, chosen[g])


@compiled
def _sweep(
    plan: Plan, model: Model, tries: int, key: np.uint64, hysteresis: float, found: Integers, state: State
) -> int:
    """Solve the window around every group once; how many were better."""
    better = 0
    for group in range(len(plan.group_units)):
        if plan.group_units[group] > 0:
            was, _, _ = solve(
                plan, model, group, tries, absorbed(key, np.uint64(group)), hysteresis, found, state
            )
            better += len(was) > 0
    return better


def improve(
    plan: Plan,
    model: Model,
    key: np.uint64,
    *,
    rounds: int,
    tries: int = 10,
    hysteresis: float = 0.0,
    patience: int = 3,
) -> int:
    """Sweep over all windows, `rounds` times or until `patience` sweeps bring nothing; how many windows were better."""
    found, state = np.empty(len(plan.group_units), np.int64), state_of(LARGEST)
    better = idle = 0
    for turn in range(rounds):
        won = int(_sweep(plan, model, tries, np.uint64(absorbed(key, np.uint64(turn))), hysteresis, found, state))
        better += won
        idle = 0 if won else idle + 1
        if idle >= patience:
            break
    return better
