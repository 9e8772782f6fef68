"""A plan that is kept while units change, compiled: for sizes that compiled code knows."""

from __future__ import annotations

import numpy as np

from tolerant.kernels.array_types import Floats, Integers
from tolerant.kernels.random import key_of
from tolerant.kernels.snapshots import State
from tolerant.merging.channel_changes import Box, Journal, RepairSearch
from tolerant.merging.compiled_descent import units_of
from tolerant.merging.cost_model import CostModel, model_of
from tolerant.merging.costs import Costs
from tolerant.merging.grid import Grid
from tolerant.merging.pair_merging import pairs
from tolerant.merging.plan_arrays import (
    COUNT,
    GROUP,
    NEXT,
    OWN,
    SERIAL,
    SIZE,
    UNITS,
    PlanArrays,
    add_unit,
    empty_plan,
    move,
    plan_of,
    settle,
)
from tolerant.merging.sizes import SizeTable, planar, sizes_of
from tolerant.merging.windows import WindowSolver

_SMALLEST = 64

_PLAN = tuple(name for name in PlanArrays._fields if name != "grid")
_GRID = tuple(name for name in Grid._fields if name != "boxes")  # which are those of the groups


class CompiledPlan:
    """Units in groups; a group is a channel, with a number that is never used again."""

    def __init__(self, costs: Costs, table: SizeTable, dimensions: int) -> None:
        self._model: CostModel = model_of(costs, table)
        self._columns = [0, 1, 2, 3] if dimensions == 2 else [0, 2]
        self._use(empty_plan(_SMALLEST, np.zeros((0, 4))), list(range(_SMALLEST))[::-1])

    def fill(self, boxes: Floats, counts: Floats) -> None:
        """Start with these units, merged by `pairs`; unit k is row k."""
        flat = planar(boxes)
        labels, _ = pairs(flat, counts, self._model)
        room = max(_SMALLEST, 2 * len(flat))
        units = units_of(flat, counts, sizes_of(flat, self._model.table))
        self._use(plan_of(units, labels, self._model, room), list(range(len(flat), room))[::-1])

    def channel_of(self, unit: int) -> int:
        """Return the channel of a unit."""
        return int(self._plan.members[self._plan.links[unit, GROUP], SERIAL])

    def channels(self) -> dict[int, Box]:
        """Return the box of every channel."""
        slots = np.flatnonzero(self._plan.members[:, UNITS])
        boxes = map(tuple, self._plan.groups[slots][:, self._columns].tolist())
        return dict(zip(self._plan.members[slots, SERIAL].tolist(), boxes, strict=True))

    def boxes_of(self, journal: Journal) -> dict[int, Box | None]:
        """Return the current boxes of the channels in the journal."""
        slots = {channel: self._group_of_channel[channel] for channel in journal.boxes}
        serials = self._plan.members[:, SERIAL]
        return {
            channel: self._box(self._plan.groups[slot]) if serials[slot] == channel else None
            for channel, slot in slots.items()
        }

    def add(self, box: Floats, journal: Journal) -> int:
        """Add a unit of one query where it is cheapest; returns its number."""
        if not self._vacant:
            self._grow()
        unit, plan = self._vacant.pop(), self._plan
        plan.units[unit, :4], plan.units[unit, COUNT] = planar(box[None])[0], 1.0
        group, before = add_unit(plan, self._model, unit, self._nearby)
        self._touch(group, journal, None if np.isnan(before[0]) else before)
        journal.move(unit, None)
        return unit

    def count(self, unit: int, change: int, journal: Journal) -> None:
        """Change a unit's number of queries; without any, the unit is removed."""
        plan, group = self._plan, int(self._plan.links[unit, GROUP])
        self._touch(group, journal, plan.groups[group])
        plan.units[unit, COUNT] += change
        if plan.units[unit, COUNT] == 0.0:
            move(plan, unit, -1)
            self._vacant.append(unit)
        settle(plan, self._model, group)

    def repair(self, channel: int, search: RepairSearch, journal: Journal) -> None:
        """Solve the window around a channel of the journal again, if the channel still exists."""
        group, plan = self._group_of_channel[channel], self._plan
        if plan.members[group, SERIAL] != channel:
            return
        solver = WindowSolver(plan, self._model, tries=search.tries, hysteresis=search.hysteresis)
        window = solver.solve(group, key_of(search.seed, search.turn))
        if window is None:
            return
        for slot, serial, box in zip(window.groups.tolist(), window.serials.tolist(), window.boxes, strict=True):
            self._group_of_channel[serial] = slot
            journal.touch(serial, self._box(box))
        self._moved(window.units, window.before, journal)

    def improve(self, rounds: int, search: RepairSearch, journal: Journal) -> None:
        """Solve the windows around all channels again, `rounds` times."""
        plan = self._plan
        units = np.flatnonzero(plan.links[:, GROUP] >= 0)
        before = plan.members[plan.links[units, GROUP], SERIAL]
        for slot in np.flatnonzero(plan.members[:, UNITS]).tolist():
            self._touch(slot, journal, plan.groups[slot])
        solver = WindowSolver(plan, self._model, tries=search.tries, hysteresis=search.hysteresis)
        solver.improve(key_of(search.seed, search.turn), rounds=rounds)
        self._moved(units, before, journal)

    def _moved(self, units: Integers, before: Integers, journal: Journal) -> None:
        """Record the units whose channel differs from that before."""
        groups = self._plan.links[units, GROUP]
        for k in np.flatnonzero(self._plan.members[groups, SERIAL] != before).tolist():
            self._touch(int(groups[k]), journal, None)
            journal.move(int(units[k]), int(before[k]))

    def reprice(self, costs: Costs, table: SizeTable) -> None:
        """Continue with other prices or sizes; groups stay as they are."""
        self._model, plan = model_of(costs, table), self._plan
        plan.units[:, OWN] = sizes_of(plan.units, table)
        plan.groups[:, SIZE] = np.where(plan.members[:, UNITS] > 0, sizes_of(plan.groups, table), 0.0)

    def cost(self) -> float:
        """Return Σ c(M) − K_U·Σ size(q)."""
        model, groups = self._model, self._plan.groups[self._plan.members[:, UNITS] > 0]
        units = self._plan.units[self._plan.links[:, GROUP] >= 0]
        prices = model.channel + (model.transfer + model.waste * groups[:, COUNT]) * groups[:, SIZE]
        return float(prices.sum() - model.waste * (units[:, OWN] * units[:, COUNT]).sum())

    def state(self) -> State:
        """Return the plan's arrays, for a snapshot."""
        return State(
            plan=State({name: np.array(getattr(self._plan, name)) for name in _PLAN}),
            grid=State({name: np.array(getattr(self._plan.grid, name)) for name in _GRID}),
            vacant=list(self._vacant),
        )

    def load(self, state: State) -> None:
        """Restore what `state` returned."""
        plan, grid, vacant = state.exactly("plan", "grid", "vacant")
        own = dict(zip(_PLAN, plan.exactly(*_PLAN), strict=True))
        inner = dict(zip(_GRID, grid.exactly(*_GRID), strict=True))
        self._use(PlanArrays(grid=Grid(boxes=own["groups"], **inner), **own), vacant)

    def forget(self) -> None:
        """Drop the notes for the change that was just reported."""
        self._group_of_channel.clear()

    def _use(self, plan: PlanArrays, vacant: list[int]) -> None:
        self._plan, self._vacant = plan, vacant
        self._nearby = np.empty(len(plan.units), np.int64)
        self._group_of_channel: dict[int, int] = {}  # for the channels that are being changed

    def _touch(self, group: int, journal: Journal, before: Floats | None) -> None:
        channel = int(self._plan.members[group, SERIAL])
        self._group_of_channel[channel] = group
        journal.touch(channel, None if before is None else self._box(before))

    def _box(self, row: Floats) -> Box:
        return tuple(row[self._columns].tolist())

    def _grow(self) -> None:
        """Double the room, with a grid that fits the current groups; units and channels keep their numbers."""
        old, changing = self._plan, self._group_of_channel
        n, serials = len(old.units), old.members[old.links[:, GROUP], SERIAL]
        plan = plan_of(old.units, serials, self._model, 2 * n)
        _, first = np.unique(serials, return_index=True)
        plan.members[plan.links[first, GROUP], SERIAL] = serials[first]
        plan.tally[NEXT] = old.tally[NEXT]
        self._use(plan, list(range(n, 2 * n))[::-1])
        slots = {serial: slot for slot, serial in enumerate(plan.members[:, SERIAL].tolist()) if serial >= 0}
        self._group_of_channel = {channel: slots.get(channel, 0) for channel in changing}
