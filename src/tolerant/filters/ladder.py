"""The ladder of shadow filters of a predictive source, which measures the updates at each width.

See `docs/design/filters.md` §5.1.

A source knows all its values, so it can run filters of many widths beside the real one. Rung 0 is width 0; rungs 1…17
are half an octave apart, from a sixteenth of the item's unit (its uniform width) to sixteen times it. On each rung, one
shadow filter per predictor measures which extrapolation sends least; a further shadow follows the best predictor and
measures the cost of that width.

The predictors, each a (level, slope) that both ends extrapolate from an update on, W being the width:

0. the value, at rest;
1. a slow mean of the values, at rest;
2. the value with the slow mean of the changes as its slope;
3. the value with the fast mean of the changes since the last outlier among them: so the slope of a ramp is known one
   tick after its start;
4. Holt's level and trend;
5. a little beyond the value, on the side on which it left.

A level is always within .45·W of the value, so that a wrong prediction costs messages but never breaks the promise.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tolerant.filters.state import Floats, Integers
from tolerant.kernels.compiled import compiled_no_refcount

RUNGS = 18
"""Rung 0 included."""

_PLACES = (0, 2 * RUNGS, 6 * RUNGS, 9 * RUNGS, 12 * RUNGS, 4 * RUNGS)
"""Offsets of each predictor's shadows in `Ladder.shadows`; predictors without a slope come first."""
_COUNT, _SLOPE = RUNGS, 2 * RUNGS
"""Offsets of the counts and of the slopes from a predictor's centres."""
_DRIFT, FIRED, LATELY, NOW = RUNGS, 2 * RUNGS, 3 * RUNGS, 4 * RUNGS
"""Offsets in `Ladder.chosen` of the slopes, and of the counts of updates at each width."""

_LEVEL_MEMORY, _SLOW, _FAST = 0.02, 0.05, 0.2
_HOLT_LEVEL, _HOLT_TREND = 0.3, 0.1
_NOISE, _UNLIKE = 0.05, 3.75
"""Smoothing of the changes' distance from their fast mean, and the multiple of it that is an outlier (3 σ)."""
_CLIP = 0.9
"""The largest distance of a level from the value, in half-widths."""
_AHEAD = 0.3
"""How far predictor 5 goes beyond the value, in half-widths."""
_FORGET = 31.0 / 32.0
_BETTER, _BY = 0.75, 0.5
"""A predictor replaces the best so far when its count is below .75 times the best count, less .5."""

LONG, SHORT = 0.998, 0.97
"""Decay per tick of the two decaying counts of updates."""

_HALVES = np.array([0.0, *(2.0 ** ((rung - 9) / 2) / 2 for rung in range(1, RUNGS))])
"""Half the width of every rung, in units."""


class Ladder(NamedTuple):
    """The shadow filters of many items, and the state of their predictors. Counts are as of the item's age, in ticks.

    A row of `shadows` has the centres and counts of each predictor's shadows, and the slopes of predictors that have
    one. A row of `chosen` has the centres and slopes of the shadows that follow the best predictor, then their updates:
    since the start, decaying by LONG, and by SHORT. Each has one number per rung.
    """

    unit: Floats  # the item's uniform width; 0: only rung 0 is used
    age: Integers  # ticks since the start
    last: Floats
    mean: Floats
    slow: Floats
    fast: Floats
    noise: Floats  # mean distance of the changes from `fast`
    run: Integers  # number of changes in the mean `fast`
    level: Floats
    trend: Floats
    shadows: Floats  # float64[items, 15·rungs]
    chosen: Floats  # float64[items, 5·rungs]
    half: Floats  # float64[rungs]: workspace, half the widths of the present item
    keep: Floats  # float64[rungs]: workspace, decay of its counts


ROOMS = ("half", "keep")
"""The fields of a ladder that are workspace, not per item."""


def ladder(items: int) -> Ladder:
    """Ladders of this many items, not started."""
    flat = [np.zeros(items) for _ in range(5)]
    run, holt = np.zeros(items, np.int64), [np.zeros(items) for _ in range(2)]
    rows = [np.zeros((items, 15 * RUNGS)), np.zeros((items, 5 * RUNGS))]
    rooms = [np.zeros(RUNGS) for _ in ROOMS]
    return Ladder._make([np.zeros(items), np.zeros(items, np.int64), *flat, run, *holt, *rows, *rooms])


@compiled_no_refcount
def begin(shadows: Ladder, item: int, unit: float, value: float) -> None:
    """Start, or restart, an item's ladder."""
    shadows.unit[item] = unit
    shadows.age[item] = 0
    shadows.last[item] = shadows.mean[item] = shadows.level[item] = value
    shadows.slow[item] = shadows.fast[item] = shadows.noise[item] = shadows.trend[item] = 0.0
    shadows.run[item] = 0
    shadows.shadows[item] = shadows.chosen[item] = 0.0
    shadows.chosen[item, :RUNGS] = value
    for place in _PLACES:
        shadows.shadows[item, place : place + RUNGS] = value
        # Width 0 is for predictor 0 alone: no other count is ever below its own.
        shadows.shadows[item, place + _COUNT] = np.inf if place > 0 else 0.0


