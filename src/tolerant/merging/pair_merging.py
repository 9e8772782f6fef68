"""Pair Merging ([CBGM] §6.2): merges the two groups that gain most, until no two gain anything.

A heap has one entry per group: its best partner among the groups that existed when it was searched. So every pair
belongs to the younger of its two groups, and the top of the heap is the best pair of all: the groups are those of the
plain algorithm, at the cost of searching only where a partner can be (`docs/design/merging.md` §2.4, window rule).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tolerant.kernels.array_types import Floats, Integers
from tolerant.kernels.compiled import compiled, compiled_no_refcount
from tolerant.merging.cost_model import CostModel, gain, joint_size, root_of
from tolerant.merging.grid import CELL, Grid, grid_over, list_box, near, unlist_box
from tolerant.merging.sizes import measure, reach

COUNT, SIZE, GAIN = 4, 5, 6
"""Columns of `_MergeForest.groups`, behind the box."""

FIRST, PARENT, BEST, HEAP = range(4)
"""Columns of `_MergeForest.links`: first unit, the group that it was merged into, its best partner, and the heap
(groups by their gain with that partner, then by the first units of the two).
"""


class _MergeForest(NamedTuple):
    """Groups: first the units, then each merger."""

    groups: Floats  # [room, 7]: box, queries, size, gain with the best partner
    links: Integers  # [room, 4]
    used: Integers  # [1]: entries of the heap
    grid: Grid


def pairs(boxes: Floats, counts: Floats, model: CostModel) -> tuple[Integers, int]:
    """Return a group label for each unit (the number of its root), and the number of gains evaluated.

    `boxes` float[k, 4], distinct; `counts` float[k], the queries of each.
    """
    n = len(boxes)
    if n == 0:
        return np.zeros(0, np.int64), 0
    if model.transfer == 0.0 and model.waste == 0.0 and np.isinf(model.largest):
        # Only channels cost anything: use one, or, when they are free too, any number.
        return np.zeros(n, np.int64) if model.channel > 0 else np.arange(n), 0
    groups, links = np.zeros((2 * n - 1, 7)), np.full((2 * n - 1, 4), -1, np.int64)
    groups[:n, :4], groups[:n, COUNT] = boxes, counts
    links[:, FIRST] = links[:, PARENT] = np.arange(2 * n - 1)
    forest = _MergeForest(groups, links, np.zeros(1, np.int64), grid_over(groups, boxes))
    evaluations = _merge_all(forest, model, n)
    return links[:n, PARENT].copy(), int(evaluations)


@compiled_no_refcount
def _before(forest: _MergeForest, a: int, b: int) -> bool:
    """Whether the entry of group a has priority over that of b."""
    groups, links = forest.groups, forest.links
    if groups[a, GAIN] != groups[b, GAIN]:
        return bool(groups[a, GAIN] > groups[b, GAIN])
    first_a, with_a = links[a, FIRST], links[links[a, BEST], FIRST]
    first_b, with_b = links[b, FIRST], links[links[b, BEST], FIRST]
    return _earlier(first_a, with_a, first_b, with_b)


@compiled
def _earlier(a: int, b: int, c: int, d: int) -> bool:
    """Whether the pair {a, b} precedes {c, d} in the order of ties."""
    if min(a, b) != min(c, d):
        return min(a, b) < min(c, d)
    return max(a, b) < max(c, d)


@compiled_no_refcount
def _push(forest: _MergeForest, group: int) -> None:
    links, at = forest.links, forest.used[0]
    forest.used[0] += 1
    links[at, HEAP] = group
    while at > 0 and _before(forest, group, links[(at - 1) // 2, HEAP]):
        links[at, HEAP] = links[(at - 1) // 2, HEAP]
        at = (at - 1) // 2
    links[at, HEAP] = group


@compiled_no_refcount
def _pop(forest: _MergeForest) -> int:
    links, at = forest.links, 0
    forest.used[0] -= 1
    used, top = forest.used[0], links[0, HEAP]
    last = links[used, HEAP]
    while 2 * at + 1 < used:
        child = 2 * at + 1
        if child + 1 < used and _before(forest, links[child + 1, HEAP], links[child, HEAP]):
            child += 1
        if not _before(forest, links[child, HEAP], last):
            break
        links[at, HEAP] = links[child, HEAP]
        at = child
    links[at, HEAP] = last
    return int(top)


@compiled_no_refcount
def _seek(forest: _MergeForest, model: CostModel, a: int, nearby: Integers) -> int:
    """Find a's best partner among the listed groups, and push it if it gains; returns the number of gains evaluated."""
    groups, links = forest.groups, forest.links
    content = model.channel / (model.transfer + model.waste * groups[a, COUNT])
    x1, y1, x2, y2 = reach(groups[a, 0], groups[a, 1], groups[a, 2], groups[a, 3], content, model.table)
    best, most, evaluated = -1, 0.0, 0
    for k in range(near(forest.grid, x1, y1, x2, y2, nearby)):
        b = nearby[k]
        if b == a:
            continue
        evaluated += 1
        size = joint_size(groups, a, b, model.table)
        gained = gain(model, groups[a, COUNT], groups[a, SIZE], groups[b, COUNT], groups[b, SIZE], size)
        if gained <= 0.0 or gained < most or size > model.largest:
            continue
        first = links[a, FIRST]
        if gained > most or _earlier(first, links[b, FIRST], first, links[best, FIRST]):
            best, most = b, gained
    links[a, BEST] = best
    groups[a, GAIN] = most
    if best >= 0:
        _push(forest, a)
    return evaluated


@compiled_no_refcount
def _join(forest: _MergeForest, a: int, b: int, joined: int) -> None:
    """Make group `joined` of a and b, and unlist them."""
    groups, links = forest.groups, forest.links
    unlist_box(forest.grid, a)
    unlist_box(forest.grid, b)
    links[a, PARENT] = joined
    links[b, PARENT] = joined
    links[joined, FIRST] = min(links[a, FIRST], links[b, FIRST])
    for c in range(2):
        groups[joined, c] = min(groups[a, c], groups[b, c])
        groups[joined, 2 + c] = max(groups[a, 2 + c], groups[b, 2 + c])
    groups[joined, COUNT] = groups[a, COUNT] + groups[b, COUNT]


@compiled
def _merge_all(forest: _MergeForest, model: CostModel, n: int) -> int:
    groups, links, places = forest.groups, forest.links, forest.grid.places
    nearby = np.empty(len(groups), np.int64)
    evaluated, next_group, a = 0, 0, 0  # units and mergers below `next_group` are listed
    while next_group < n or forest.used[0] > 0:
        if next_group < n:
            a = next_group
        else:
            a = _pop(forest)
            if places[a, CELL] < 0:
                continue
            b = links[a, BEST]
            if places[b, CELL] >= 0:
                _join(forest, a, b, next_group)
                a = next_group
        if a == next_group:
            groups[a, SIZE] = measure(groups[a, 0], groups[a, 1], groups[a, 2], groups[a, 3], model.table)
        evaluated += _seek(forest, model, a, nearby)
        if a == next_group:
            list_box(forest.grid, a)
            next_group += 1
    parents = links[:, PARENT].copy()
    for a in range(n):
        links[a, PARENT] = root_of(parents, a)
    return evaluated
