"""Clustering ([CBGM] §6.4): separates queries that are too far apart to be merged.

Three rules decide whether two queries belong to one cluster; clusters are their transitive closure. The heuristic
distance of [CBGM] may separate queries that the best plan merges, the safe one never does (`docs/design/merging.md`
§2.4, §2.8), the gain of the two queries alone separates most.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from tolerant.kernels.array_types import Floats, Integers
from tolerant.kernels.compiled import compiled, compiled_no_refcount
from tolerant.merging.cost_model import CostModel, joint_size, model_of, root_of
from tolerant.merging.costs import Costs
from tolerant.merging.grid import Grid, grid_over, list_box, near
from tolerant.merging.pricing import Pricing
from tolerant.merging.sizes import Size, area, measured, planar, reach, sizes_of
from tolerant.merging.units import collapsed
from tolerant.merging.validation import as_rectangles

HEURISTIC, SAFE, GAIN = range(3)
"""The rules: [CBGM] §6.4.1 (corrected), the exact one, and the gain of the two alone."""


def clusters(rectangles: ArrayLike, costs: Costs, size: Size = area, *, safe: bool = False) -> Integers:
    """Return the cluster of each query, int[n], numbered by first member.

    `safe`: use the rule that never separates queries which some best plan merges, instead of the heuristic one of
    [CBGM].

    >>> figure5 = [[0, 0, 1, 2], [0, 1, 2, 2], [1, 0, 2, 1]]
    >>> clusters(figure5, Costs(10, 9, 4)).tolist(), clusters(figure5, Costs(10, 9, 4), safe=True).tolist()
    ([0, 0, 1], [0, 0, 0])
    """
    units = collapsed(as_rectangles(rectangles))
    pricing = Pricing(units, costs, size)
    return linked(pricing, SAFE if safe else HEURISTIC)[units.of]


def linked(pricing: Pricing, rule: int) -> Integers:
    """Return the cluster of each unit, numbered by first unit."""
    units, costs = pricing.units, pricing.costs
    if len(units) == 0:
        return np.zeros(0, np.int64)
    if costs.waste == 0.0 and rule != GAIN and pricing.procedure != "pieces":
        return np.zeros(len(units), np.int64)
    table = pricing.table
    if table is not None:
        boxes = planar(units.boxes)
        parents = _linked(boxes, sizes_of(boxes, table), grid_over(boxes, boxes), model_of(costs, table), rule)
    else:
        parents = _compared(pricing, rule)
    _, first, numbers = np.unique(parents, return_index=True, return_inverse=True)
    return np.argsort(np.argsort(first))[numbers]


@compiled_no_refcount
def _belong(model: CostModel, rule: int, size_a: float, size_b: float, size_ab: float) -> bool:
    smaller = min(size_a, size_b)
    if rule == 0:
        value = model.channel + model.transfer * smaller - model.waste * (2.0 * size_ab - size_a - size_b)
    elif rule == 1:
        value = model.channel + (model.transfer + model.waste) * smaller - model.waste * size_ab
    else:
        both = size_a + size_b
        return model.channel + model.transfer * (both - size_ab) + model.waste * (both - 2.0 * size_ab) > 0.0
    return value >= 0.0


@compiled
def _linked(boxes: Floats, sizes: Floats, grid: Grid, model: CostModel, rule: int) -> Integers:
    """Union-find over the pairs that are near enough, seen from the smaller query of the two.

    With size b ≥ size a both rules need K_U·size(ab) ≤ K_M + (K_T + K_U)·size(a), which bounds the strip beside a.
    """
    n = len(boxes)
    parents, nearby, left = np.arange(n), np.empty(n, np.int64), n
    for a in range(n):
        list_box(grid, a)
    for a in range(n):
        if rule == 2:
            content = model.channel / (model.transfer + model.waste)
        else:
            content = (model.channel + model.transfer * sizes[a]) / model.waste
        x1, y1, x2, y2 = reach(boxes[a, 0], boxes[a, 1], boxes[a, 2], boxes[a, 3], content, model.table)
        count = near(grid, x1, y1, x2, y2, nearby)
        for k in range(count):
            b = nearby[k]
            if b == a or sizes[b] < sizes[a] or root_of(parents, a) == root_of(parents, b):
                continue
            if _belong(model, rule, sizes[a], sizes[b], joint_size(boxes, a, b, model.table)):
                parents[root_of(parents, a)] = root_of(parents, b)
                left -= 1
        if left == 1:
            break
    for a in range(n):
        parents[a] = root_of(parents, a)
    return parents


def _compared(pricing: Pricing, rule: int) -> Integers:
    """Union-find over all pairs, for sizes and procedures without a known bound."""
    units, n = pricing.units, len(pricing.units)
    parents = np.arange(n)
    own = measured(pricing.size, units.boxes)
    for a in range(n - 1):
        for b in (a + 1 + np.flatnonzero(_row(pricing, rule, own, a))).tolist():
            parents[root_of(parents, b)] = root_of(parents, a)
    return np.array([root_of(parents, a) for a in range(n)])


def _row(pricing: Pricing, rule: int, own: Floats, a: int) -> np.ndarray:
    """Which of the units behind a belong to its cluster."""
    boxes, costs = pricing.units.boxes, pricing.costs
    half, rest = boxes.shape[1] // 2, slice(a + 1, None)
    if pricing.procedure == "pieces":  # merging units that do not meet gains nothing
        met = (boxes[rest, :half] <= boxes[a, half:]) & (boxes[rest, half:] >= boxes[a, :half])
        return np.all(met, axis=1)
    others = np.arange(a + 1, len(boxes))
    starts = np.arange(0, 2 * len(others) + 1, 2)
    joint = pricing.shape(starts, np.column_stack([np.full(len(others), a), others]).ravel()).sizes
    smaller, both = np.minimum(own[a], own[rest]), own[a] + own[rest]
    if rule == HEURISTIC:
        return costs.channel + costs.transfer * smaller - costs.waste * (2 * joint - both) >= 0
    if rule == SAFE:
        return costs.channel + (costs.transfer + costs.waste) * smaller - costs.waste * joint >= 0
    return costs.channel + costs.transfer * (both - joint) + costs.waste * (both - 2 * joint) > 0
