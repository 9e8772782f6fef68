"""A plan that changes: units, their groups and where these are, in arrays, for compiled code.

A group's box and size are always made anew from its members, so that nothing drifts.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tolerant.kernels.compiled import compiled
from tolerant.merging.arrays import Floats, Integers
from tolerant.merging.grid import Grid, grid_over, list_box, near, unlist_box
from tolerant.merging.model import Model, gain, joint_size, price
from tolerant.merging.sizes import measure, reach


class Plan(NamedTuple):
    """Units and groups, numbered from 0 to the capacity; a unit or group that is not there has no queries."""

    boxes: Floats  # [capacity, 4]
    counts: Floats  # queries of each unit
    own: Floats  # its size
    group: Integers  # −1: not there
    after: Integers  # the next unit of its group
    before: Integers
    group_boxes: Floats
    group_counts: Floats  # queries of each group
    group_units: Integers
    group_sizes: Floats
    head: Integers  # a group's first unit
    serial: Integers  # the number of the channel: never used again
    free: Integers  # groups that are not there, as a stack
    tally: Integers  # [free groups, next serial, groups, gains evaluated]
    grid: Grid


FREE, SERIAL, GROUPS, EVALUATED = range(4)
"""What `Plan.tally` counts."""


def empty_plan(capacity: int, sample: Floats) -> Plan:
    """Room for so many units; `sample` float[n, 4] says where boxes will be."""
    group_boxes = np.zeros((capacity, 4))
    return Plan(
        boxes=np.zeros((capacity, 4)),
        counts=np.zeros(capacity),
        own=np.zeros(capacity),
        group=np.full(capacity, -1, np.int64),
        after=np.full(capacity, -1, np.int64),
        before=np.full(capacity, -1, np.int64),
        group_boxes=group_boxes,
        group_counts=np.zeros(capacity),
        group_units=np.zeros(capacity, np.int64),
        group_sizes=np.zeros(capacity),
        head=np.full(capacity, -1, np.int64),
        serial=np.full(capacity, -1, np.int64),
        free=np.arange(capacity)[::-1].copy(),
        tally=np.array([capacity, 0, 0, 0], np.int64),
        grid=grid_over(group_boxes, sample),
    )


def plan_of(boxes: Floats, counts: Floats, labels: Integers, model: Model, capacity: int | None = None) -> Plan:
    """The plan that has units with these labels in one group; groups are numbered by first unit."""
    room = max(len(boxes) if capacity is None else capacity, 1)
    plan = empty_plan(room, boxes)
    plan.boxes[: len(boxes)], plan.counts[: len(boxes)] = boxes, counts
    _, first, numbers = np.unique(labels, return_index=True, return_inverse=True)
    fill(plan, model, np.argsort(np.argsort(first))[numbers], len(boxes))
    return plan


@compiled
def fill(plan: Plan, model: Model, labels: Integers, n: int) -> None:
    """Put units 0 … n − 1 into groups by label; labels count from 0 in the order of first units."""
    groups = np.empty(n, np.int64)
    opened = 0
    for unit in range(n):
        box = plan.boxes[unit]
        plan.own[unit] = measure(box[0], box[1], box[2], box[3], model.table)
        if labels[unit] == opened:
            groups[opened] = open_group(plan)
            opened += 1
        attach(plan, unit, groups[labels[unit]])
    for k in range(opened):
        settle(plan, model, groups[k])


@compiled
def open_group(plan: Plan) -> int:
    """An empty group, under a new serial number."""
    plan.tally[FREE] -= 1
    group = plan.free[plan.tally[FREE]]
    plan.serial[group] = plan.tally[SERIAL]
    plan.tally[SERIAL] += 1
    plan.tally[GROUPS] += 1
    plan.head[group] = -1
    return int(group)


@compiled
def attach(plan: Plan, unit: int, group: int) -> None:
    """Put a unit into a group, which has to be settled afterwards."""
    plan.group[unit] = group
    plan.before[unit] = -1
    plan.after[unit] = plan.head[group]
    if plan.head[group] >= 0:
        plan.before[plan.head[group]] = unit
    plan.head[group] = unit


@compiled
def detach(plan: Plan, unit: int) -> None:
    """Take a unit out of its group, which has to be settled afterwards."""
    before, after = plan.before[unit], plan.after[unit]
    if before >= 0:
        plan.after[before] = after
    else:
        plan.head[plan.group[unit]] = after
    if after >= 0:
        plan.before[after] = before
    plan.group[unit] = -1


@compiled
def settle(plan: Plan, model: Model, group: int) -> None:
    """Make a group's box, count and size anew from its members; without any, it is closed."""
    unlist_box(plan.grid, group)
    x1, y1, x2, y2 = np.inf, np.inf, -np.inf, -np.inf
    count, units = 0.0, 0
    unit = plan.head[group]
    while unit >= 0:
        x1, y1 = min(x1, plan.boxes[unit, 0]), min(y1, plan.boxes[unit, 1])
        x2, y2 = max(x2, plan.boxes[unit, 2]), max(y2, plan.boxes[unit, 3])
        count += plan.counts[unit]
        units += 1
        unit = plan.after[unit]
    plan.group_units[group] = units
    plan.group_counts[group] = count
    if units == 0:
        plan.group_sizes[group] = 0.0
        plan.serial[group] = -1
        plan.free[plan.tally[FREE]] = group
        plan.tally[FREE] += 1
        plan.tally[GROUPS] -= 1
        return
    box = plan.group_boxes[group]
    box[0], box[1], box[2], box[3] = x1, y1, x2, y2
    plan.group_sizes[group] = measure(x1, y1, x2, y2, model.table)
    list_box(plan.grid, group)


