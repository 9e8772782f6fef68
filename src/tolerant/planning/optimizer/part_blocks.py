"""Lists all parts that a small query can have: one entry per set of items (`docs/design/planning.md` §2.7, step 1)."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tolerant.kernels.compiled import compiled, compiled_no_refcount
from tolerant.planning.optimizer.plan_problem import PlanProblem, offset_of, roughness_of
from tolerant.planning.planning_arrays import Floats, Integers


class PartBlocks(NamedTuple):
    """Sets of items as bit masks. slope float64[2^n]: A^⅓ of each. lowest, size int64[2^n]: first item, item count.

    Choices (mask, who, floor, offset) are the parts that an aggregator can answer; those whose first item is i are from
    start[i] to start[i + 1]. served: their masks without repeats, from first[i] to first[i + 1].
    """

    slope: Floats
    lowest: Integers
    size: Integers
    start: Integers
    mask: Integers
    who: Integers
    floor: Floats
    offset: Floats
    first: Integers
    served: Integers


@compiled
def blocks_of(problem: PlanProblem) -> PartBlocks:
    """Return every block that an aggregator serves. Memory grows as 2^n per aggregator: for small queries only."""
    m, n = problem.floors.shape
    lowest, size, slope = _sets(problem)
    serves = np.zeros(m, np.int64)
    for a in range(m):
        for i in range(n):
            if problem.floors[a, i] < np.inf:
                serves[a] |= 1 << i
    start = np.zeros(n + 1, np.int64)
    for i in range(n):
        start[i + 1] = start[i]
        for a in range(m):
            if serves[a] >> i & 1:
                start[i + 1] += 1 << size[serves[a] >> (i + 1)]
    mask, who = np.empty(start[n], np.int64), np.empty(start[n], np.int64)
    floor, offset = np.empty(start[n]), np.empty(start[n])
    known = np.zeros(1 << n, np.bool_)
    entry = 0
    for i in range(n):
        for a in range(m):
            if not serves[a] >> i & 1:
                continue
            above = serves[a] >> (i + 1) << (i + 1)
            rest = above
            while True:
                mask[entry], who[entry] = rest | 1 << i, a
                floor[entry], offset[entry] = _floor(problem, a, mask[entry])
                known[mask[entry]] = True
                entry += 1
                if rest == 0:
                    break
                rest = (rest - 1) & above
    first, served = _listed(known, lowest, n)
    return PartBlocks(slope, lowest, size, start, mask, who, floor, offset, first, served)


@compiled
def _sets(problem: PlanProblem) -> tuple[Integers, Integers, Floats]:
    n = problem.apart.size
    count = 1 << n
    lowest, size = np.zeros(count, np.int64), np.zeros(count, np.int64)
    num, den, apart, weight = np.zeros(count), np.zeros(count), np.zeros(count), np.zeros(count)
    slope = np.zeros(count)
    for mask in range(1, count):
        i = 0
        while not mask >> i & 1:
            i += 1
        rest = mask ^ 1 << i
        lowest[mask], size[mask] = i, size[rest] + 1
        apart[mask], weight[mask] = apart[rest] + problem.apart[i], weight[rest] + problem.weight[i]
        if problem.extreme:
            num[mask], den[mask] = max(num[rest], problem.apart[i] ** 2), max(den[rest], problem.weight[i] ** 2)
        else:
            num[mask], den[mask] = num[rest] + problem.motion[i, i], den[rest] + problem.mixing[i, i]
            for j in range(i + 1, n):
                if rest >> j & 1:
                    num[mask] += 2.0 * problem.motion[i, j]
                    den[mask] += 2.0 * problem.mixing[i, j]
        slope[mask] = np.cbrt(roughness_of(num[mask], den[mask], apart[mask], weight[mask]))
    return lowest, size, slope


@compiled_no_refcount
def _floor(problem: PlanProblem, a: int, mask: int) -> tuple[float, float]:
    floor, squares = 0.0, 0.0
    for i in range(problem.apart.size):
        if mask >> i & 1:
            if problem.extreme:
                floor = max(floor, problem.floors[a, i])
            else:
                floor += problem.floors[a, i]
                squares += problem.floors[a, i] ** 2
    return floor, offset_of(problem.extreme, floor, squares)


@compiled
def _listed(known: np.ndarray, lowest: Integers, n: int) -> tuple[Integers, Integers]:
    first = np.zeros(n + 1, np.int64)
    for mask in range(1, known.size):
        if known[mask]:
            first[lowest[mask] + 1] += 1
    for i in range(n):
        first[i + 1] += first[i]
    at, served = first.copy(), np.empty(first[n], np.int64)
    for mask in range(1, known.size):
        if known[mask]:
            served[at[lowest[mask]]] = mask
            at[lowest[mask]] += 1
    return first, served
