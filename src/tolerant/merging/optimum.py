"""The optimum, or a bound on it, component by component (`docs/design/merging.md` §2.5, §5.2)."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from tolerant.kernels.array_types import Integers
from tolerant.kernels.random import key_of
from tolerant.merging.clusters import SAFE, linked
from tolerant.merging.column_generation import Proof, prove
from tolerant.merging.compiled_descent import search, units_of
from tolerant.merging.cost_model import model_of
from tolerant.merging.costs import Costs
from tolerant.merging.pair_merging import pairs
from tolerant.merging.plan_arrays import GROUP, plan_of
from tolerant.merging.pricing import Pricing
from tolerant.merging.sizes import Size, SizeTable, area, planar, sizes_of
from tolerant.merging.subsets import PARTITION_LIMIT, best_partition
from tolerant.merging.units import collapsed
from tolerant.merging.validation import as_rectangles
from tolerant.merging.windows import WindowSolver

COLUMN_LIMIT = 120
"""Largest component for column generation: 100 units take a few seconds, 200 do not end within a minute."""


def lower_bound(rectangles: ArrayLike, costs: Costs, size: Size = area) -> float:
    """Return a cost that no plan of boxes can be below; most often that of the best plan.

    Raises: ValueError: more than 120 distinct rectangles may belong together (18 with a size that is neither `area` nor
    rows counted).

    >>> lower_bound([[0, 0, 1, 2], [0, 1, 2, 2], [1, 0, 2, 1]], Costs(10, 9, 4))
    74.0
    """
    pricing = Pricing(collapsed(as_rectangles(rectangles)), costs, size)
    if len(pricing.units) == 0:
        return 0.0
    return sum(_proved(pricing, members).lower for members in components(pricing)) - pricing.constant


def optimum(pricing: Pricing) -> list[Integers]:
    """Return the best plan, as groups of units.

    Raises:
        ValueError: too many units may belong together, or the plan could not be proved to be the best.
    """
    groups: list[Integers] = []
    for members in components(pricing):
        proof = _proved(pricing, members)
        if not proof.closed:
            raise ValueError(
                f"method 'partition': of {len(members)} distinct rectangles that may belong together the best plan "
                f"could not be proved, only one within {proof.upper - proof.lower:.3g} of the bound; use 'directed'"
            )
        groups += proof.groups
    return groups


def components(pricing: Pricing) -> list[Integers]:
    """Return sets of units that can be solved apart: all, where frequencies or nonlinear server work leave no safe
    rule.
    """
    if not pricing.due.always or pricing.costs.answer is not None:
        return [np.arange(len(pricing.units))]
    labels = linked(pricing, SAFE)
    order = np.argsort(labels, kind="stable")
    return np.split(order, np.flatnonzero(np.diff(labels[order])) + 1)


def _proved(pricing: Pricing, members: Integers) -> Proof:
    table = pricing.table
    if len(members) <= PARTITION_LIMIT or table is None:
        groups = tuple(best_partition(pricing, members))
        cost = float(pricing.of(groups).sum())
        return Proof(cost, cost, groups)
    if len(members) > COLUMN_LIMIT:
        raise ValueError(
            f"rectangles: at most {COLUMN_LIMIT} distinct ones that may belong together can be solved exactly, "
            f"got {len(members)}"
        )
    proof = _by_columns(pricing, members, table)
    return Proof(proof.lower, proof.upper, tuple(members[group] for group in proof.groups))


def _by_columns(pricing: Pricing, members: Integers, table: SizeTable) -> Proof:
    boxes, counts = planar(pricing.units.boxes[members]), pricing.units.counts[members]
    model, units = model_of(pricing.costs, table), units_of(boxes, counts, sizes_of(boxes, table))
    _, labels = np.unique(pairs(boxes, counts, model)[0], return_inverse=True)
    known = [labels, search(labels, units, model, True, 0, key_of(0))[0]]
    for seed in range(2):  # good initial plans save rounds
        plan = plan_of(units, known[1], model)
        WindowSolver(plan, model, tries=10).improve(key_of(seed), rounds=10)
        known.append(plan.links[: len(units), GROUP].copy())
    return prove(units, model, known)
