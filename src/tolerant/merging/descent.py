"""Directed Search on boxes (seed 002 §6.3), compiled: steepest descent by merging two groups or splitting one off.

Only a decrease above 1e-12 of the cost counts, so a descent ends.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tolerant.kernels.compiled import compiled
from tolerant.kernels.random import bits_at
from tolerant.merging.arrays import Floats, Integers
from tolerant.merging.model import Model, gain, joint_size, price
from tolerant.merging.sizes import measure

TINY = 1e-12


class State(NamedTuple):
    """A partition of units and what is known of it; group numbers are below the number of units."""

    labels: Integers  # group of each unit
    boxes: Floats  # of groups
    counts: Floats  # queries in each group
    units: Integers  # units in each group; 0: there is no such group
    sizes: Floats
    best: Floats  # the largest gain of merging with a group behind it
    partner: Integers
    off: Floats  # the gain of splitting each unit off its group


def state_of(n: int) -> State:
    """Room for partitions of n units."""
    return State(
        labels=np.zeros(n, np.int64),
        boxes=np.zeros((n, 4)),
        counts=np.zeros(n),
        units=np.zeros(n, np.int64),
        sizes=np.zeros(n),
        best=np.zeros(n),
        partner=np.zeros(n, np.int64),
        off=np.zeros(n),
    )


@compiled
def _gather(state: State, boxes: Floats, counts: Floats, own: Floats, model: Model, group: int) -> None:
    """Box, count and size of a group from its members, and the gain of splitting each off.

    The box without a member follows from the two outermost ends on each side.
    """
    n = len(boxes)
    outer, inner = np.full(4, np.inf), np.full(4, np.inf)
    count, units = 0.0, 0
    for u in range(n):
        if state.labels[u] == group:
            units += 1
            count += counts[u]
            for c in range(4):
                end = boxes[u, c] if c < 2 else -boxes[u, c]
                if end < outer[c]:
                    inner[c] = outer[c]
                    outer[c] = end
                elif end < inner[c]:
                    inner[c] = end
    state.units[group] = units
    state.counts[group] = count
    if units == 0:
        return
    for c in range(4):
        state.boxes[group, c] = outer[c] if c < 2 else -outer[c]
    box = state.boxes[group]
    size = measure(box[0], box[1], box[2], box[3], model.table)
    state.sizes[group] = size
    whole = price(model, count, size)
    for u in range(n):
        if state.labels[u] == group:
            state.off[u] = -np.inf
            if units > 1:
                x1 = inner[0] if boxes[u, 0] == outer[0] else outer[0]
                y1 = inner[1] if boxes[u, 1] == outer[1] else outer[1]
                x2 = inner[2] if -boxes[u, 2] == outer[2] else outer[2]
                y2 = inner[3] if -boxes[u, 3] == outer[3] else outer[3]
                rest = price(model, count - counts[u], measure(x1, y1, -x2, -y2, model.table))
                state.off[u] = whole - rest - price(model, counts[u], own[u])


@compiled
def _look(state: State, model: Model, group: int) -> int:
    """The group's best partner behind it; how many gains were evaluated."""
    state.best[group] = -np.inf
    state.partner[group] = -1
    if state.units[group] == 0:
        return 0
    evaluated = 0
    for other in range(group + 1, len(state.units)):
        if state.units[other] > 0:
            evaluated += 1
            gained = _gain(state, model, group, other)
            if gained > state.best[group]:
                state.best[group] = gained
                state.partner[group] = other
    return evaluated


@compiled
def _gain(state: State, model: Model, a: int, b: int) -> float:
    size = joint_size(state.boxes, a, b, model.table)
    return gain(model, state.counts[a], state.sizes[a], state.counts[b], state.sizes[b], size)


@compiled
def _refresh(state: State, boxes: Floats, counts: Floats, own: Floats, model: Model, a: int, b: int) -> int:
    """Bring everything up to date after the members of groups a and b changed; how many gains were evaluated."""
    _gather(state, boxes, counts, own, model, a)
    _gather(state, boxes, counts, own, model, b)
    evaluated = 0
    for group in range(len(state.units)):
        if state.units[group] == 0:
            state.best[group] = -np.inf
        elif group in (a, b) or state.partner[group] in (a, b):
            evaluated += _look(state, model, group)
        else:
            for changed in (a, b):
                if changed > group and state.units[changed] > 0:
                    evaluated += 1
                    gained = _gain(state, model, group, changed)
                    if gained > state.best[group]:
                        state.best[group] = gained
                        state.partner[group] = changed
    return evaluated


@compiled
def descend(state: State, boxes: Floats, counts: Floats, own: Floats, model: Model) -> tuple[float, int]:
    """Go down from the partition in `state.labels`, in place: Σ c(M) at the end, and gains evaluated.

    `own`: the size of each unit.
    """
    n, evaluated = len(boxes), 0
    for group in range(n):
        _gather(state, boxes, counts, own, model, group)
    for group in range(n):
        evaluated += _look(state, model, group)
    cost = _total(state, model)
    while True:
        merged, split = np.argmax(state.best), np.argmax(state.off)
        top = max(state.best[merged], state.off[split])
        if not top > TINY * cost:
            break
        if state.best[merged] >= state.off[split]:
            a, b = merged, state.partner[merged]
            for u in range(n):
                if state.labels[u] == b:
                    state.labels[u] = a
        else:
            a, b = state.labels[split], 0
            while state.units[b] > 0:
                b += 1
            state.labels[split] = b
        evaluated += _refresh(state, boxes, counts, own, model, a, b)
        cost -= top
    return _total(state, model), evaluated


@compiled
def _total(state: State, model: Model) -> float:
    total = 0.0
    for group in range(len(state.units)):
        if state.units[group] > 0:
            total += price(model, state.counts[group], state.sizes[group])
    return total


@compiled
def search(
    start: Integers, boxes: Floats, counts: Floats, own: Floats, model: Model, whole: bool, tries: int, key: np.uint64,
    state: State,
) -> tuple[Integers, float, int]:
    """The best end of descents from `start`, from all in one group (if `whole`) and from `tries` random partitions.

    A random partition has k groups, k uniform from 1 to n, and a uniform group for each unit. Of equally good ends the
    earliest is taken. Gives the labels, Σ c(M), and the gains evaluated.
    """
    n, evaluated = len(boxes), 0
    chosen, least = start.copy(), np.inf
    for turn in range(2 + tries):
        if turn == 0:
            state.labels[:] = start
        elif turn == 1:
            if not whole:
                continue
            state.labels[:] = 0
        else:
            _scatter(state.labels, key, turn, n)
        cost, more = descend(state, boxes, counts, own, model)
        evaluated += more
        if cost < least - TINY * abs(least) or turn == 0:
            chosen[:] = state.labels
            least = cost
    return chosen, least, evaluated


@compiled
def _scatter(labels: Integers, key: np.uint64, turn: int, n: int) -> None:
    first = np.uint64(turn) * np.uint64(n + 1)
    groups = np.uint64(1) + bits_at(key, first) % np.uint64(n)
    for u in range(n):
        labels[u] = np.int64(bits_at(key, first + np.uint64(u + 1)) % groups)
