"""A plan that is kept while units come and go, compiled: for sizes that compiled code knows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tolerant.kernels.random import key_of
from tolerant.merging.arrays import Floats
from tolerant.merging.changes import Box, Journal
from tolerant.merging.costs import Costs
from tolerant.merging.descent import state_of
from tolerant.merging.grid import Grid
from tolerant.merging.model import Model, model_of, sizes_of
from tolerant.merging.pairs import pairs
from tolerant.merging.plan import Plan, attach, cheapest, detach, empty_plan, fill, open_group, plan_of, settle
from tolerant.merging.sizes import Table, planar
from tolerant.merging.windows import LARGEST, improve, solve

_SMALLEST = 64


class LivePlan:
    """Units in groups; a group is a channel, with a number that is never used again."""

    def __init__(self, costs: Costs, table: Table, dimensions: int) -> None:
        self._model: Model = model_of(costs, table)
        self._columns = [0, 1, 2, 3] if dimensions == 2 else [0, 2]
        self._take(empty_plan(_SMALLEST, np.zeros((0, 4))), list(range(_SMALLEST))[::-1])

    def fill(self, boxes: Floats, counts: Floats) -> None:
        """Start with these units, merged by `pairs`; unit k is row k."""
        flat = planar(boxes)
        labels, _ = pairs(flat, counts, self._model)
        room = max(_SMALLEST, 2 * len(flat))
        self._take(plan_of(flat, counts, labels, self._model, room), list(range(len(flat), room))[::-1])

    def channel_of(self, unit: int) -> int:
        """The channel that a unit is on."""
        return int(self._plan.serial[self._plan.group[unit]])

    def channels(self) -> dict[int, Box]:
        """The box of every channel."""
        slots = np.flatnonzero(self._plan.group_units > 0)
        boxes = map(tuple, self._plan.group_boxes[slots][:, self._columns].tolist())
        return dict(zip(self._plan.serial[slots].tolist(), boxes, strict=True))

    def boxes_of(self, journal: Journal) -> dict[int, Box | None]:
        """The boxes that the channels in the journal have now."""
        plan = self._plan
        return {
            channel: self._box(group) if plan.serial[group] == channel else None
            for channel in journal.boxes
            for group in [self._places[channel]]
        }

    def add(self, box: Floats, journal: Journal) -> int:
        """Add a unit of one query where it is cheapest; its number."""
        if not self._vacant:
            self._grow()
        unit, plan = self._vacant.pop(), self._plan
        plan.boxes[unit] = planar(box[None])[0]
        plan.counts[unit] = 1.0
        plan.own[unit] = sizes_of(plan.boxes[unit : unit + 1], self._model.table)[0]
        group = int(cheapest(plan, self._model, unit, self._found))
        opened = group < 0
        if opened:
            group = int(open_group(plan))
        self._touch(group, journal, opened)
        attach(plan, unit, group)
        settle(plan, self._model, group)
        journal.move(unit, None)
        return unit

    def count(self, unit: int, change: int, journal: Journal) -> None:
        """Change a unit's number of queries; without any it is taken out."""
        plan, group = self._plan, int(self._plan.group[unit])
        self._touch(group, journal)
        plan.counts[unit] += change
        if plan.counts[unit] == 0.0:
            detach(plan, unit)
            self._vacant.append(unit)
        settle(plan, self._model, group)

    def repair(self, channel: int, seed: int, turn: int, tries: int, hysteresis: float, journal: Journal) -> None:
        """Solve the window around a channel of the journal again, if it is still there."""
        group, plan = self._places[channel], self._plan
        if plan.serial[group] != channel:
            return
        groups, boxes, moves = solve(
            plan, self._model, group, tries, key_of(seed, turn), hysteresis, self._found, self._state
        )
        for (slot, serial), box in zip(groups.tolist(), boxes, strict=True):
            self._places[serial] = slot
            journal.touch(serial, tuple(box[self._columns].tolist()))
        for unit, before, after in moves.tolist():
            if before != after:
                self._touch(int(plan.group[unit]), journal, True)
                journal.move(unit, before)

    def improve(self, seed: int, turn: int, rounds: int, tries: int, hysteresis: float, journal: Journal) -> None:
        """Solve the windows around all channels again, `rounds` times."""
        plan = self._plan
        there = np.flatnonzero(plan.group >= 0)
        slots = np.flatnonzero(plan.group_units > 0)
        was = plan.serial[plan.group[there]]
        for slot, serial, box in zip(slots, plan.serial[slots].tolist(), plan.group_boxes[slots], strict=True):
            self._places[serial] = int(slot)
            journal.touch(serial, tuple(box[self._columns].tolist()))
        improve(plan, self._model, key_of(seed, turn), rounds=rounds, tries=tries, hysteresis=hysteresis)
        now = plan.serial[plan.group[there]]
        for k in np.flatnonzero(was != now).tolist():
            self._touch(int(plan.group[there[k]]), journal, True)
            journal.move(int(there[k]), int(was[k]))

    def reprice(self, costs: Costs, table: Table) -> None:
        """Go on with other prices or sizes; groups stay as they are."""
        self._model, plan = model_of(costs, table), self._plan
        plan.own[:] = sizes_of(plan.boxes, table)
        plan.group_sizes[:] = np.where(plan.group_units > 0, sizes_of(plan.group_boxes, table), 0.0)

    def cost(self) -> float:
        """Σ c(M) − K_U·Σ size(q)."""
        plan, model = self._plan, self._model
        some, there = plan.group_units > 0, plan.group >= 0
        counts, sizes = plan.group_counts[some], plan.group_sizes[some]
        wanted = model.waste * (plan.own[there] * plan.counts[there]).sum()
        return float((model.channel + (model.transfer + model.waste * counts) * sizes).sum() - wanted)

    def state(self) -> dict[str, NDArray[Any]]:
        """Everything as arrays."""
        own = {f"plan.{name}": value for name, value in zip(Plan._fields, self._plan, strict=True) if name != "grid"}
        inner = zip(Grid._fields, self._plan.grid, strict=True)
        own |= {f"grid.{name}": value for name, value in inner if name != "boxes"}
        return {**{name: np.array(value) for name, value in own.items()}, "vacant": np.array(self._vacant, np.int64)}

    def load(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        """Become what `state` was taken of."""
        own = {name: np.array(arrays[f"plan.{name}"]) for name in Plan._fields if name != "grid"}
        inner = {name: np.array(arrays[f"grid.{name}"]) for name in Grid._fields if name != "boxes"}
        self._take(Plan(grid=Grid(boxes=own["group_boxes"], **inner), **own), arrays["vacant"].tolist())

    def _take(self, plan: Plan, vacant: list[int]) -> None:
        self._plan, self._vacant = plan, vacant
        self._found, self._state = np.empty(len(plan.counts), np.int64), state_of(LARGEST)
        self._places: dict[int, int] = {}  # the group of each channel that is being changed

    def _touch(self, group: int, journal: Journal, opened: bool = False) -> None:
        channel = int(self._plan.serial[group])
        self._places[channel] = group
        journal.touch(channel, None if opened else self._box(group))

    def _box(self, group: int) -> Box:
        return tuple(self._plan.group_boxes[group, self._columns].tolist())

    def forget(self) -> None:
        """The change is told: what was noted for it is of no use any more."""
        self._places.clear()

    def _grow(self) -> None:
        """Twice the room, and a grid that fits what there is; units keep their numbers, channels theirs."""
        old = self._plan
        n, serials = len(old.counts), old.serial[old.group]
        plan = empty_plan(2 * n, old.boxes)
        plan.boxes[:n], plan.counts[:n] = old.boxes, old.counts
        _, first, numbers = np.unique(serials, return_index=True, return_inverse=True)
        fill(plan, self._model, np.argsort(np.argsort(first))[numbers], n)
        plan.serial[plan.group[first]] = serials[first]
        plan.tally[1], plan.tally[3] = old.tally[1], old.tally[3]
        self._take(plan, list(range(n, 2 * n))[::-1])
