"""The common case for compiled code: prices and a size that it knows, groups as boxes."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tolerant.kernels.compiled import borrowing
from tolerant.merging.arrays import Floats, Integers
from tolerant.merging.costs import Costs
from tolerant.merging.sizes import Table, measure


class Model(NamedTuple):
    """K_M, K_T, K_U, the largest size that a channel may have, and how sizes are measured."""

    channel: float
    transfer: float
    waste: float
    largest: float
    table: Table


def model_of(costs: Costs, table: Table, largest: float = np.inf) -> Model:
    """The model of these prices."""
    return Model(costs.channel, costs.transfer, costs.waste, float(largest), table)


@borrowing
def price(model: Model, count: float, size: float) -> float:
    """c(M) of a group of `count` queries (`specs/4-merging.md` §2.2)."""
    return model.channel + (model.transfer + model.waste * count) * size


@borrowing
def gain(model: Model, p: float, size_a: float, r: float, size_b: float, size_ab: float) -> float:
    """c(A) + c(B) − c(A∪B) for groups of p and r queries (seed 002 §6.2)."""
    return (
        model.channel
        + model.transfer * (size_a + size_b - size_ab)
        + model.waste * (p * size_a + r * size_b - (p + r) * size_ab)
    )


@borrowing
def joint_size(boxes: Floats, a: int, b: int, table: Table) -> float:
    """The size of the box around boxes a and b, rows of `boxes` that begin with x1 y1 x2 y2."""
    return measure(
        min(boxes[a, 0], boxes[b, 0]),
        min(boxes[a, 1], boxes[b, 1]),
        max(boxes[a, 2], boxes[b, 2]),
        max(boxes[a, 3], boxes[b, 3]),
        table,
    )


@borrowing
def root_of(parents: Integers, at: int) -> int:
    """The end of the chain of parents that starts at `at`; the chain is halved on the way."""
    while parents[at] != at:
        parents[at] = parents[parents[at]]
        at = parents[at]
    return at
