"""Improves a plan one window at a time: a few neighbouring groups are solved again on their own.

The rest of the plan is unchanged, because cost is additive over groups (`docs/design/merging.md` §5.1).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tolerant.kernels.array_types import Floats, Integers
from tolerant.kernels.compiled import compiled_no_refcount
from tolerant.kernels.random import absorbed
from tolerant.merging.compiled_descent import TINY, search
from tolerant.merging.cost_model import CostModel
from tolerant.merging.plan_arrays import (
    COUNT,
    GROUP,
    SERIAL,
    SIZE,
    UNITS,
    PlanArrays,
    move,
    neighbourhood,
    open_group,
    settle,
)

WINDOW = 20
"""Approximate number of units in a window."""

LARGEST = 8 * WINDOW
"""A window with more units than this, from a very large group, is not solved again: it would take too long."""


@dataclass(frozen=True)
class SolvedWindow:
    """A window for which a better solution was adopted: its `groups` int[g], their numbers `serials` and `boxes`
    float[g, 4] before, its `units` int[k], and the number of the channel of each unit before, `before` int[k].
    """

    groups: Integers
    serials: Integers
    boxes: Floats
    units: Integers
    before: Integers


class WindowSolver:
    """Solves windows of a plan again; `evaluations` counts the gains evaluated."""

    def __init__(self, plan: PlanArrays, model: CostModel, *, tries: int, hysteresis: float = 0.0) -> None:
        self._plan, self._model = plan, model
        self._tries, self._hysteresis = tries, hysteresis
        self._nearby = np.empty(len(plan.units), np.int64)
        self.evaluations = 0

    def solve(self, group: int, key: np.uint64) -> SolvedWindow | None:
        """Solve the window around a group again; returns its former state if a better solution was adopted.

        Better: cheaper by more than `hysteresis` per query that moves.
        """
        plan, model = self._plan, self._model
        units, start, groups = neighbourhood(plan, model, group, WINDOW, self._nearby)
        if not 2 <= len(units) <= LARGEST:
            return None
        labels, cost, evaluated = search(start, plan.units[units], model, False, self._tries, key)
        self.evaluations += evaluated
        rows = plan.groups[groups]
        before = float((model.channel + (model.transfer + model.waste * rows[:, COUNT]) * rows[:, SIZE]).sum())
        saved = before - cost
        if not saved > TINY * before:
            return None
        target = _matched(plan.units[units, COUNT], start, labels, groups)
        moved = float(plan.units[units[target[labels] != groups[start]], COUNT].sum())
        if not saved > self._hysteresis * moved:
            return None
        serials = plan.members[groups, SERIAL]
        _regroup(plan, model, units, labels, target, groups)
        return SolvedWindow(groups, serials, rows[:, :4], units, serials[start])

    def sweep(self, key: np.uint64) -> int:
        """Solve the window around every group once; returns how many were improved."""
        better = 0
        for group in np.flatnonzero(self._plan.members[:, UNITS]).tolist():
            if self._plan.members[group, UNITS]:
                better += self.solve(group, np.uint64(absorbed(key, np.uint64(group)))) is not None
        return better

    def improve(self, key: np.uint64, *, rounds: int, patience: int = 3) -> None:
        """Sweep `rounds` times, or until `patience` consecutive sweeps improve nothing."""
        idle = 0
        for turn in range(rounds):
            idle = 0 if self.sweep(np.uint64(absorbed(key, np.uint64(turn)))) else idle + 1
            if idle >= patience:
                break


def _matched(counts: Floats, start: Integers, labels: Integers, groups: Integers) -> Integers:
    """For each new label the old group from which most of its queries come; −1 where another label has that group."""
    shared = np.zeros((len(labels), len(groups)))
    np.add.at(shared, (labels, start), counts)
    match = np.full(len(labels), -1, np.int64)
    while True:
        label, at = divmod(int(np.argmax(shared)), len(groups))
        if shared[label, at] == 0.0:
            return match
        match[label] = groups[at]
        shared[label], shared[:, at] = 0.0, 0.0


@compiled_no_refcount
def _regroup(
    plan: PlanArrays, model: CostModel, units: Integers, labels: Integers, target: Integers, groups: Integers
) -> None:
    for k in range(len(units)):
        if target[labels[k]] < 0:
            target[labels[k]] = open_group(plan)
        if target[labels[k]] != plan.links[units[k], GROUP]:
            move(plan, units[k], target[labels[k]])
    kept = len(target)
    for k in range(kept + len(groups)):
        group = target[k] if k < kept else groups[k - kept]
        # A group of the window that no label continues has lost all its units.
        if group >= 0 and (k < kept or plan.members[group, 1] < 0):
            settle(plan, model, group)