@compiled
def cheapest(plan: Plan, model: Model, unit: int, found: Integers) -> int:
    """The group that a unit had best join, −1: a channel of its own is cheaper."""
    count = plan.counts[unit]
    content = model.channel / (model.transfer + model.waste * count)
    box = plan.boxes[unit]
    x1, y1, x2, y2 = reach(box[0], box[1], box[2], box[3], content, model.table)
    best, most, oldest = -1, 0.0, -1
    for k in range(near(plan.grid, x1, y1, x2, y2, found)):
        group = found[k]
        other = plan.group_boxes[group]
        size = measure(
            min(box[0], other[0]), min(box[1], other[1]), max(box[2], other[2]), max(box[3], other[3]), model.table
        )
        gained = gain(model, count, plan.own[unit], plan.group_counts[group], plan.group_sizes[group], size)
        if gained > most or (gained == most and best >= 0 and plan.serial[group] < oldest):
            best, most, oldest = group, gained, plan.serial[group]
    return best


@compiled
def neighbourhood(plan: Plan, model: Model, group: int, limit: int, found: Integers) -> tuple[Integers, int]:
    """The groups around a group, itself first, and how many units they have (`specs/4-merging.md` §5.1).

    Those whose union with it grows least beyond their own sizes, until `limit` units are in.
    """
    box = plan.group_boxes[group]
    radius = 0.25 * (box[2] - box[0] + box[3] - box[1])
    if radius == 0.0:
        radius = 0.5 / plan.grid.frame[2]
    while True:
        count, units = near(plan.grid, box[0] - radius, box[1] - radius, box[2] + radius, box[3] + radius, found), 0
        for k in range(count):
            units += plan.group_units[found[k]]
        if units >= 2 * limit or count == plan.tally[GROUPS]:
            break
        radius *= 2.0
    growth = np.empty(count)
    for k in range(count):
        other = found[k]
        growth[k] = -np.inf
        if other != group:
            joint = joint_size(plan.group_boxes, group, other, model.table)
            growth[k] = joint - plan.group_sizes[group] - plan.group_sizes[other]
    chosen, taken, units = np.empty(count, np.int64), 0, 0
    for k in np.argsort(growth, kind="mergesort"):
        if units >= limit or (taken > 0 and units + plan.group_units[found[k]] > 2 * limit):
            break
        chosen[taken] = found[k]
        taken += 1
        units += plan.group_units[found[k]]
    return chosen[:taken], units


@compiled
def prices_of(plan: Plan, model: Model, groups: Integers) -> float:
    """Σ c(M) of these groups."""
    total = 0.0
    for group in groups:
        total += price(model, plan.group_counts[group], plan.group_sizes[group])
    return total