@compiled_no_refcount
def observe(shadows: Ladder, item: int, value: float) -> None:
    """Count one tick with the item at `value`."""
    change = value - shadows.last[item]
    mean, slow = shadows.mean[item], shadows.slow[item]
    before, trend = shadows.level[item], shadows.trend[item]
    level = _HOLT_LEVEL * value + (1.0 - _HOLT_LEVEL) * (before + trend)
    mean += _LEVEL_MEMORY * (value - mean)
    slow += _SLOW * (change - slow)
    fast = _follow(shadows, item, change)
    trend = _HOLT_TREND * (level - before) + (1.0 - _HOLT_TREND) * trend
    shadows.last[item] = value
    shadows.age[item] += 1
    shadows.mean[item] = mean
    shadows.slow[item] = slow
    shadows.level[item] = level
    shadows.trend[item] = trend
    unit = shadows.unit[item]
    if unit == 0.0:
        _observe_changes(shadows.chosen[item], change != 0.0)
        return
    half, keep, own = shadows.half, shadows.keep, shadows.shadows[item]
    for rung in range(RUNGS):
        half[rung] = unit * _HALVES[rung]
    _offer_first(own, half, keep, value)
    _offer_still(own[_PLACES[1] :], half, keep, value, mean, 0.0)
    _offer_moving(own[_PLACES[2] :], half, keep, value, value, slow)
    _offer_moving(own[_PLACES[3] :], half, keep, value, value, fast)
    _offer_moving(own[_PLACES[4] :], half, keep, value, level, trend)
    _offer_still(own[_PLACES[5] :], half, keep, value, value, _AHEAD)
    _offer_chosen(shadows.chosen[item], own, half, value, mean, slow, fast, level, trend)


@compiled_no_refcount
def _follow(shadows: Ladder, item: int, change: float) -> float:
    """Update and return the fast mean of the changes; an outlier restarts it."""
    off, run = change - shadows.fast[item], shadows.run[item]
    if run >= 2 and abs(off) > _UNLIKE * shadows.noise[item]:
        shadows.fast[item] = change
        shadows.run[item] = 1
        return change
    run += 1
    shadows.fast[item] += max(1.0 / run, _FAST) * off
    shadows.noise[item] += max(1.0 / run, _NOISE) * (abs(off) - shadows.noise[item])
    shadows.run[item] = run
    return shadows.fast[item]


@compiled_no_refcount
def _observe_changes(chosen: Floats, changed: bool) -> None:
    """Count a tick of an item without a uniform width, on rung 0."""
    chosen[FIRED] += changed
    chosen[LATELY] = chosen[LATELY] * LONG + changed
    chosen[NOW] = chosen[NOW] * SHORT + changed


# The next four functions are branch-free arithmetic on one item's arrays, whose offsets are constant multiples of the
# rungs: the compiler can prove that nothing overlaps, and vectorises them to four shadows at a time.


@compiled_no_refcount
def _offer_first(shadows: Floats, half: Floats, keep: Floats, value: float) -> None:
    """Test the shadows of predictor 0, which rest at a value; writes the decay of each rung's counts to `keep`."""
    for rung in range(RUNGS):
        centre = shadows[rung]
        passes = 1.0 if abs(value - centre) > half[rung] else 0.0
        rest = _FORGET if passes > 0.0 else 1.0
        keep[rung] = rest
        shadows[_COUNT + rung] = shadows[_COUNT + rung] * rest + passes
        shadows[rung] = value if passes > 0.0 else centre


@compiled_no_refcount
def _offer_still(shadows: Floats, half: Floats, keep: Floats, value: float, level: float, ahead: float) -> None:
    """Test the shadows of a predictor without slope; those that the value has left send its level."""
    for rung in range(RUNGS):
        reach, centre = half[rung], shadows[rung]
        off = value - centre
        passes = 1.0 if abs(off) > reach else 0.0
        low, high = value - _CLIP * reach, value + _CLIP * reach
        fresh = low if level < low else level
        fresh = high if fresh > high else fresh
        fresh += ahead * reach if off > 0.0 else -ahead * reach
        shadows[_COUNT + rung] = shadows[_COUNT + rung] * keep[rung] + passes
        shadows[rung] = fresh if passes > 0.0 else centre


