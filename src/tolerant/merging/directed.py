"""Directed Search (seed 002 §6.3): the best of several descents that merge and split."""

from __future__ import annotations

import numpy as np

from tolerant.kernels.random import key_of
from tolerant.merging.arrays import Integers
from tolerant.merging.descent import search, units_of
from tolerant.merging.lists import search_lists
from tolerant.merging.model import model_of
from tolerant.merging.pairs import pairs
from tolerant.merging.plain import book_of, plain_pairs
from tolerant.merging.plan import GROUP, plan_of
from tolerant.merging.pricing import Pricing
from tolerant.merging.sizes import planar, sizes_of
from tolerant.merging.windows import Solver

WHOLE_LIMIT = 60
"""Units up to which random partitions of all of them are tried; above, windows are."""

MERGED_LIMIT = 2000
"""Units up to which the descent from all in one group is tried."""


def directed(pricing: Pricing, starts: int, seed: int, *, whole_limit: int = WHOLE_LIMIT) -> tuple[Integers, int]:
    """A group label for each unit, and how many gains were evaluated; never dearer than `pairs`.

    The first descent goes on from where `pairs` ends, the second starts with all in one group, the others (`starts` in
    all) from random partitions; above `whole_limit` units these are tried in windows of neighbouring groups instead.
    """
    table = pricing.table
    if table is None:
        return _called(pricing, starts, seed)
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
        solver = Solver(plan, model, tries=10)
        solver.improve(key_of(seed), rounds=max(1, starts // 5))
        labels, evaluated = plan.links[:n, GROUP].copy(), evaluated + solver.evaluations
    return labels, int(evaluated)


def _called(pricing: Pricing, starts: int, seed: int) -> tuple[Integers, int]:
    """The same for any pricing."""
    labels, evaluated = plain_pairs(book_of(pricing), len(pricing.units))
    found, _, more = search_lists(pricing, labels, whole=starts > 1, tries=max(starts - 2, 0), key=key_of(seed))
    return found, evaluated + more
