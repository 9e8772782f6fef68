"""Steepest descent on the cost over moves of items and of parts (`docs/design/planning.md` §2.7)."""

from __future__ import annotations

import numpy as np

from tolerant.kernels.compiled import compiled, compiled_no_refcount
from tolerant.planning.optimizer.assignment import PartRates, PartSums, rate_parts, sums_of, total_cost
from tolerant.planning.optimizer.plan_problem import PlanProblem, offset_of, roughness_of
from tolerant.planning.planning_arrays import SLACK, Flags, Integers

LEAST = 1e-9
"""The least fraction of the cost that a step must save."""


@compiled
def descend(problem: PlanProblem, owner: Integers) -> float:
    """Improve `owner` in place until no step does; return its cost.

    A step gives some items to an aggregator that serves them: one item, everything that it serves, or a whole part.
    """
    m, n = problem.floors.shape
    before, kept = np.inf, owner.copy()
    items, taken, changed = np.empty(n, np.int64), np.empty(n, np.int64), np.zeros(m, np.bool_)
    while True:
        s = sums_of(problem, owner)
        r = rate_parts(problem, s)
        cost = total_cost(problem.extreme, problem.within, r)
        if cost >= before:  # sums of items that cancel are inexact: what looked better was not
            for i in range(n):
                owner[i] = kept[i]
            return before
        before, kept = cost, owner.copy()
        best = cost if cost == np.inf else cost * (1.0 - LEAST)
        moved, to = 0, -1
        scratch = _copied(s)
        trial = PartRates(r.slopes.copy(), r.floors.copy(), r.offsets.copy())
        for subject in range(n + m + m):  # an item, all that an aggregator serves, a part
            for a in range(m):
                count = _candidates(problem, owner, subject, a, items)
                if count == 0:
                    continue
                _move_items(problem, owner, s, items, count, a, scratch, changed)
                _rate(problem, scratch, changed, trial)
                trial_cost = _cost_if_promising(problem, trial, best)
                if trial_cost < best:
                    best, moved, to = trial_cost, count, a
                    for k in range(count):
                        taken[k] = items[k]
                _restore(s, r, scratch, trial, changed)
        if to < 0:
            return cost
        for k in range(moved):
            owner[taken[k]] = to


@compiled
def _copied(s: PartSums) -> PartSums:
    return PartSums(
        s.size.copy(),
        s.num.copy(),
        s.den.copy(),
        s.apart.copy(),
        s.weight.copy(),
        s.floor.copy(),
        s.squares.copy(),
        s.rows,
        s.mixed,
    )


@compiled_no_refcount
def _candidates(problem: PlanProblem, owner: Integers, subject: int, a: int, items: Integers) -> int:
    """Write the items that step `subject` would give to `a`, and return how many; 0: no such step."""
    m, n = problem.floors.shape
    if subject < n:
        items[0] = subject
        return 1 if owner[subject] != a and problem.floors[a, subject] < np.inf else 0
    count = 0
    if subject < n + m:
        if subject - n == a:
            for i in range(n):
                if owner[i] != a and problem.floors[a, i] < np.inf:
                    items[count] = i
                    count += 1
        return count if count > 1 else 0  # single items are steps of their own
    part = subject - n - m
    if part == a:
        return 0
    for i in range(n):
        if owner[i] == part:
            if problem.floors[a, i] == np.inf:
                return 0
            items[count] = i
            count += 1
    return count if count > 1 else 0


