"""The common case for compiled code: prices and a size that it knows, groups as boxes."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tolerant.kernels.array_types import Floats, Integers
from tolerant.kernels.compiled import compiled_no_refcount
from tolerant.merging.costs import Costs
from tolerant.merging.sizes import SizeTable, measure


class CostModel(NamedTuple):
    """K_M, K_T, K_U, the largest size that a channel may have, and the table that measures sizes."""

    channel: float
    transfer: float
    waste: float
    largest: float
    table: SizeTable


def model_of(costs: Costs, table: SizeTable, largest: float = np.inf) -> CostModel:
    """Return the model of these prices."""
    return CostModel(costs.channel, costs.transfer, costs.waste, float(largest), table)


@compiled_no_refcount
def price(model: CostModel, count: float, size: float) -> float:
    """Return c(M) of a group of `count` queries (`docs/design/merging.md` §2.2)."""
    return model.channel + (model.transfer + model.waste * count) * size


@compiled_no_refcount
def gain(model: CostModel, p: float, size_a: float, r: float, size_b: float, size_ab: float) -> float:
    """Return c(A) + c(B) − c(A∪B) for groups of p and r queries ([CBGM] §6.2)."""
    return (
        model.channel
        + model.transfer * (size_a + size_b - size_ab)
        + model.waste * (p * size_a + r * size_b - (p + r) * size_ab)
    )


@compiled_no_refcount
def joint_size(boxes: Floats, a: int, b: int, table: SizeTable) -> float:
    """Return the size of the box around boxes a and b, rows of `boxes` that begin with x1 y1 x2 y2."""
    return measure(
        min(boxes[a, 0], boxes[b, 0]),
        min(boxes[a, 1], boxes[b, 1]),
        max(boxes[a, 2], boxes[b, 2]),
        max(boxes[a, 3], boxes[b, 3]),
        table,
    )


@compiled_no_refcount
def root_of(parents: Integers, at: int) -> int:
    """Return the end of the chain of parents that starts at `at`; halves the chain."""
    while parents[at] != at:
        parents[at] = parents[parents[at]]
        at = parents[at]
    return at
