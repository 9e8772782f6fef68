"""The ladders of many items at once in NumPy, to the same bits as `ladder` and `rate_curves`, which are compiled.

A source with few items needs no Numba: importing it and loading the code takes longer, and more memory, than what it
would save (`source_forecasts.COMPILED_FROM`). A row of an array is an item, a column a rung.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import numpy as np

from tolerant.filters import ladder as by_item
from tolerant.filters import rate_curves as curves_by_item
from tolerant.filters.ladder import FIRED, LATELY, LONG, NOW, RUNGS, SHORT, Ladder
from tolerant.filters.state import Bytes, Flags, Floats, Integers

_AT_ONCE = 128
"""Items whose shadows stay in the processor's cache while they are worked on."""

_PLACES, _COUNT, _SLOPE, _DRIFT = by_item._PLACES, by_item._COUNT, by_item._SLOPE, by_item._DRIFT
_BETTER, _BY, _AHEAD, _CLIP = by_item._BETTER, by_item._BY, by_item._AHEAD, by_item._CLIP
_FIRST, _STILL, _MOVING, _BEYOND = 0, 1, (2, 3, 4), 5
"""The predictors, by what their shadows do."""


class _Readings(NamedTuple):
    """Values and predictors of some items at a tick, each as a column."""

    value: Floats
    mean: Floats
    slow: Floats
    fast: Floats
    level: Floats
    trend: Floats


def begin_many(shadows: Ladder, handles: Integers, units: Floats, values: Floats) -> None:
    """`ladder.begin` for many items."""
    shadows.unit[handles] = units
    for started in (shadows.last, shadows.mean, shadows.level):
        started[handles] = values
    for zero in (shadows.age, shadows.run, shadows.slow, shadows.fast, shadows.noise, shadows.trend):
        zero[handles] = 0
    own, chosen = np.zeros((len(handles), 15 * RUNGS)), np.zeros((len(handles), 5 * RUNGS))
    chosen[:, :RUNGS] = values[:, None]
    for place in _PLACES:
        own[:, place : place + RUNGS] = values[:, None]
        own[:, place + _COUNT] = np.inf if place > 0 else 0.0
    shadows.shadows[handles], shadows.chosen[handles] = own, chosen


def observe_many(shadows: Ladder, handles: Integers, values: Floats) -> None:
    """`ladder.observe` for many items, each of them once."""
    with np.errstate(all="ignore"):
        for begin in range(0, len(handles), _AT_ONCE):
            part = slice(begin, begin + _AT_ONCE)
            _observe(shadows, handles[part], values[part])


def _observe(shadows: Ladder, items: Integers, value: Floats) -> None:
    change = value - shadows.last[items]
    mean, slow = shadows.mean[items], shadows.slow[items]
    before, trend = shadows.level[items], shadows.trend[items]
    level = by_item._HOLT_LEVEL * value + (1.0 - by_item._HOLT_LEVEL) * (before + trend)
    mean += by_item._LEVEL_MEMORY * (value - mean)
    slow += by_item._SLOW * (change - slow)
    fast = _follow(shadows, items, change)
    trend = by_item._HOLT_TREND * (level - before) + (1.0 - by_item._HOLT_TREND) * trend
    shadows.last[items] = value
    shadows.age[items] += 1
    shadows.mean[items], shadows.slow[items] = mean, slow
    shadows.level[items], shadows.trend[items] = level, trend
    active = shadows.unit[items] != 0.0
    readings = _Readings(value, mean, slow, fast, level, trend)
    if not active.all():
        _observe_changes(shadows, items[~active], change[~active] != 0.0)
        items, readings = items[active], _Readings._make(column[active] for column in readings)
    if len(items):
        _offer(shadows, items, _Readings._make(column[:, None] for column in readings))


def _follow(shadows: Ladder, items: Integers, change: Floats) -> Floats:
    fast, noise, run = shadows.fast[items], shadows.noise[items], shadows.run[items]
    off = change - fast
    outlier = (run >= 2) & (np.abs(off) > by_item._UNLIKE * noise)
    run += 1
    share = 1.0 / run
    followed = np.where(outlier, change, fast + np.maximum(share, by_item._FAST) * off)
    shadows.fast[items] = followed
    shadows.noise[items] = np.where(outlier, noise, noise + np.maximum(share, by_item._NOISE) * (np.abs(off) - noise))
    shadows.run[items] = np.where(outlier, 1, run)
    return followed


def _observe_changes(shadows: Ladder, items: Integers, changed: Flags) -> None:
    counts = shadows.chosen
    counts[items, FIRED] += changed
    counts[items, LATELY] = counts[items, LATELY] * LONG + changed
    counts[items, NOW] = counts[items, NOW] * SHORT + changed


