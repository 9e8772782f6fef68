"""A plan that is kept while units change, for any size function: in Python, for hundreds of units."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from tolerant.kernels.array_types import Floats, Integers
from tolerant.kernels.random import key_of
from tolerant.kernels.snapshots import State
from tolerant.merging.channel_changes import Box, Journal, RepairSearch
from tolerant.merging.compiled_descent import TINY
from tolerant.merging.costs import Costs
from tolerant.merging.general_descent import grouped, search_lists
from tolerant.merging.general_pair_merging import general_pairs, mergeable_groups
from tolerant.merging.pricing import Pricing
from tolerant.merging.sizes import Size, measured
from tolerant.merging.units import Units
from tolerant.merging.windows import LARGEST, WINDOW


class GeneralPlan:
    """Does what `CompiledPlan` does, in Python and NumPy."""

    def __init__(self, costs: Costs, size: Size, dimensions: int) -> None:
        self._costs, self._size, self._half = costs, size, dimensions
        self._boxes: dict[int, Floats] = {}
        self._counts: dict[int, int] = {}
        self._channel_of_unit: dict[int, int] = {}  # the channel of each unit
        self._units: dict[int, list[int]] = {}  # the units of each channel
        self._next_unit = self._next_channel = 0

    def fill(self, boxes: Floats, counts: Floats) -> None:
        """Start with these units, merged by `pairs`; unit k is row k."""
        for box, count in zip(boxes, counts.tolist(), strict=True):
            self._boxes[self._next_unit], self._counts[self._next_unit] = box.copy(), int(count)
            self._next_unit += 1
        labels, _ = general_pairs(mergeable_groups(self._pricing(list(range(len(boxes))))), len(boxes))
        for group in sorted(grouped(labels)):
            self._open(list(group))

    def channel_of(self, unit: int) -> int:
        """Return the channel of a unit."""
        return self._channel_of_unit[unit]

    def channels(self) -> dict[int, Box]:
        """Return the box of every channel."""
        return {channel: self._box(channel) for channel in self._units}

    def boxes_of(self, journal: Journal) -> dict[int, Box | None]:
        """Return the current boxes of the channels in the journal."""
        return {channel: self._box(channel) if channel in self._units else None for channel in journal.boxes}

    def add(self, box: Floats, journal: Journal) -> int:
        """Add a unit of one query where it is cheapest; returns its number."""
        unit = self._next_unit
        self._next_unit += 1
        self._boxes[unit], self._counts[unit] = np.array(box), 1
        channels = list(self._units)
        alone, gains = self._pricing([unit]).of([[0]])[0], np.zeros(0)
        if channels:
            joint = self._prices([[*self._units[channel], unit] for channel in channels])
            gains = self._prices([self._units[channel] for channel in channels]) + alone - joint
        if len(gains) and gains.max() > 0:
            channel = channels[int(np.argmax(gains))]
            journal.touch(channel, self._box(channel))
            self._units[channel].append(unit)
            self._channel_of_unit[unit] = channel
        else:
            journal.touch(self._open([unit]), None)
        journal.move(unit, None)
        return unit

    def count(self, unit: int, change: int, journal: Journal) -> None:
        """Change a unit's number of queries; without any, the unit is removed."""
        channel = self._channel_of_unit[unit]
        journal.touch(channel, self._box(channel))
        self._counts[unit] += change
        if self._counts[unit] == 0:
            self._remove_unit(unit)
            del self._boxes[unit], self._counts[unit], self._channel_of_unit[unit]

    def repair(self, channel: int, search: RepairSearch, journal: Journal) -> None:
        """Solve the window around a channel again, if the channel still exists."""
        if channel not in self._units:
            return
        chosen = self._window(channel)
        units = [unit for member in chosen for unit in self._units[member]]
        if not 2 <= len(units) <= LARGEST:
            return
        start = np.repeat(np.arange(len(chosen)), [len(self._units[member]) for member in chosen])
        pricing = self._pricing(units)
        before = float(pricing.of(grouped(start)).sum())
        labels, cost, _ = search_lists(
            pricing, start, whole=False, tries=search.tries, key=key_of(search.seed, search.turn)
        )
        target = self._matched(units, labels)
        moved = sum(
            self._counts[unit] for k, unit in enumerate(units) if target[labels[k]] != self._channel_of_unit[unit]
        )
        if before - cost > max(TINY * before, search.hysteresis * moved):
            for member in chosen:
                journal.touch(member, self._box(member))
            self._regroup(units, labels, target, journal)

    def improve(self, rounds: int, search: RepairSearch, journal: Journal) -> None:
        """Solve the windows around all channels again, `rounds` times."""
        for number in range(rounds):
            for channel in list(self._units):
                turn = int(key_of(search.turn, number, channel))
                self.repair(channel, replace(search, turn=turn), journal)

    def reprice(self, costs: Costs, size: Size) -> None:
        """Continue with other prices or sizes; groups stay as they are."""
        self._costs, self._size = costs, size

    def cost(self) -> float:
        """Return Σ c(M) − K_U·Σ size(q)."""
        if not self._units:
            return 0.0
        return float(self._prices(list(self._units.values())).sum() - self._pricing(list(self._boxes)).constant)

    def state(self) -> State:
        """Return the units with their channels, for a snapshot."""
        units = [unit for members in self._units.values() for unit in members]  # their order decides later ties
        return State(
            boxes=np.array([self._boxes[unit] for unit in units]).reshape(-1, 2 * self._half),
            counts=np.array([self._counts[unit] for unit in units], np.int64),
            units=np.array(units, np.int64),
            channels=np.array([self._channel_of_unit[unit] for unit in units], np.int64),
            next_unit=self._next_unit,
            next_channel=self._next_channel,
        )

    def load(self, state: State) -> None:
        """Restore what `state` returned."""
        boxes, counts, units, channels, self._next_unit, self._next_channel = state.exactly(
            "boxes", "counts", "units", "channels", "next_unit", "next_channel"
        )
        self._units.clear()
        for unit, box, count, channel in zip(units.tolist(), boxes, counts.tolist(), channels.tolist(), strict=True):
            self._boxes[unit], self._counts[unit], self._channel_of_unit[unit] = np.array(box), count, channel
            self._units.setdefault(channel, []).append(unit)

    def forget(self) -> None:
        """Do nothing: this plan keeps no notes for a change."""

    def _open(self, units: list[int]) -> int:
        channel = self._next_channel
        self._next_channel += 1
        self._units[channel] = units
        self._channel_of_unit.update(dict.fromkeys(units, channel))
        return channel

    def _remove_unit(self, unit: int) -> None:
        channel = self._channel_of_unit[unit]
        self._units[channel].remove(unit)
        if not self._units[channel]:
            del self._units[channel]

    def _box(self, channel: int) -> Box:
        boxes = np.array([self._boxes[unit] for unit in self._units[channel]])
        lows, highs = boxes[:, : self._half].min(axis=0), boxes[:, self._half :].max(axis=0)
        return (*lows.tolist(), *highs.tolist())

    def _pricing(self, units: list[int]) -> Pricing:
        boxes = np.array([self._boxes[unit] for unit in units]).reshape(-1, 2 * self._half)
        counts = np.array([self._counts[unit] for unit in units], np.float64)
        every = np.ones(len(units), np.int64)
        return Pricing(Units(boxes, counts, every, np.arange(len(units))), self._costs, self._size)

    def _prices(self, groups: list[list[int]]) -> Floats:
        units = list(dict.fromkeys(unit for group in groups for unit in group))
        place = {unit: k for k, unit in enumerate(units)}
        return self._pricing(units).of([[place[unit] for unit in group] for group in groups])

    def _window(self, channel: int) -> list[int]:
        """The channels whose union with this one grows least beyond their own sizes, this one first."""
        others = [other for other in self._units if other != channel]
        if not others:
            return [channel]
        boxes, mine = np.array([self._box(other) for other in others]), np.array(self._box(channel))
        joint = np.concatenate(
            [np.minimum(boxes, mine)[:, : self._half], np.maximum(boxes, mine)[:, self._half :]], axis=1
        )
        growth = measured(self._size, joint) - measured(self._size, boxes)
        chosen, units = [channel], len(self._units[channel])
        for k in np.argsort(growth, kind="stable").tolist():
            if units >= WINDOW or units + len(self._units[others[k]]) > 2 * WINDOW:
                break
            chosen.append(others[k])
            units += len(self._units[others[k]])
        return chosen

    def _matched(self, units: list[int], labels: Integers) -> dict[int, int]:
        """For each label the channel from which most of its queries come; −1 where another label has that channel."""
        shared: dict[tuple[int, int], int] = {}
        for unit, label in zip(units, labels.tolist(), strict=True):
            shared[label, self._channel_of_unit[unit]] = (
                shared.get((label, self._channel_of_unit[unit]), 0) + self._counts[unit]
            )
        match = dict.fromkeys(labels.tolist(), -1)
        for label, channel in sorted(shared, key=lambda pair: (-shared[pair], pair)):
            if match[label] < 0 and channel not in match.values():
                match[label] = channel
        return match

    def _regroup(self, units: list[int], labels: Integers, target: dict[int, int], journal: Journal) -> None:
        for unit, label in zip(units, labels.tolist(), strict=True):
            before = self._channel_of_unit[unit]
            if target[label] == before:
                continue
            journal.move(unit, before)
            self._remove_unit(unit)
            if target[label] < 0 or target[label] not in self._units:
                target[label] = self._open([unit])
                journal.touch(target[label], None)
            else:
                self._units[target[label]].append(unit)
                self._channel_of_unit[unit] = target[label]
