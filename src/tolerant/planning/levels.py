"""Wider bounds for parts that are far from the minimum or maximum (`specs/3-planning.md` §2.8).

Of a maximum, a part that is g below the answer may rise by C + g before that matters. So the client gives it a *level*
between its value and the answer: the part then says max(part, level) instead of the part, and is silent while it stays
below. That is within C of max(part, level), from which the client knows what it needs: that the part is at most C above
what it said, and, where that is more than C above the level, that it is at least C below it. When the answer falls to a
level, the answer cannot be told from the part any more: the client takes the level back, and the part says where it
really is. Of a minimum the same, upside down.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tolerant.kernels.compiled import compiled
from tolerant.planning.arrays import Floats, Integers
from tolerant.planning.plans import Plan
from tolerant.planning.simulate import GRID, MAX, Run, Wiring, laid_out
from tolerant.traces import Trace

APART = 4.0
"""A part gets a level if it is so many times the tolerance away from the answer: giving a level and taking it back are
four messages, and the level must not be reached too soon, half-way as it is.
"""

PUSHES = 4
"""A part that has not spoken so often since its level was changed costs less than another change."""


@dataclass(frozen=True)
class Extreme:
    """A minimum or maximum as its parts have told it: the truth is from low to high. blocking: the parts whose levels
    keep it from being known as closely as was promised.
    """

    low: float
    value: float
    high: float
    blocking: tuple[int, ...]


def extreme_of(fn: str, within: float, values: Sequence[float], levels: Sequence[float | None]) -> Extreme:
    """What parts that said `values` under `levels` (None: none), each within `within`, say together.

    >>> extreme_of("max", 1.0, [10.0, 6.0], [None, 6.0])
    Extreme(low=9.0, value=10.0, high=11.0, blocking=())
    >>> extreme_of("max", 1.0, [5.0, 6.0], [None, 6.0])
    Extreme(low=4.0, value=5.0, high=7.0, blocking=(1,))
    """
    sign = 1.0 if fn == "max" else -1.0
    tops = [sign * value for value in values]
    hidden = [level is not None and top - within <= sign * level for top, level in zip(tops, levels, strict=True)]
    seen = [top for top, clamped in zip(tops, hidden, strict=True) if not clamped]
    value = max(seen, default=max(tops))
    low = value - within if seen else -math.inf
    blocking = tuple(
        part
        for part, (top, clamped) in enumerate(zip(tops, hidden, strict=True))
        if clamped and (top > value or not seen)
    )
    high = max(tops) + within
    if sign > 0:
        return Extreme(low, value, high, blocking)
    return Extreme(-high, -value, -low, blocking)


def wished(
    fn: str, within: float, values: Sequence[float], levels: Sequence[float | None], pushes: Sequence[int]
) -> dict[int, float | None]:
    """The parts that should have a level, or another, and which. pushes: how often each has spoken since its level was
    last changed.
    """
    answer = extreme_of(fn, within, values, levels).value
    return {
        part: (answer + value) / 2
        for part, (value, level, count) in enumerate(zip(values, levels, pushes, strict=True))
        if count >= PUSHES and value != level and abs(answer - value) > APART * within
    }


def clamped(fn: str, value: float, level: float | None) -> float:
    """What a part says that has this value, under this level."""
    if level is None:
        return value
    return max(value, level) if fn == "max" else min(value, level)


def simulate_levels(plan: Plan, trace: Trace, period: int = 10) -> Run:
    """As `simulate`, for a minimum or maximum whose client gives levels to parts every `period` ticks and takes them
    back when it must; `told` counts how often, and each is answered by a refresh.

    Raises:
        ValueError: the plan is of no minimum or maximum, or what `simulate` raises.
    """
    if plan.query.fn not in ("min", "max"):
        raise ValueError(f"levels are for min and max, query {plan.query.name!r} is a {plan.query.fn}")
    if period < 1:
        raise ValueError(f"period must be at least 1 tick, got {period}")
    laid = laid_out(plan, trace)
    refreshes, told, feeds, violations = _replay(
        trace.values, laid.start, laid.wiring, laid.used, laid.weights, plan.query.within, laid.code, period
    )
    return Run(int(refreshes.sum()), int(violations), tuple(refreshes.tolist()), int(feeds), int(told))


@compiled
def _part_top(wiring: Wiring, held: Floats, part: int, sign: float) -> float:
    """The part's value where it is a maximum, its negative where it is a minimum: a maximum then too."""
    top = -np.inf
    for k in range(wiring.first[part], wiring.first[part + 1]):
        top = max(top, sign * wiring.weight[k] * held[wiring.copy[k]])
    return top


@compiled
def _replay(
    values: Floats, start: int, wiring: Wiring, used: Integers, weights: Floats, within: float, code: int, period: int
) -> tuple[Integers, int, int, int]:
    """Refreshes of each part, levels told, changes of copies, and violations; minima are turned into maxima."""
    parts, sign = wiring.push.size, 1.0 if code == MAX else -1.0
    now = np.full(used.size, np.nan)
    for tick in range(start + 1):
        for k in range(used.size):
            if not np.isnan(values[tick, used[k]]):
                now[k] = values[tick, used[k]]
    held = now[wiring.item]
    tops, sent, levels = np.empty(parts), np.empty(parts), np.full(parts, -np.inf)
    for part in range(parts):
        sent[part] = _part_top(wiring, held, part, sign)
    refreshes, pushes = np.zeros(parts, np.int64), np.zeros(parts, np.int64)
    told, feeds, violations = 0, 0, 0
    for tick in range(start + 1, values.shape[0]):
        truth, size = -np.inf, 0.0
        for k in range(used.size):
            value = values[tick, used[k]]
            now[k] = now[k] if np.isnan(value) else value
            truth = max(truth, sign * weights[k] * now[k])
            size += abs(weights[k] * now[k])
        for k in range(held.size):
            offered = now[wiring.item[k]] if wiring.above[k] < 0 else held[wiring.above[k]]
            if abs(offered - held[k]) > wiring.step[k]:
                held[k] = offered
                feeds += 1
        for part in range(parts):
            tops[part] = _part_top(wiring, held, part, sign)
            if abs(max(tops[part], levels[part]) - sent[part]) > wiring.push[part]:
                sent[part] = max(tops[part], levels[part])
                refreshes[part] += 1
                pushes[part] += 1
        answer, hidden = _seen(sent, levels, within), False
        for part in range(parts):
            hidden |= sent[part] - within <= levels[part] and sent[part] > answer
        for part in range(parts):
            wish = levels[part]
            if sent[part] - within <= levels[part] and sent[part] > answer:
                wish = -np.inf
            elif not hidden and (tick - start) % period == 0 and pushes[part] >= PUSHES and sent[part] != levels[part]:
                wish = (answer + sent[part]) / 2.0 if answer - sent[part] > APART * within else wish
            if wish != levels[part]:
                levels[part] = wish
                sent[part] = max(tops[part], wish)
                refreshes[part] += 1
                pushes[part] = 0
                told += 1
        if abs(_seen(sent, levels, within) - truth) > within * (1.0 + 1e-6) + GRID * size:
            violations += 1
    return refreshes, told, feeds, violations


@compiled
def _seen(sent: Floats, levels: Floats, within: float) -> float:
    """The largest value that is known not to be a level."""
    best = -np.inf
    for part in range(sent.size):
        if sent[part] - within > levels[part]:
            best = max(best, sent[part])
    return best