def _offer(shadows: Ladder, items: Integers, at: _Readings) -> None:
    half = shadows.unit[items][:, None] * by_item._HALVES
    low, high = at.value - _CLIP * half, at.value + _CLIP * half
    own = shadows.shadows[items]
    keep = _offer_first(own, half, at.value)
    _offer_still(_shadows_of(own, _STILL), half, keep, at.value, _clipped(at.mean, low, high), 0.0)
    levels = (_clipped(at.value, low, high), _clipped(at.value, low, high), _clipped(at.level, low, high))
    for predictor, fresh, slope in zip(_MOVING, levels, (at.slow, at.fast, at.trend), strict=True):
        _offer_moving(_shadows_of(own, predictor), half, keep, at.value, fresh, slope)
    _offer_still(_shadows_of(own, _BEYOND), half, keep, at.value, levels[0], _AHEAD)
    shadows.shadows[items] = own
    chosen = shadows.chosen[items]
    _offer_chosen(chosen, own, half, at, _clipped(at.mean, low, high), levels[2])
    shadows.chosen[items] = chosen


def _shadows_of(own: Floats, predictor: int) -> Floats:
    return own[:, _PLACES[predictor] :]


def _clipped(level: Floats, low: Floats, high: Floats) -> Floats:
    fresh = np.where(level < low, low, level)
    return np.where(fresh > high, high, fresh)


def _offer_first(own: Floats, half: Floats, value: Floats) -> Floats:
    """Test the shadows of predictor 0; return the decay of each rung's counts."""
    centre, count = own[:, :RUNGS], own[:, _COUNT : _COUNT + RUNGS]
    passes = np.abs(value - centre) > half
    keep = np.where(passes, by_item._FORGET, 1.0)
    count[:] = count * keep + passes
    centre[:] = np.where(passes, value, centre)
    return keep


def _offer_still(own: Floats, half: Floats, keep: Floats, value: Floats, fresh: Floats, ahead: float) -> None:
    centre, count = own[:, :RUNGS], own[:, _COUNT : _COUNT + RUNGS]
    off = value - centre
    passes = np.abs(off) > half
    fresh = fresh + np.where(off > 0.0, ahead * half, -ahead * half)
    count[:] = count * keep + passes
    centre[:] = np.where(passes, fresh, centre)


def _offer_moving(own: Floats, half: Floats, keep: Floats, value: Floats, fresh: Floats, slope: Floats) -> None:
    centre, count = own[:, :RUNGS], own[:, _COUNT : _COUNT + RUNGS]
    slopes = own[:, _SLOPE : _SLOPE + RUNGS]
    moved = centre + slopes
    passes = np.abs(value - moved) > half
    count[:] = count * keep + passes
    slopes[:] = np.where(passes, slope, slopes)
    centre[:] = np.where(passes, fresh, moved)


def _offer_chosen(chosen: Floats, own: Floats, half: Floats, at: _Readings, mean: Floats, level: Floats) -> None:
    """Test the shadows that follow the best predictor of their rung; `mean` and `level` as they would be sent."""
    drift = chosen[:, _DRIFT : _DRIFT + RUNGS]
    centre = chosen[:, :RUNGS] + drift
    off = at.value - centre
    passes = np.abs(off) > half
    beyond = at.value + np.where(off > 0.0, _AHEAD * half, -_AHEAD * half)
    sent = ((mean, None), (at.value, at.slow), (at.value, at.fast), (level, at.trend), (beyond, 0.0))
    least = own[:, _COUNT : _COUNT + RUNGS]
    fresh, slope = np.broadcast_to(at.value, half.shape), np.zeros(half.shape)
    for predictor, (candidate, its_slope) in enumerate(sent, start=1):
        place = _PLACES[predictor] + _COUNT
        count = own[:, place : place + RUNGS]
        better = count < _BETTER * least - _BY
        fresh = np.where(better, candidate, fresh)
        if its_slope is not None:
            slope = np.where(better, its_slope, slope)
        least = np.where(better, count, least)
    chosen[:, :RUNGS] = np.where(passes, fresh, centre)
    drift[:] = np.where(passes, slope, drift)
    for offset, decay in ((FIRED, 1.0), (LATELY, LONG), (NOW, SHORT)):
        updates = chosen[:, offset : offset + RUNGS]
        updates[:] = updates * decay + passes


