"""Pair Merging (seed 002 §6.2): merge the two groups that gain most, until no two gain anything.

A heap holds one entry a group: its best partner among the groups that were there when it looked. So every pair is
held by the younger of its two groups, and the top of the heap is the best pair of all: the groups are those of the
plain algorithm, at the cost of looking only where a partner can be (`specs/4-merging.md` §2.4, window rule).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tolerant.kernels.compiled import compiled
from tolerant.merging.arrays import Floats, Integers
from tolerant.merging.grid import Grid, grid_over, list_box, near, unlist_box
from tolerant.merging.model import Model, gain, joint_size, root_of
from tolerant.merging.sizes import measure, reach


class _Forest(NamedTuple):
    """Groups, units first, each merger behind them."""

    boxes: Floats
    counts: Floats
    sizes: Floats
    first: Integers  # the first unit of each
    parents: Integers


class _Heap(NamedTuple):
    """Entries (gain, a, b): the partner b is `best[a]`; ordered by gain, then by the first members of the two."""

    order: Integers  # groups, as a binary heap
    gains: Floats  # of each group
    best: Integers
    used: Integers  # [1]


def pairs(boxes: Floats, counts: Floats, model: Model) -> tuple[Integers, int]:
    """A group label for each unit (its root's number), and how many gains were evaluated.

    `boxes` float[k, 4], distinct; `counts` float[k], the queries of each.
    """
    n = len(boxes)
    if n == 0:
        return np.zeros(0, np.int64), 0
    if model.transfer == 0.0 and model.waste == 0.0 and np.isinf(model.largest):
        # Only channels cost anything: one, or, when they are free too, any number.
        return np.zeros(n, np.int64) if model.channel > 0 else np.arange(n), 0
    room = 2 * n - 1
    forest = _Forest(
        boxes=np.concatenate([boxes, np.zeros((room - n, 4))]),
        counts=np.concatenate([counts, np.zeros(room - n)]),
        sizes=np.zeros(room),
        first=np.arange(room),
        parents=np.arange(room),
    )
    heap = _Heap(np.zeros(room, np.int64), np.zeros(room), np.full(room, -1, np.int64), np.zeros(1, np.int64))
    evaluations = _merge_all(forest, heap, grid_over(forest.boxes, boxes), model, n)
    return forest.parents[:n].copy(), int(evaluations)


@compiled
def _before(forest: _Forest, heap: _Heap, a: int, b: int) -> bool:
    """Whether the entry of group a is to be taken before that of b."""
    if heap.gains[a] != heap.gains[b]:
        return bool(heap.gains[a] > heap.gains[b])
    first_a, with_a = forest.first[a], forest.first[heap.best[a]]
    first_b, with_b = forest.first[b], forest.first[heap.best[b]]
    low_a, low_b = min(first_a, with_a), min(first_b, with_b)
    if low_a != low_b:
        return bool(low_a < low_b)
    return bool(max(first_a, with_a) < max(first_b, with_b))


@compiled
def _push(forest: _Forest, heap: _Heap, group: int) -> None:
    at = heap.used[0]
    heap.used[0] += 1
    heap.order[at] = group
    while at > 0 and _before(forest, heap, group, heap.order[(at - 1) // 2]):
        heap.order[at] = heap.order[(at - 1) // 2]
        at = (at - 1) // 2
    heap.order[at] = group


@compiled
def _pop(forest: _Forest, heap: _Heap) -> int:
    top = heap.order[0]
    heap.used[0] -= 1
    used = heap.used[0]
    last = heap.order[used]
    at = 0
    while True:
        child = 2 * at + 1
        if child >= used:
            break
        if child + 1 < used and _before(forest, heap, heap.order[child + 1], heap.order[child]):
            child += 1
        if not _before(forest, heap, heap.order[child], last):
            break
        heap.order[at] = heap.order[child]
        at = child
    heap.order[at] = last
    return int(top)


@compiled
def _seek(forest: _Forest, heap: _Heap, grid: Grid, model: Model, a: int, found: Integers) -> int:
    """Find a's best partner among the groups listed, and push it if it gains; how many gains were evaluated."""
    content = model.channel / (model.transfer + model.waste * forest.counts[a])
    x1, y1, x2, y2 = reach(
        forest.boxes[a, 0], forest.boxes[a, 1], forest.boxes[a, 2], forest.boxes[a, 3], content, model.table
    )
    count = near(grid, x1, y1, x2, y2, found)
    heap.best[a] = -1
    heap.gains[a] = 0.0
    evaluated = 0
    for k in range(count):
        b = found[k]
        if b == a:
            continue
        evaluated += 1
        size = joint_size(forest.boxes, a, b, model.table)
        gained = gain(model, forest.counts[a], forest.sizes[a], forest.counts[b], forest.sizes[b], size)
        if gained <= 0.0 or gained < heap.gains[a] or size > model.largest:
            continue
        if gained > heap.gains[a] or _smaller(forest.first[a], forest.first[b], forest.first[heap.best[a]]):
            heap.gains[a] = gained
            heap.best[a] = b
    if heap.best[a] >= 0:
        _push(forest, heap, a)
    return evaluated


@compiled
def _smaller(a: int, b: int, other: int) -> bool:
    """Whether the pair {a, b} comes before {a, other} in the order of ties."""
    if min(a, b) != min(a, other):
        return min(a, b) < min(a, other)
    return max(a, b) < max(a, other)


@compiled
def _merge_all(forest: _Forest, heap: _Heap, grid: Grid, model: Model, n: int) -> int:
    found = np.empty(len(forest.boxes), np.int64)
    evaluated = 0
    for a in range(n):
        box = forest.boxes[a]
        forest.sizes[a] = measure(box[0], box[1], box[2], box[3], model.table)
        evaluated += _seek(forest, heap, grid, model, a, found)
        list_box(grid, a)
    used = n
    while heap.used[0] > 0:
        a = _pop(forest, heap)
        if grid.cell[a] < 0:
            continue
        b = heap.best[a]
        if grid.cell[b] < 0:
            evaluated += _seek(forest, heap, grid, model, a, found)
            continue
        unlist_box(grid, a)
        unlist_box(grid, b)
        forest.parents[a] = used
        forest.parents[b] = used
        for c in range(2):
            forest.boxes[used, c] = min(forest.boxes[a, c], forest.boxes[b, c])
            forest.boxes[used, 2 + c] = max(forest.boxes[a, 2 + c], forest.boxes[b, 2 + c])
        box = forest.boxes[used]
        forest.sizes[used] = measure(box[0], box[1], box[2], box[3], model.table)
        forest.counts[used] = forest.counts[a] + forest.counts[b]
        forest.first[used] = min(forest.first[a], forest.first[b])
        evaluated += _seek(forest, heap, grid, model, used, found)
        list_box(grid, used)
        used += 1
    for a in range(n):
        forest.parents[a] = root_of(forest.parents, a)
    return evaluated
