"""The greedy rules: the best part first, then the best of what is left (`docs/design/planning.md` §2.6, Fig. 4)."""

from __future__ import annotations

import numpy as np

from tolerant.kernels.compiled import compiled, compiled_no_refcount
from tolerant.kernels.random import bits_at
from tolerant.planning.optimizer.plan_problem import PlanProblem, moments_of, roughness_of
from tolerant.planning.planning_arrays import SLACK, Flags, Floats, Integers

RANDOM, MIN_COST, MAX_GAIN, MAX_GAIN_RELATIVE, GIVEN_BOUNDS = range(5)
"""The rules by which a part is chosen."""

TIE = 1e-9
"""Scores this near to the best count as ties."""


@compiled
def choose(problem: PlanProblem, rule: int, alpha: float, limits: Floats, key: np.uint64) -> tuple[Integers, Integers]:
    """Return the aggregator of each item, and the round in which it was decided; int64[n] both.

    limits: |w|b of each item for GIVEN_BOUNDS, else not used. Every item must be served by an aggregator.
    """
    m, n = problem.floors.shape
    members, count = np.empty((m + 1, n), np.int64), np.zeros(m + 1, np.int64)
    tightest = np.full(n, np.inf)
    for a in range(m):
        for i in range(n):
            if problem.floors[a, i] < np.inf:
                members[a, count[a]] = i
                count[a] += 1
                tightest[i] = min(tightest[i], problem.floors[a, i])
    for i in range(n):  # last the whole query, by which scores are made dimensionless
        members[m, i] = i
    count[m] = n
    num, den, fresh = np.zeros(m + 1), np.zeros(m + 1), np.full(m + 1, np.inf)
    apart, weight, floor, strain = np.zeros(m + 1), np.zeros(m + 1), np.zeros(m + 1), np.zeros(m + 1)
    scores, touched, scale = np.zeros(m + 1), np.ones(m + 1, np.bool_), 1.0
    owner, decided = np.full(n, -1), np.full(n, -1)
    turn, left = 0, n
    while left > 0:
        for a in range(m, -1, -1):
            if touched[a] and count[a] > 0:
                touched[a] = False
                _add_up(problem, a, members, count, num, den, fresh, apart, weight)
                if a == m:
                    scale = float(apart[m] * weight[m])
                    if problem.extreme:
                        scale = float(np.sqrt(num[m] * den[m]))
                    continue
                _strain(problem, rule, a, members, count, tightest, limits, floor, strain)
                rough = roughness_of(num[a], den[a], apart[a], weight[a]) / scale
                moved = np.sqrt(max(num[a], 0.0)) / apart[m]
                scores[a] = _score(rule, alpha, apart[a] / apart[m], moved, rough, strain[a] / problem.within, count[a])
        best = _drawn(count, bits_at(key, np.uint64(turn))) if rule == RANDOM else _best(scores, floor, count)
        for k in range(count[best]):
            owner[members[best, k]] = best
            decided[members[best, k]] = turn
        left -= count[best]
        turn += 1
        _cover(problem, best, members, count, num, den, touched)
    return owner, decided


@compiled_no_refcount
def _add_up(  # noqa: PLR0913
    problem: PlanProblem,
    a: int,
    members: Integers,
    count: Integers,
    num: Floats,
    den: Floats,
    fresh: Floats,
    apart: Floats,
    weight: Floats,
) -> None:
    """Compute a candidate's sums. Subtraction loses digits where little is left of much: then num and den are summed
    again, and for a min or max always.
    """
    apart[a], weight[a] = 0.0, 0.0
    for k in range(count[a]):
        apart[a] += problem.apart[members[a, k]]
        weight[a] += problem.weight[members[a, k]]
    if problem.extreme or apart[a] < 0.25 * fresh[a]:
        num[a], den[a] = moments_of(problem, members[a], count[a])
        fresh[a] = apart[a]


@compiled_no_refcount
def _strain(  # noqa: PLR0913
    problem: PlanProblem,
    rule: int,
    a: int,
    members: Integers,
    count: Integers,
    tightest: Floats,
    limits: Floats,
    floor: Floats,
    strain: Floats,
) -> None:
    """Compute a candidate's floor and its strain: X, X − X° for MAX_GAIN, the bound for GIVEN_BOUNDS."""
    floor[a], strain[a] = 0.0, 0.0
    for k in range(count[a]):
        i = members[a, k]
        here = problem.floors[a, i]
        floor[a] = max(floor[a], here) if problem.extreme else floor[a] + here
        if rule == MAX_GAIN:
            here -= tightest[i]
        if rule == GIVEN_BOUNDS:
            here = limits[i]
        strain[a] += here


@compiled_no_refcount
def _cover(
    problem: PlanProblem, best: int, members: Integers, count: Integers, num: Floats, den: Floats, touched: Flags
) -> None:
    """Remove the items of the chosen part from all candidates; costs the candidate's size per item."""
    for k in range(count[best]):
        i = members[best, k]
        for a in range(problem.floors.shape[0]):
            if a == best or problem.floors[a, i] == np.inf:
                continue
            touched[a] = True
            row_num, row_den, at = 0.0, 0.0, 0
            for place in range(count[a]):
                j = members[a, place]
                row_num += problem.motion[i, j]
                row_den += problem.mixing[i, j]
                if j == i:
                    at = place
            num[a] -= 2.0 * row_num - problem.motion[i, i]
            den[a] -= 2.0 * row_den - problem.mixing[i, i]
            for place in range(at, count[a] - 1):
                members[a, place] = members[a, place + 1]
            count[a] -= 1
    count[best] = 0


@compiled
def _score(rule: int, alpha: float, apart: float, moved: float, rough: float, strain: float, size: int) -> float:
    """Return the score, the larger the better. Its inputs are relative to the whole query, so that ties and alpha mean
    the same for any trace.
    """
    if rule == MAX_GAIN:
        return apart - moved - alpha * strain
    if rule == MAX_GAIN_RELATIVE:
        moved = max(moved, 1e-9 * apart)
        return (apart / moved - 1.0 - alpha * strain / np.cbrt(moved)) / size
    if rule == MIN_COST:
        root = np.cbrt(rough)
        return -(root + alpha * strain / root) / size
    if rule == GIVEN_BOUNDS:
        return -rough / (strain**2 * size)
    return 0.0


@compiled_no_refcount
def _best(scores: Floats, floors: Floats, count: Integers) -> int:
    """Return the candidate of the best score; among ties that of the smallest floor, among those the first."""
    top, floor = -np.inf, np.inf
    for a in range(scores.size - 1):
        if count[a] > 0:
            top = max(top, scores[a])
    for a in range(scores.size - 1):
        if count[a] > 0 and scores[a] >= top - TIE:
            floor = min(floor, floors[a])
    for a in range(scores.size - 1):
        if count[a] > 0 and scores[a] >= top - TIE and floors[a] <= floor * (1.0 + SLACK):
            return a
    return -1


@compiled_no_refcount
def _drawn(count: Integers, word: np.uint64) -> int:
    """Return one of the candidates that have items left, each as likely."""
    able = 0
    for a in range(count.size - 1):
        able += count[a] > 0
    number = np.int64(word % np.uint64(able))
    for a in range(count.size - 1):
        if count[a] > 0:
            if number == 0:
                return a
            number -= 1
    return -1