def propose_many(
    shadows: Ladder, handles: Integers, values: Floats, widths: Floats, offs: Floats, levels: Floats, slopes: Floats
) -> None:
    """`ladder.propose` for many items, into `levels` and `slopes`."""
    with np.errstate(all="ignore"):
        predictor, half = _best_predictors(shadows, handles, widths), widths / 2
        still = np.zeros(len(handles))
        bases = (values, shadows.mean[handles], values, values, shadows.level[handles])
        slope = np.choose(
            predictor, (still, still, shadows.slow[handles], shadows.fast[handles], shadows.trend[handles], still)
        )
        level = np.choose(np.minimum(predictor, 4), bases)
        low, high = values - _CLIP * half, values + _CLIP * half
        level = np.where(low > level, low, level)
        level = np.where(high < level, high, level)
        side = np.where(offs > 0.0, _AHEAD, np.where(offs < 0.0, -_AHEAD, 0.0))
        level = np.where(predictor == _BEYOND, values + side * half, level)
        usable = np.isfinite(level) & np.isfinite(slope) & (widths != 0.0) & ~np.isinf(widths)
        levels[:], slopes[:] = np.where(usable, level, values), np.where(usable, slope, 0.0)


def _best_predictors(shadows: Ladder, handles: Integers, widths: Floats) -> Integers:
    units = shadows.unit[handles]
    places = np.clip(np.rint(2.0 * np.log2(widths / units)), -RUNGS, RUNGS)
    known = (units > 0.0) & (widths > 0.0) & (widths < np.inf)
    rung = np.clip(np.where(known, places, 0.0).astype(np.int64) + 9, 1, RUNGS - 1)
    best, least = np.zeros(len(handles), np.int64), shadows.shadows[handles, _COUNT + rung]
    for predictor in range(1, len(_PLACES)):
        count = shadows.shadows[handles, _COUNT + _PLACES[predictor] + rung]
        better = known & (count < _BETTER * least - _BY)
        best, least = np.where(better, predictor, best), np.where(better, count, least)
    return best


def report_many(
    shadows: Ladder, handles: Integers, widths: Floats, last: Bytes, out: Bytes, worth_sending: Flags
) -> None:
    """`rate_curves.write_report` and `is_news` for many items, into `out` and `worth_sending`."""
    with np.errstate(all="ignore"):
        _write_reports(shadows, handles, out)
        worth_sending[:] = _are_news(out, last[handles], shadows.unit[handles], widths)


@lru_cache(maxsize=4096)
def _weight(decay: float, age: int) -> float:
    """The number of ticks that a count with this decay stands for; `pow` of scalars, whose last bit arrays need not
    have.
    """
    return (1.0 - decay ** float(age)) / (1.0 - decay)


def _write_reports(shadows: Ladder, handles: Integers, out: Bytes) -> None:
    ages = shadows.age[handles]
    out[:] = np.tile(_codes(curves_by_item.BEFORE), 2)
    begun = ages > 0
    if not begun.any():
        return
    age = ages[begun]
    long = np.array([_weight(LONG, ticks) for ticks in age.tolist()])
    short = np.array([_weight(SHORT, ticks) for ticks in age.tolist()])
    sent = shadows.chosen[handles[begun]].T
    rates = np.empty((2 * RUNGS, len(age)))
    n = sent[FIRED] + 0.5
    s = _weighed(n * long / age, sent[LATELY])
    f = _weighed(s * short / long, sent[NOW])
    rates[0], rates[RUNGS] = np.minimum(n / age, 1.0), np.minimum(f / short, 1.0)
    for rung in range(1, RUNGS):
        narrower_n, narrower_s, narrower_f = n, s, f
        n = _weighed(narrower_n if rung == 1 else narrower_n / 2.0, sent[FIRED + rung])
        s = _weighed(narrower_s / narrower_n * n, sent[LATELY + rung])
        f = _weighed(narrower_f / narrower_s * s, sent[NOW + rung])
        rates[rung] = np.minimum(n / age, rates[rung - 1])
        rates[RUNGS + rung] = np.minimum(f / short, rates[RUNGS + rung - 1])
    out[begun] = _codes(rates.T)


def _weighed(expected: Floats, observed: Floats) -> Floats:
    worth = curves_by_item._WORTH
    return expected * (worth + observed) / (worth + expected)


def _codes(rates: Floats) -> Bytes:
    return np.minimum(255.0, np.rint(-curves_by_item._FINENESS * np.log2(rates))).astype(np.uint8)


def _are_news(report: Bytes, last: Bytes, units: Floats, widths: Floats) -> Flags:
    placed = (widths > 0.0) & (units > 0.0)
    own = np.where(placed, 2.0 * np.log2(widths / units) + 9.0, 0.0)
    near = np.abs(np.arange(RUNGS) - own[:, None]) <= curves_by_item._NEAR
    rate, known = _mixed(report), _mixed(last)
    changed = np.maximum(rate, known) > curves_by_item._UNLIKE * np.minimum(rate, known)
    return (near & changed & (np.abs(rate - known) >= curves_by_item._MATTERS)).any(axis=1)


def _mixed(report: Bytes) -> Floats:
    rates, recent = curves_by_item._RATES, curves_by_item._RECENT
    return recent * rates[report[:, RUNGS:]] + (1.0 - recent) * rates[report[:, :RUNGS]]