@compiled_no_refcount
def _offer_moving(shadows: Floats, half: Floats, keep: Floats, value: float, level: float, slope: float) -> None:
    """Test the shadows of a predictor with a slope, which is sent too."""
    for rung in range(RUNGS):
        reach = half[rung]
        centre = shadows[rung] + shadows[_SLOPE + rung]
        passes = 1.0 if abs(value - centre) > reach else 0.0
        low, high = value - _CLIP * reach, value + _CLIP * reach
        fresh = low if level < low else level
        fresh = high if fresh > high else fresh
        shadows[_COUNT + rung] = shadows[_COUNT + rung] * keep[rung] + passes
        shadows[_SLOPE + rung] = slope if passes > 0.0 else shadows[_SLOPE + rung]
        shadows[rung] = fresh if passes > 0.0 else centre


@compiled_no_refcount
def _offer_chosen(  # noqa: PLR0913
    chosen: Floats,
    shadows: Floats,
    half: Floats,
    value: float,
    mean: float,
    slow: float,
    fast: float,
    level: float,
    trend: float,
) -> None:
    """Test the shadows that follow the best predictor of their rung (`_best_predictor`), and count their updates."""
    for rung in range(RUNGS):
        reach = half[rung]
        centre = chosen[rung] + chosen[_DRIFT + rung]
        off = value - centre
        passes = 1.0 if abs(off) > reach else 0.0
        low, high = value - _CLIP * reach, value + _CLIP * reach
        fresh, slope, least = value, 0.0, shadows[_COUNT + rung]
        count = shadows[_PLACES[1] + _COUNT + rung]
        better = 1.0 if count < _BETTER * least - _BY else 0.0
        clipped = low if mean < low else mean
        clipped = high if clipped > high else clipped
        fresh = clipped if better > 0.0 else fresh
        least = count if better > 0.0 else least
        count = shadows[_PLACES[2] + _COUNT + rung]
        better = 1.0 if count < _BETTER * least - _BY else 0.0
        fresh = value if better > 0.0 else fresh
        slope = slow if better > 0.0 else slope
        least = count if better > 0.0 else least
        count = shadows[_PLACES[3] + _COUNT + rung]
        better = 1.0 if count < _BETTER * least - _BY else 0.0
        fresh = value if better > 0.0 else fresh
        slope = fast if better > 0.0 else slope
        least = count if better > 0.0 else least
        count = shadows[_PLACES[4] + _COUNT + rung]
        better = 1.0 if count < _BETTER * least - _BY else 0.0
        clipped = low if level < low else level
        clipped = high if clipped > high else clipped
        fresh = clipped if better > 0.0 else fresh
        slope = trend if better > 0.0 else slope
        least = count if better > 0.0 else least
        count = shadows[_PLACES[5] + _COUNT + rung]
        better = 1.0 if count < _BETTER * least - _BY else 0.0
        ahead = _AHEAD * reach if off > 0.0 else -_AHEAD * reach
        fresh = value + ahead if better > 0.0 else fresh
        slope = 0.0 if better > 0.0 else slope
        chosen[rung] = fresh if passes > 0.0 else centre
        chosen[_DRIFT + rung] = slope if passes > 0.0 else chosen[_DRIFT + rung]
        chosen[FIRED + rung] += passes
        chosen[LATELY + rung] = chosen[LATELY + rung] * LONG + passes
        chosen[NOW + rung] = chosen[NOW + rung] * SHORT + passes


@compiled_no_refcount
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


@compiled_no_refcount
def propose(shadows: Ladder, item: int, value: float, width: float, off: float) -> tuple[float, float]:
    """Level and slope to send for a filter of this width, by the best predictor of the nearest rung; `off`: by how much
    the value left the filter."""
    if width == 0.0 or np.isinf(width):
        return value, 0.0
    predictor = _best_predictor(shadows, item, width)
    level, slope = _base(shadows, item, predictor)
    if predictor not in (1, 4):
        level = value  # which may be newer than the ladder's last tick
    half = width / 2
    if predictor == 5:
        level = value + (_AHEAD if off > 0.0 else -_AHEAD if off < 0.0 else 0.0) * half
    else:
        level = min(max(level, value - _CLIP * half), value + _CLIP * half)
    # Values near the largest float leave its range: then no prediction.
    return (level, slope) if np.isfinite(level) and np.isfinite(slope) else (value, 0.0)


@compiled_no_refcount
def _best_predictor(shadows: Ladder, item: int, width: float) -> int:
    """The predictor in use on the rung nearest to `width`."""
    unit = shadows.unit[item]
    if not (unit > 0.0 and 0.0 < width < np.inf):
        return 0
    nearest = int(np.rint(2.0 * np.log2(width / unit))) + 9
    rung = min(max(nearest, 1), RUNGS - 1)
    counts, best = shadows.shadows[item, _COUNT:], 0
    for predictor in range(1, len(_PLACES)):
        if counts[_PLACES[predictor] + rung] < _BETTER * counts[_PLACES[best] + rung] - _BY:
            best = predictor
    return best
