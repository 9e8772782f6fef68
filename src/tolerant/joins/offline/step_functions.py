"""Approximates a step function by one of fewer steps: optimal, optimal for monotone values, and greedy.

All functions take values y with weights w; the cost of a run is the weighted squared distance to its weighted mean.
"""

from __future__ import annotations

import numpy as np

from tolerant.kernels.array_types import Floats, Integers
from tolerant.kernels.compiled import compiled


@compiled
def prefix_sums(y: Floats, w: Floats) -> Floats:
    """Return the sums of w, w·y and w·y² before each place, [n + 1, 3]."""
    sums = np.zeros((len(y) + 1, 3))
    for i in range(len(y)):
        sums[i + 1, 0] = sums[i, 0] + w[i]
        sums[i + 1, 1] = sums[i, 1] + w[i] * y[i]
        sums[i + 1, 2] = sums[i, 2] + w[i] * y[i] * y[i]
    return sums


@compiled
def run_cost(sums: Floats, start: int, stop: int) -> float:
    """Return the cost of one step over the run."""
    weight = sums[stop, 0] - sums[start, 0]
    if weight <= 0.0:
        return 0.0
    first = sums[stop, 1] - sums[start, 1]
    return max(sums[stop, 2] - sums[start, 2] - first * first / weight, 0.0)


@compiled
def optimal_cuts(sums: Floats, buckets: int) -> Integers:
    """Return where the steps of the best step function end, [≤ buckets]: dynamic programme over all last steps."""
    n = len(sums) - 1
    buckets = min(buckets, n)
    best = np.empty(n + 1)
    for j in range(n + 1):
        best[j] = run_cost(sums, 0, j)
    back = np.zeros((buckets, n + 1), np.int32)
    for k in range(1, buckets):
        new = best.copy()
        for j in range(1, n + 1):
            least = best[j]
            where = back[k - 1, j]
            alone = True
            for i in range(j - 1, 0, -1):
                last = run_cost(sums, i, j)
                if last >= least:  # it grows as i falls
                    break
                if best[i] + last < least:
                    least = best[i] + last
                    where = i
                    alone = False
            new[j] = least
            back[k, j] = -1 if alone else where  # −1: one step fewer is as good
        best = new
    cuts = np.empty(buckets, np.int64)
    count, j, k = 0, n, buckets - 1
    while j > 0:
        while k > 0 and back[k, j] == -1:
            k -= 1
        cuts[count] = j
        count += 1
        j = back[k, j] if k > 0 else 0
        k -= 1
    return cuts[:count][::-1].copy()


@compiled
def next_layer(sums: Floats, best: Floats, where: Integers) -> Floats:
    """From the best costs with k steps for each prefix, return those with k + 1, for monotone y; writes the start of
    the last step to `where`.

    The cost is Monge then, so that starts do not fall as prefixes grow: divide and conquer, O(n log n).
    """
    n = len(best) - 1
    new = best.copy()
    where[:] = 0
    stack = np.empty((128, 4), np.int64)
    stack[0, 0], stack[0, 1], stack[0, 2], stack[0, 3] = 1, n, 0, n
    depth = 1
    while depth:
        depth -= 1
        first, last, low, high = stack[depth, 0], stack[depth, 1], stack[depth, 2], stack[depth, 3]
        if first > last:
            continue
        j = (first + last) >> 1
        least, at = np.inf, low
        for i in range(low, min(high, j - 1) + 1):
            cost = best[i] + run_cost(sums, i, j)
            if cost < least:
                least, at = cost, i
        new[j], where[j] = least, at
        stack[depth, 0], stack[depth, 1], stack[depth, 2], stack[depth, 3] = first, j - 1, low, at
        depth += 1
        stack[depth, 0], stack[depth, 1], stack[depth, 2], stack[depth, 3] = j + 1, last, at, high
        depth += 1
    return new


@compiled
def merged_cuts(sums: Floats, cuts: Integers, buckets: int) -> Integers:
    """Merge neighbouring runs that end at `cuts`, the cheapest first, until at most `buckets` are left.

    O(N²) for N runs, of which there are some thousands at most: faster there than a heap, and than compiling one.
    """
    ends = np.empty(len(cuts) + 1, np.int64)
    ends[0] = 0
    ends[1:] = cuts
    left = len(cuts)
    rises = np.empty(left)
    for k in range(1, left):
        rises[k] = _rise(sums, ends[k - 1], ends[k], ends[k + 1])
    while left > buckets:
        k = 1 + int(np.argmin(rises[1:left]))
        for i in range(k, left):  # remove the end of run k − 1
            ends[i] = ends[i + 1]
        for i in range(k, left - 1):
            rises[i] = rises[i + 1]
        left -= 1
        if k > 1:
            rises[k - 1] = _rise(sums, ends[k - 2], ends[k - 1], ends[k])
        if k < left:
            rises[k] = _rise(sums, ends[k - 1], ends[k], ends[k + 1])
    return ends[1 : left + 1].copy()


@compiled
def _rise(sums: Floats, start: int, middle: int, stop: int) -> float:
    """Return the cost of merging two neighbouring runs."""
    return run_cost(sums, start, stop) - run_cost(sums, start, middle) - run_cost(sums, middle, stop)
