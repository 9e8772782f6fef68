"""Directed Search ([CBGM] §6.3): the best of several descents that merge and split."""

from __future__ import annotations

import numpy as np

from tolerant.kernels.array_types import Integers
from tolerant.kernels.random import key_of
from tolerant.merging.compiled_descent import search, units_of
from tolerant.merging.cost_model import model_of
from tolerant.merging.general_descent import search_lists
from tolerant.merging.general_pair_merging import general_pairs, mergeable_groups
from tolerant.merging.pair_merging import pairs
from tolerant.merging.plan_arrays import GROUP, plan_of
from tolerant.merging.pricing import Pricing
from tolerant.merging.sizes import planar, sizes_of
from tolerant.merging.windows import WindowSolver

WHOLE_LIMIT = 60
"""Largest number of units for which random partitions of all of them are tried; above, windows are solved."""

MERGED_LIMIT = 2000
"""Largest number of units for which the descent from all in one group is tried."""


def directed(pricing: Pricing, starts: int, seed: int, *, whole_limit: int = WHOLE_LIMIT) -> tuple[Integers, int]:
    """Return a group label for each unit, and the number of gains evaluated; never more expensive than `pairs`.

    The first descent continues where `pairs` ends, the second starts with all in one group, the others (`starts` in
    all) from random partitions; above `whole_limit` units windows of neighbouring groups are solved instead.
    """
    table = pricing.table
    if table is None:
        return _directed_general(pricing, starts, seed)
    model, boxes, n = model_of(pricing.costs, table), planar(pricing.units.boxes), len(pricing.units)
    labels, evaluated = pairs(boxes, pricing.units.counts, model)
    _, labels = np.unique(labels, return_inverse=True)
    units = units_of(boxes, pricing.units.counts, sizes_of(boxes, table))
    if n <= MERGED_LIMIT:
        tries = max(starts - 2, 0) if n <= whole_limit else 0
        labels, _, more = search(labels, units, model, starts > 1, tries, key_of(seed))
        evaluated += more
    if starts > 2 and n > whole_limit:
        plan = plan_of(units, labels, model)
        solver = WindowSolver(plan, model, tries=10)
        solver.improve(key_of(seed), rounds=max(1, starts // 5))
        labels, evaluated = plan.links[:n, GROUP].copy(), evaluated + solver.evaluations
    return labels, int(evaluated)


def _directed_general(pricing: Pricing, starts: int, seed: int) -> tuple[Integers, int]:
    """Do the same for any pricing."""
    labels, evaluated = general_pairs(mergeable_groups(pricing), len(pricing.units))
    best, _, more = search_lists(pricing, labels, whole=starts > 1, tries=max(starts - 2, 0), key=key_of(seed))
    return best, evaluated + more
