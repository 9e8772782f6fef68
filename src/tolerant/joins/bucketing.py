"""Step functions of few steps near one of many: exact, exact for monotone values, and greedy.

All take values y with weights w, and mean by the cost of a run the weighted squared distance to its weighted mean.
"""

from __future__ import annotations

import numpy as np

from tolerant.joins.arrays import Floats, Integers
from tolerant.kernels.compiled import compiled


@compiled
def prefix_sums(y: Floats, w: Floats) -> Floats:
    """Sums of w, w·y and w·y² before each place, [n + 1, 3]."""
    sums = np.zeros((len(y) + 1, 3))
    for i in range(len(y)):
        sums[i + 1, 0] = sums[i, 0] + w[i]
        sums[i + 1, 1] = sums[i, 1] + w[i] * y[i]
        sums[i + 1, 2] = sums[i, 2] + w[i] * y[i] * y[i]
    return sums


@compiled
def run_cost(sums: Floats, start: int, stop: int) -> float:
    """The cost of one step over the run."""
    weight = sums[stop, 0] - sums[start, 0]
    if weight <= 0.0:
        return 0.0
    first = sums[stop, 1] - sums[start, 1]
    return max(sums[stop, 2] - sums[start, 2] - first * first / weight, 0.0)


@compiled
def optimal_cuts(sums: Floats, buckets: int) -> Integers:
    """Where the steps of the best step function end, [≤ buckets]: dynamic programme over all last steps."""
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
            back[k, j] = -1 if alone else where  # −1: one step fewer does as well
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
    """From the best costs with k steps for each prefix those with k + 1, for monotone y; `where`: the last step's
    start.

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
    """The runs that end at `cuts`, neighbours merged, the cheapest first, until at most `buckets` are left."""
    n = len(cuts)
    before, after = np.arange(-1, n - 1), np.arange(1, n + 1)
    starts = np.empty(n, np.int64)
    starts[0] = 0
    starts[1:] = cuts[:-1]
    alive = np.ones(n, np.bool_)
    stamp = np.zeros(n, np.int64)
    heap = [(0.0, 0, 0)]
    heap.pop()
    for k in range(n - 1):
        _push(heap, (_rise(sums, starts, cuts, k, k + 1), k, 0))
    left = n
    while left > buckets:
        _, k, seen = _pop(heap)
        if not alive[k] or stamp[k] != seen or after[k] >= n:
            continue
        other = after[k]
        cuts[k] = cuts[other]  # the run takes in the next one
        alive[other] = False
        after[k] = after[other]
        if after[other] < n:
            before[after[other]] = k
        left -= 1
        for one in (k, before[k]):
            if one >= 0 and after[one] < n:
                stamp[one] += 1
                _push(heap, (_rise(sums, starts, cuts, one, after[one]), one, stamp[one]))
    return cuts[alive]


@compiled
def _rise(sums: Floats, starts: Integers, cuts: Integers, one: int, other: int) -> float:
    """What merging two runs costs."""
    apart = run_cost(sums, starts[one], cuts[one]) + run_cost(sums, starts[other], cuts[other])
    return run_cost(sums, starts[one], cuts[other]) - apart


@compiled
def _push(heap: list[tuple[float, int, int]], entry: tuple[float, int, int]) -> None:
    heap.append(entry)
    at = len(heap) - 1
    while at and heap[at] < heap[(at - 1) >> 1]:
        heap[at], heap[(at - 1) >> 1] = heap[(at - 1) >> 1], heap[at]
        at = (at - 1) >> 1


@compiled
def _pop(heap: list[tuple[float, int, int]]) -> tuple[float, int, int]:
    top = heap[0]
    last = heap.pop()
    if len(heap):
        heap[0] = last
        at = 0
        while True:
            least = at
            for child in (2 * at + 1, 2 * at + 2):
                if child < len(heap) and heap[child] < heap[least]:
                    least = child
            if least == at:
                break
            heap[at], heap[least] = heap[least], heap[at]
            at = least
    return top
