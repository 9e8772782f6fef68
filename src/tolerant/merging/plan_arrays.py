"""A plan that changes: units, their groups and where these are, in arrays, for compiled code.

A group's box and size are always computed again from its members, so that errors do not accumulate.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tolerant.kernels.array_types import Floats, Integers
from tolerant.kernels.compiled import compiled, compiled_no_refcount
from tolerant.merging.cost_model import CostModel, gain, joint_size
from tolerant.merging.grid import Grid, grid_over, list_box, near, unlist_box
from tolerant.merging.sizes import measure, reach

COUNT, OWN, SIZE = 4, 5, 5
"""Columns behind the box: queries, and the size, of units and of groups."""

GROUP, AFTER, BEFORE = range(3)
"""Columns of `PlanArrays.links`: the group of a unit (−1: the unit does not exist), its next and its previous unit."""

UNITS, HEAD, SERIAL, FREE = range(4)
"""Columns of `PlanArrays.members`: number of units of a group, the first of them, the number of its channel, which is
never used again; and a stack of free groups."""

VACANT, NEXT, GROUPS = range(3)
"""Places in `PlanArrays.tally`: groups on that stack, the next number of a channel, number of groups."""


class PlanArrays(NamedTuple):
    """Units and groups, numbered from 0 to the capacity."""

    units: Floats  # [capacity, 6]
    links: Integers  # [capacity, 3]
    groups: Floats  # [capacity, 6]
    members: Integers  # [capacity, 4]
    tally: Integers  # [3]
    grid: Grid  # of the groups


def empty_plan(capacity: int, sample: Floats) -> PlanArrays:
    """Return a plan with room for `capacity` units; `sample` float[n, 4] shows where boxes will be."""
    groups, members = np.zeros((capacity, 6)), np.full((capacity, 4), -1, np.int64)
    members[:, UNITS], members[:, FREE] = 0, np.arange(capacity)[::-1]
    return PlanArrays(
        units=np.zeros((capacity, 6)),
        links=np.full((capacity, 3), -1, np.int64),
        groups=groups,
        members=members,
        tally=np.array([capacity, 0, 0], np.int64),
        grid=grid_over(groups, sample),
    )


def plan_of(units: Floats, labels: Integers, model: CostModel, capacity: int | None = None) -> PlanArrays:
    """Return the plan in which units float[n, 6] of one label are one group; groups are numbered by first unit."""
    plan = empty_plan(max(len(units) if capacity is None else capacity, 1), units)
    plan.units[: len(units)] = units
    _, first, numbers = np.unique(labels, return_index=True, return_inverse=True)
    fill(plan, model, np.argsort(np.argsort(first))[numbers], len(units))
    return plan


@compiled_no_refcount
def open_group(plan: PlanArrays) -> int:
    """Return an empty group, under a new number."""
    plan.tally[VACANT] -= 1
    group = plan.members[plan.tally[VACANT], FREE]
    plan.members[group, SERIAL] = plan.tally[NEXT]
    plan.members[group, HEAD] = -1
    plan.tally[NEXT] += 1
    plan.tally[GROUPS] += 1
    return int(group)


@compiled_no_refcount
def move(plan: PlanArrays, unit: int, group: int) -> None:
    """Move a unit from its group, if it has one, to another (−1: to none); `settle` must be called for both groups."""
    links, members = plan.links, plan.members
    old, before, after = links[unit, GROUP], links[unit, BEFORE], links[unit, AFTER]
    if old >= 0:
        if before >= 0:
            links[before, AFTER] = after
        else:
            members[old, HEAD] = after
        if after >= 0:
            links[after, BEFORE] = before
    links[unit, GROUP] = group
    if group >= 0:
        head = members[group, HEAD]
        links[unit, BEFORE] = -1
        links[unit, AFTER] = head
        if head >= 0:
            links[head, BEFORE] = unit
        members[group, HEAD] = unit


@compiled_no_refcount
def settle(plan: PlanArrays, model: CostModel, group: int) -> None:
    """Compute a group's box, count and size from its members; closes it if it has none."""
    unlist_box(plan.grid, group)
    units, x1, y1, x2, y2 = plan.units, np.inf, np.inf, -np.inf, -np.inf
    count, members, unit = 0.0, 0, plan.members[group, HEAD]
    while unit >= 0:
        x1, y1 = min(x1, units[unit, 0]), min(y1, units[unit, 1])
        x2, y2 = max(x2, units[unit, 2]), max(y2, units[unit, 3])
        count += units[unit, COUNT]
        members += 1
        unit = plan.links[unit, AFTER]
    plan.members[group, UNITS] = members
    plan.groups[group, COUNT] = count
    plan.groups[group, SIZE] = 0.0
    if members == 0:
        plan.members[group, SERIAL] = -1
        plan.members[plan.tally[VACANT], FREE] = group
        plan.tally[VACANT] += 1
        plan.tally[GROUPS] -= 1
        return
    box = plan.groups[group]
    box[0], box[1], box[2], box[3] = x1, y1, x2, y2
    plan.groups[group, SIZE] = measure(x1, y1, x2, y2, model.table)
    list_box(plan.grid, group)