@compiled_no_refcount
def _move_items(
    problem: PlanProblem, owner: Integers, s: PartSums, items: Integers, count: int, a: int, t: PartSums, changed: Flags
) -> None:
    """Make the sums `t` those after the items moved to `a`, and mark the parts that changed."""
    changed[a] = True
    for k in range(count):
        i = items[k]
        p = owner[i]
        changed[p] = True
        t.size[p] -= 1
        t.size[a] += 1
        if problem.extreme:
            continue
        own, mixed = problem.motion[i, i], problem.mixing[i, i]
        t.num[p] -= 2.0 * s.rows[p, i] - own
        t.den[p] -= 2.0 * s.mixed[p, i] - mixed
        t.num[a] += 2.0 * s.rows[a, i] + own
        t.den[a] += 2.0 * s.mixed[a, i] + mixed
        for other in range(k):  # pairs that move together
            j = items[other]
            t.num[a] += 2.0 * problem.motion[i, j]
            t.den[a] += 2.0 * problem.mixing[i, j]
            if owner[j] == p:
                t.num[p] += 2.0 * problem.motion[i, j]
                t.den[p] += 2.0 * problem.mixing[i, j]
        here, there = problem.floors[p, i], problem.floors[a, i]
        t.apart[p] -= problem.apart[i]
        t.apart[a] += problem.apart[i]
        t.weight[p] -= problem.weight[i]
        t.weight[a] += problem.weight[i]
        t.floor[p] -= here
        t.floor[a] += there
        t.squares[p] -= here**2
        t.squares[a] += there**2
    if problem.extreme:
        _move_extreme(problem, owner, items, count, a, t, changed)


@compiled_no_refcount
def _move_extreme(
    problem: PlanProblem, owner: Integers, items: Integers, count: int, a: int, t: PartSums, changed: Flags
) -> None:
    """Recompute the changed parts of a min or max: the largest of what is left is not found by subtraction."""
    for b in range(changed.size):
        if changed[b]:
            t.num[b], t.den[b], t.apart[b], t.weight[b], t.floor[b] = 0.0, 0.0, 0.0, 0.0, 0.0
    for i in range(owner.size):
        b = owner[i]
        for k in range(count):
            if items[k] == i:
                b = a
        if changed[b]:
            t.num[b] = max(t.num[b], problem.apart[i] ** 2)
            t.den[b] = max(t.den[b], problem.weight[i] ** 2)
            t.apart[b] += problem.apart[i]
            t.weight[b] += problem.weight[i]
            t.floor[b] = max(t.floor[b], problem.floors[b, i])


@compiled_no_refcount
def _rate(problem: PlanProblem, t: PartSums, changed: Flags, trial: PartRates) -> None:
    for b in range(changed.size):
        if changed[b]:
            trial.slopes[b], trial.floors[b], trial.offsets[b] = 0.0, 0.0, 0.0
            if t.size[b] > 0:
                trial.slopes[b] = np.cbrt(roughness_of(t.num[b], t.den[b], t.apart[b], t.weight[b]))
                trial.floors[b] = t.floor[b]
                trial.offsets[b] = offset_of(problem.extreme, t.floor[b], t.squares[b])


@compiled_no_refcount
def _cost_if_promising(problem: PlanProblem, trial: PartRates, best: float) -> float:
    """Return the cost of the trial, or infinity where a bound that is cheaper to compute shows that it is no better."""
    slope, room, floor = 0.0, problem.within, 0.0
    for a in range(trial.slopes.size):
        slope += trial.slopes[a]
        floor += trial.floors[a]
        room -= trial.offsets[a]
    if not problem.extreme:
        if floor > problem.within * (1.0 + SLACK) or room <= 0.0:
            return np.inf
        if slope**3 / room**2 >= best:  # (15): what it would cost if no floor mattered
            return np.inf
    return total_cost(problem.extreme, problem.within, trial)


@compiled_no_refcount
def _restore(s: PartSums, r: PartRates, t: PartSums, trial: PartRates, changed: Flags) -> None:
    for b in range(changed.size):
        if changed[b]:
            changed[b] = False
            t.size[b], t.num[b], t.den[b], t.apart[b] = s.size[b], s.num[b], s.den[b], s.apart[b]
            t.weight[b], t.floor[b], t.squares[b] = s.weight[b], s.floor[b], s.squares[b]
            trial.slopes[b], trial.floors[b], trial.offsets[b] = r.slopes[b], r.floors[b], r.offsets[b]
