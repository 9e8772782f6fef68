"""The ladder of shadow filters that every predictive source runs: what would each width have sent?

See `specs/1-filters.md` §5.1.

A source knows all its values, so it can run filters of many widths beside the real one. Rung 0 is width 0; rungs 1…17
are half an octave apart, from a sixteenth of the item's unit (its uniform width) to sixteen times it. On each rung one
shadow a predictor tells which way of extrapolating sends least there; a further shadow follows the best one and is what
that width would have cost.

The predictors, each a (level, slope) that both ends extrapolate from an update on, W being the width:

0. the value, at rest;
1. a slow mean of the values, at rest;
2. the value with the slow mean of the changes as its slope;
3. the value with their fast mean;
4. Holt's level and trend;
5. a little beyond the value, on the side on which it left.

A level is always within .45·W of the value, so that a wrong guess costs messages and never the promise.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tolerant.filters.state import Floats, Integers
from tolerant.kernels.compiled import compiled

RUNGS = 18
"""Rung 0 included."""

_STEPS = RUNGS - 1
_PREDICTORS = 6
_CHOSEN = 6
"""The shadow that follows the best predictor of its rung, behind those of the predictors."""
_SHADOWS = 7

_LEVEL_MEMORY, _SLOW, _FAST = 0.02, 0.05, 0.3
_HOLT_LEVEL, _HOLT_TREND = 0.3, 0.1
_CLIP = 0.9
"""How far a level may be from the value, in half-widths."""
_AHEAD = 0.3
"""How far predictor 5 goes beyond the value, in half-widths."""
_FORGET = 31.0 / 32.0
_BETTER, _BY = 0.75, 0.5
"""A predictor takes over when its count is below .75 times that of the best so far, less .5."""

LONG, SHORT = 0.998, 0.97
"""What the two decaying counts of firings keep each tick."""

_HALVES = np.array([2.0 ** ((rung - 9) / 2) / 2 for rung in range(1, RUNGS)])
"""Half the width of rungs 1…17, in units."""


class Ladder(NamedTuple):
    """The shadows of many items, and what their predictors remember. Counts are as of the item's age, in ticks."""

    unit: Floats  # the item's uniform width; 0: it has only rung 0
    age: Integers  # ticks since the ladder was begun
    last: Floats
    mean: Floats
    slow: Floats
    fast: Floats
    level: Floats
    trend: Floats
    centre: Floats  # float64[items, shadows, steps]
    slope: Floats
    counts: Floats  # float64[items, predictors, steps]
    fired: Floats  # float64[items, rungs]: what each width would have sent since birth
    lately: Floats  # the same, decaying by LONG
    now: Floats  # the same, decaying by SHORT
    keep: Floats  # float64[steps]: room to work in


def ladder(items: int) -> Ladder:
    """Ladders that have not begun."""
    flat = [np.zeros(items) for _ in range(6)]
    shadows = [np.zeros((items, count, _STEPS)) for count in (_SHADOWS, _SHADOWS, _PREDICTORS)]
    counts = [np.zeros((items, RUNGS)) for _ in range(3)]
    return Ladder._make([np.zeros(items), np.zeros(items, np.int64), *flat, *shadows, *counts, np.zeros(_STEPS)])


@compiled
def begin(shadows: Ladder, item: int, unit: float, value: float) -> None:
    """Start an item's ladder anew."""
    shadows.unit[item] = unit
    shadows.age[item] = 0
    shadows.last[item] = shadows.mean[item] = shadows.level[item] = value
    shadows.slow[item] = shadows.fast[item] = shadows.trend[item] = 0.0
    shadows.centre[item] = value
    shadows.slope[item] = 0.0
    shadows.counts[item] = 0.0
    shadows.fired[item] = shadows.lately[item] = shadows.now[item] = 0.0


@compiled
def observe(shadows: Ladder, item: int, value: float) -> None:
    """A tick passes with the item at `value`."""
    change = value - shadows.last[item]
    mean, slow, fast = shadows.mean[item], shadows.slow[item], shadows.fast[item]
    before, trend = shadows.level[item], shadows.trend[item]
    level = _HOLT_LEVEL * value + (1.0 - _HOLT_LEVEL) * (before + trend)
    shadows.last[item] = value
    shadows.age[item] += 1
    shadows.mean[item] = mean + _LEVEL_MEMORY * (value - mean)
    shadows.slow[item] = slow + _SLOW * (change - slow)
    shadows.fast[item] = fast + _FAST * (change - fast)
    shadows.level[item] = level
    shadows.trend[item] = _HOLT_TREND * (level - before) + (1.0 - _HOLT_TREND) * trend
    _decay(shadows.lately[item], LONG)
    _decay(shadows.now[item], SHORT)
    if change != 0.0:
        _count(shadows, item, 0)
    if shadows.unit[item] > 0.0:
        passing = 0
        for shadow in range(_SHADOWS):
            passing += _advance(shadows.centre[item, shadow], shadows.slope[item, shadow], shadows.unit[item], value)
        if passing:
            _fire(shadows, item, value)