@compiled
def fill(plan: PlanArrays, model: CostModel, labels: Integers, n: int) -> None:
    """Put units 0 … n − 1 into groups by label; labels count from 0 in the order of first units."""
    groups, opened = np.empty(n, np.int64), 0
    for unit in range(n):
        if labels[unit] == opened:
            groups[opened] = open_group(plan)
            opened += 1
        move(plan, unit, groups[labels[unit]])
    for k in range(opened):
        settle(plan, model, groups[k])


@compiled
def add_unit(plan: PlanArrays, model: CostModel, unit: int, nearby: Integers) -> tuple[int, Floats]:
    """Add a new unit to the group where it gains most, or to its own; returns that group, and the box that it had (NaN:
    it is new).
    """
    units, groups = plan.units, plan.groups
    x1, y1, x2, y2, count = units[unit, 0], units[unit, 1], units[unit, 2], units[unit, 3], units[unit, COUNT]
    units[unit, OWN] = measure(x1, y1, x2, y2, model.table)
    content = model.channel / (model.transfer + model.waste * count)
    left, below, right, above = reach(x1, y1, x2, y2, content, model.table)
    best, most = -1, 0.0
    for k in range(near(plan.grid, left, below, right, above, nearby)):
        b = nearby[k]
        size = measure(
            min(x1, groups[b, 0]), min(y1, groups[b, 1]), max(x2, groups[b, 2]), max(y2, groups[b, 3]), model.table
        )
        gained = gain(model, count, units[unit, OWN], groups[b, COUNT], groups[b, SIZE], size)
        older = best >= 0 and plan.members[b, SERIAL] < plan.members[best, SERIAL]
        if gained > most or (gained == most and older):
            best, most = b, gained
    before = np.full(4, np.nan)
    if best < 0:
        best = open_group(plan)
    else:
        for c in range(4):
            before[c] = groups[best, c]
    move(plan, unit, best)
    settle(plan, model, best)
    return best, before


@compiled
def neighbourhood(
    plan: PlanArrays, model: CostModel, group: int, limit: int, nearby: Integers
) -> tuple[Integers, Integers, Integers]:
    """Return the units of the groups around a group, the place of each unit's group among these groups, and the groups,
    itself first (`docs/design/merging.md` §5.1).

    These are the groups whose union with it grows least beyond their own sizes, until `limit` units are included.
    """
    groups, members = plan.groups, plan.members
    x1, y1, x2, y2 = groups[group, 0], groups[group, 1], groups[group, 2], groups[group, 3]
    radius = 0.25 * (x2 - x1 + y2 - y1)
    if radius == 0.0:
        radius = 0.5 / plan.grid.frame[2]
    count = 0
    while True:
        count, total = near(plan.grid, x1 - radius, y1 - radius, x2 + radius, y2 + radius, nearby), 0
        for k in range(count):
            total += members[nearby[k], UNITS]
        if total >= 2 * limit or count == plan.tally[GROUPS]:
            break
        radius *= 2.0
    growth = np.empty(count)
    for k in range(count):
        growth[k] = joint_size(groups, group, nearby[k], model.table) - groups[group, SIZE] - groups[nearby[k], SIZE]
        if nearby[k] == group:
            growth[k] = -np.inf
    room = 2 * limit + members[group, UNITS]
    units, start, chosen = np.empty(room, np.int64), np.empty(room, np.int64), np.empty(room, np.int64)
    included, opened = 0, 0
    while included < limit:
        k = int(np.argmin(growth))
        if growth[k] == np.inf or (included > 0 and included + members[nearby[k], UNITS] > 2 * limit):
            break
        growth[k] = np.inf
        chosen[opened] = nearby[k]
        unit = members[nearby[k], HEAD]
        while unit >= 0:
            units[included] = unit
            start[included] = opened
            included += 1
            unit = plan.links[unit, AFTER]
        opened += 1
    return units[:included], start[:included], chosen[:opened]
