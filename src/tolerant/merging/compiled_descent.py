"""Directed Search on boxes ([CBGM] §6.3), compiled: steepest descent by merging two groups or splitting a unit off.

Only a decrease above 1e-12 of the cost counts, so a descent ends.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tolerant.kernels.array_types import Floats, Integers
from tolerant.kernels.compiled import compiled, compiled_no_refcount
from tolerant.kernels.random import bits_at
from tolerant.merging.cost_model import CostModel, gain, joint_size, price
from tolerant.merging.sizes import measure

TINY = 1e-12

COUNT, OWN = 4, 5
"""Columns of units, behind the box: queries, size."""

SIZE, BEST, OFF = 5, 6, 7
"""Columns of `_State.groups`, behind box and count: size, the largest gain of merging with a group behind it; and, for
units, the gain of splitting it off its group."""

LABEL, UNITS, PARTNER = range(3)
"""Columns of `_State.links`: group of each unit; units and best partner of each group."""


class _State(NamedTuple):
    """A partition of units, with boxes, sizes and best gains; group numbers are below the number of units."""

    units: Floats  # [n, 6]
    groups: Floats  # [n, 8]
    links: Integers  # [n, 3]


def units_of(boxes: Floats, counts: Floats, sizes: Floats) -> Floats:
    """Return units as `search` expects them, float[n, 6]."""
    return np.column_stack([boxes, counts, sizes])


@compiled
def _gather(state: _State, model: CostModel, group: int) -> None:
    """Compute box, count and size of a group from its members, and the gain of splitting each off.

    The box without a member follows from the two outermost ends on each side.
    """
    units, groups, links = state
    outer, inner = np.full(4, np.inf), np.full(4, np.inf)
    count, members = 0.0, 0
    for u in range(len(units)):
        if links[u, LABEL] == group:
            members += 1
            count += units[u, COUNT]
            for c in range(4):
                end = units[u, c] if c < 2 else -units[u, c]
                if end < outer[c]:
                    inner[c] = outer[c]
                    outer[c] = end
                elif end < inner[c]:
                    inner[c] = end
    links[group, UNITS] = members
    groups[group, COUNT] = count
    if members == 0:
        return
    for c in range(4):
        groups[group, c] = outer[c] if c < 2 else -outer[c]
    groups[group, SIZE] = measure(outer[0], outer[1], -outer[2], -outer[3], model.table)
    whole = price(model, count, groups[group, SIZE])
    for u in range(len(units)):
        if links[u, LABEL] == group:
            groups[u, OFF] = -np.inf
            if members > 1:
                x1 = inner[0] if units[u, 0] == outer[0] else outer[0]
                y1 = inner[1] if units[u, 1] == outer[1] else outer[1]
                x2 = inner[2] if -units[u, 2] == outer[2] else outer[2]
                y2 = inner[3] if -units[u, 3] == outer[3] else outer[3]
                rest = price(model, count - units[u, COUNT], measure(x1, y1, -x2, -y2, model.table))
                groups[u, OFF] = whole - rest - price(model, units[u, COUNT], units[u, OWN])


@compiled_no_refcount
def _look(state: _State, model: CostModel, group: int, a: int, b: int) -> int:
    """Update the group's best partner behind it, after groups a and b changed (or all, if a is −1); returns the number
    of gains evaluated.
    """
    groups, links = state.groups, state.links
    every = a < 0 or group in (a, b) or links[group, PARTNER] in (a, b)
    if every:
        groups[group, BEST] = -np.inf
        links[group, PARTNER] = -1
    evaluated = 0
    if links[group, UNITS] > 0:
        for other in range(group + 1, len(groups)):
            if links[other, UNITS] > 0 and (every or other in (a, b)):
                evaluated += 1
                size = joint_size(groups, group, other, model.table)
                gained = gain(
                    model, groups[group, COUNT], groups[group, SIZE], groups[other, COUNT], groups[other, SIZE], size
                )
                if gained > groups[group, BEST]:
                    groups[group, BEST] = gained
                    links[group, PARTNER] = other
    return evaluated


@compiled_no_refcount
def _total(state: _State, model: CostModel) -> float:
    total = 0.0
    for group in range(len(state.groups)):
        if state.links[group, UNITS] > 0:
            total += price(model, state.groups[group, COUNT], state.groups[group, SIZE])
    return total


@compiled_no_refcount
def _largest(groups: Floats, column: int) -> int:
    best = 0
    for k in range(1, len(groups)):
        if groups[k, column] > groups[best, column]:
            best = k
    return best


@compiled_no_refcount
def _step(state: _State, a: int, b: int, split: int) -> None:
    """Move unit `split` from group a to the empty group b; with none (−1), all of b to a."""
    if split >= 0:
        state.links[split, LABEL] = b
        return
    for u in range(len(state.units)):
        if state.links[u, LABEL] == b:
            state.links[u, LABEL] = a


@compiled_no_refcount
def _descend(state: _State, model: CostModel) -> tuple[float, int]:
    """Descend from the partition in the labels, in place; returns Σ c(M) at the end, and the gains evaluated."""
    groups, links = state.groups, state.links
    n, evaluated, cost, a, b = len(groups), 0, 0.0, -1, -1
    while True:
        for group in range(n):
            if a < 0 or group in (a, b):
                _gather(state, model, group)
        for group in range(n):
            evaluated += _look(state, model, group, a, b)
        if a < 0:
            cost = _total(state, model)
        merged, split = _largest(groups, BEST), _largest(groups, OFF)
        top = max(groups[merged, BEST], groups[split, OFF])
        if not top > TINY * cost:
            break
        cost -= top
        if groups[merged, BEST] >= groups[split, OFF]:
            a, b, split = merged, links[merged, PARTNER], -1
        else:
            a, b = links[split, LABEL], 0
            while links[b, UNITS] > 0:
                b += 1
        _step(state, a, b, split)
    return _total(state, model), evaluated


@compiled
def search(
    start: Integers, units: Floats, model: CostModel, whole: bool, tries: int, key: np.uint64
) -> tuple[Integers, float, int]:
    """Return the best end of descents from `start`, from all in one group (if `whole`) and from `tries` random
    partitions.

    `units` float[n, 6]: box, queries, size; `start` int[n]: labels below n. A random partition has k groups, k uniform
    from 1 to n, and a uniform group for each unit. Of equally good ends the earliest is chosen. Returns the labels,
    Σ c(M), and the gains evaluated.
    """
    n, evaluated, least = len(units), 0, np.inf
    state = _State(units, np.zeros((n, 8)), np.zeros((n, 3), np.int64))
    chosen = start.copy()
    for turn in range(2 + tries):
        if turn == 1 and not whole:
            continue
        first = np.uint64(turn) * np.uint64(n + 1)
        groups = np.uint64(1) + bits_at(key, first) % np.uint64(n)
        for u in range(n):
            if turn == 0:
                state.links[u, LABEL] = start[u]
            elif turn == 1:
                state.links[u, LABEL] = 0
            else:
                state.links[u, LABEL] = np.int64(bits_at(key, first + np.uint64(u + 1)) % groups)
        cost, more = _descend(state, model)
        evaluated += more
        if turn == 0 or cost < least - TINY * abs(least):
            least = cost
            for u in range(n):
                chosen[u] = state.links[u, LABEL]
    return chosen, least, evaluated