@compiled
def _decay(counts: Floats, keep: float) -> None:
    for rung in range(RUNGS):
        counts[rung] *= keep


@compiled
def _advance(centres: Floats, slopes: Floats, unit: float, value: float) -> int:
    """Move a predictor's shadows by a tick; how many of them the value has left.

    This and `_renew` are nothing but arithmetic on flat arrays, without branches or offsets, so that the processor does
    several shadows at a time.
    """
    passing = 0
    for step in range(_STEPS):
        centre = centres[step] + slopes[step]
        centres[step] = centre
        passing += abs(value - centre) > unit * _HALVES[step]
    return passing


@compiled
def _fire(shadows: Ladder, item: int, value: float) -> None:
    """Let the shadows send that the value has left."""
    unit, keep = shadows.unit[item], shadows.keep
    for step in range(_STEPS):
        keep[step] = _FORGET if abs(value - shadows.centre[item, 0, step]) > unit * _HALVES[step] else 1.0
    for predictor in range(_PREDICTORS):
        level, slope = _base(shadows, item, predictor)
        centre, trend, counts = (
            shadows.centre[item, predictor],
            shadows.slope[item, predictor],
            shadows.counts[item, predictor],
        )
        _renew(centre, trend, counts, keep, unit, value, level, slope, _AHEAD if predictor == 5 else 0.0)
    centre, trend = shadows.centre[item, _CHOSEN], shadows.slope[item, _CHOSEN]
    for step in range(_STEPS):
        off = value - centre[step]
        if abs(off) > unit * _HALVES[step]:
            best = _choice(shadows.counts[item], step)
            level, slope = _base(shadows, item, best)
            centre[step], trend[step] = _level(best, level, value, unit * _HALVES[step], off), slope
            _count(shadows, item, step + 1)


@compiled
def _renew(
    centres: Floats,
    slopes: Floats,
    counts: Floats,
    keep: Floats,
    unit: float,
    value: float,
    level: float,
    slope: float,
    ahead: float,
) -> None:
    """Let those of a predictor's shadows send that the value has left."""
    for step in range(_STEPS):
        half = unit * _HALVES[step]
        off = value - centres[step]
        passes = 1.0 if abs(off) > half else 0.0
        low, high = value - _CLIP * half, value + _CLIP * half
        fresh = low if level < low else level
        fresh = high if fresh > high else fresh
        fresh += ahead * half if off > 0.0 else -ahead * half
        counts[step] = counts[step] * keep[step] + passes
        slopes[step] = passes * slope + (1.0 - passes) * slopes[step]
        centres[step] = passes * fresh + (1.0 - passes) * centres[step]


@compiled
def _count(shadows: Ladder, item: int, rung: int) -> None:
    shadows.fired[item, rung] += 1.0
    shadows.lately[item, rung] += 1.0
    shadows.now[item, rung] += 1.0


@compiled
def _base(shadows: Ladder, item: int, predictor: int) -> tuple[float, float]:
    """Level and slope of a predictor before the width limits the level."""
    if predictor == 1:
        return shadows.mean[item], 0.0
    if predictor == 2:
        return shadows.last[item], shadows.slow[item]
    if predictor == 3:
        return shadows.last[item], shadows.fast[item]
    if predictor == 4:
        return shadows.level[item], shadows.trend[item]
    return shadows.last[item], 0.0


@compiled
def _level(predictor: int, level: float, value: float, half: float, off: float) -> float:
    """The level that a predictor sends for a filter of half-width `half`; `off`: by how much the value left it."""
    if predictor == 5:
        return value + (_AHEAD if off > 0.0 else -_AHEAD if off < 0.0 else 0.0) * half
    return min(max(level, value - _CLIP * half), value + _CLIP * half)


@compiled
def propose(shadows: Ladder, item: int, value: float, width: float, off: float) -> tuple[float, float]:
    """Level and slope to send for a filter of this width, by the best predictor of the nearest rung; `off`: by how much
    the value left the filter."""
    if width == 0.0 or np.isinf(width):
        return value, 0.0
    predictor = _best_predictor(shadows, item, width)
    level, slope = _base(shadows, item, predictor)
    if predictor not in (1, 4):
        level = value  # which may be newer than the ladder's last tick
    level = _level(predictor, level, value, width / 2, off)
    # Values near the largest float leave its range: then no prediction.
    return (level, slope) if np.isfinite(level) and np.isfinite(slope) else (value, 0.0)


@compiled
def _best_predictor(shadows: Ladder, item: int, width: float) -> int:
    """The predictor in use on the rung nearest to `width`."""
    unit = shadows.unit[item]
    if not (unit > 0.0 and 0.0 < width < np.inf):
        return 0
    nearest = int(np.rint(2.0 * np.log2(width / unit))) + 9
    return _choice(shadows.counts[item], min(max(nearest, 1), _STEPS) - 1)


@compiled
def _choice(counts: Floats, step: int) -> int:
    best = 0
    for predictor in range(1, _PREDICTORS):
        if counts[predictor, step] < _BETTER * counts[best, step] - _BY:
            best = predictor
    return best
