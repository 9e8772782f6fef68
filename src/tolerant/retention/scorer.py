"""Computes scores of rows in compiled code: ln H of a value at a tick (`docs/design/retention.md` §2.7).

Logarithms, so that a row far ahead of a trend, or one that a known stream needs in a million ticks, still scores higher
than one that is never needed. The array layout of each kind of scorer is documented at the function that reads it;
`scorer_tables` builds them from models.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from tolerant.kernels.compiled import compiled, compiled_no_refcount, inlined, inlined_no_refcount
from tolerant.retention.rounded_normal import cell
from tolerant.retention.survival import EXPONENTIAL, FIXED, log_survival
from tolerant.retention.value_arrays import Floats, Integers, i64

KEYS, OFFSETS, LINE, SURFACE, REVERTING, EVENTS = range(6)
"""KEYS: rows carry constant scores. Others: functions of value, tick, the partner's last value."""

ENDLESS = i64(2**62)
"""The remaining life of a row without a window."""


class Scorer(NamedTuple):
    """The arrays of a kind of score; unused ones are empty. A layer is one of several survival functions."""

    kind: int
    table: Floats
    numbers: Floats
    whole: Integers
    listed: Integers


@inlined_no_refcount
def score(scorer: Scorer, layer: int, value: int, life: int, tick: int, last: int) -> tuple[float, float]:
    """Return ln H of a row, and the tie-breaker. life: remaining ticks; last: the partner's newest value."""
    if scorer.kind == OFFSETS:
        return _offset_score(scorer, layer, value, life, tick, last), 0.0
    if scorer.kind == SURFACE:
        low, width = scorer.whole[0], scorer.whole[1]
        return scorer.table[(layer * width + last - low) * width + value - low], 0.0
    if scorer.kind == LINE:
        return line_score(scorer, layer, value, life, tick), 0.0
    if scorer.kind == REVERTING:
        return _reverting_score(scorer, layer, value, life, last), 0.0
    return _event_score(scorer, layer, value, life, tick)


@inlined
def centre_of(slope: float, offset: float, tick: int) -> int:
    """Return the trend's line at a tick."""
    return math.floor(slope * tick + offset + 0.5)


@inlined_no_refcount
def dead_below(scorer: Scorer, tick: int) -> int:
    """Return the bound below which a value times the trend's sign never matches again; for scorers on a trend."""
    slope, offset = scorer.numbers[0], scorer.numbers[1]
    sign = 1 if slope > 0 else -1
    return sign * centre_of(slope, offset, tick + 1) - scorer.whole[0]


@inlined
def _difference(value: int, other: int) -> int:
    """Return value − other, clamped to ±2^62."""
    exact = float(value) - float(other)
    if abs(exact) >= 4.6e18:
        return ENDLESS if exact > 0 else -ENDLESS
    return value - other


@inlined_no_refcount
def _offset_score(scorer: Scorer, layer: int, value: int, life: int, tick: int, last: int) -> float:
    """Return the score from a table over value − centre. The centre is a trend's line or the last value.

    whole: bound, sign, follows the line?, low, length, step, period left and right, number of lives
    numbers: slope, offset, drop per period left and right; listed: the lives that the table has rows for
    """
    sign, line, low, length = scorer.whole[1], scorer.whole[2], scorer.whole[3], scorer.whole[4]
    step, back, ahead, n_lives = scorer.whole[5], scorer.whole[6], scorer.whole[7], scorer.whole[8]
    centre = centre_of(scorer.numbers[0], scorer.numbers[1], tick) if line else last
    offset = sign * _difference(value, centre)
    high = low + (length - 1) * step
    drop = 0.0
    if offset > high:
        periods = (offset - high + ahead - 1) // ahead
        offset -= periods * ahead
        drop = periods * scorer.numbers[3 + 2 * layer]
    elif offset < low:
        if back == 0:
            return -np.inf
        periods = (low - offset + back - 1) // back
        offset += periods * back
        drop = periods * scorer.numbers[2 + 2 * layer]
    if n_lives == 0:
        return _interpolated(scorer.table, layer * length, offset - low, step) - drop
    lives = scorer.listed
    upper = _place(lives, i64(0), n_lives, life)
    if upper >= n_lives:
        return _interpolated(scorer.table, (n_lives - 1) * length, offset - low, step) - drop
    above = _interpolated(scorer.table, upper * length, offset - low, step)
    if lives[upper] == life or upper == 0:
        return above - drop
    below = _interpolated(scorer.table, (upper - 1) * length, offset - low, step)
    share = (life - lives[upper - 1]) / (lives[upper] - lives[upper - 1])
    return math.log(math.exp(below) * (1.0 - share) + math.exp(above) * share) - drop


@inlined_no_refcount
def _interpolated(table: Floats, base: int, position: int, step: int) -> float:
    index = position // step
    rest = position - index * step
    if rest == 0:
        return table[base + index]
    return table[base + index] + (table[base + index + 1] - table[base + index]) * rest / step


@compiled_no_refcount
def line_score(scorer: Scorer, layer: int, value: int, life: int, tick: int) -> float:
    """Return the score under a trend, summed directly over the ticks at which the value is possible.

    table: probabilities of the noise; whole: bound, survival, cached?; numbers: slope, offset, survival's parameter
    """
    bound, code, cached = scorer.whole[0], scorer.whole[1], scorer.whole[2]
    slope, offset, parameter = scorer.numbers[0], scorer.numbers[1], scorer.numbers[2 + layer]
    sign = 1.0 if slope > 0 else -1.0
    start = max(1, int((sign * (value - offset) - bound - 1.0) / abs(slope)) - tick - 1)
    first, total, missed = -np.inf, 0.0, 1.0
    ahead = start
    while ahead <= life:
        distance = value - centre_of(slope, offset, tick + ahead)
        if sign * distance < -bound:
            break
        if abs(distance) <= bound:
            weight = log_survival(code, parameter, float(ahead))
            if weight == -np.inf:
                break
            if total == 0.0:
                first = weight
            chance = scorer.table[distance + bound]
            total += chance * missed * math.exp(weight - first)
            if cached:
                missed *= 1.0 - chance
        ahead += 1
    return first + math.log(total) if total > 0.0 else -np.inf


@compiled
def reverting_sum(
    constant: float, phi: float, sigma: float, code: int, parameter: float, distance: float, last: float, life: int
) -> float:
    """Return Σ Pr{X = last + distance, d ticks ahead}·L(d) for an AR(1) stream at `last`.

    Once |phi|^d is below 1e−6 the terms differ by L only, and an exponential's tail is summed in closed form.
    """
    mean, variance, power, total = last, 0.0, 1.0, 0.0
    value = last + distance
    ahead = 0
    while ahead < life:
        ahead += 1
        weight = math.exp(log_survival(code, parameter, float(ahead)))
        mean = phi * mean + constant
        variance = phi * phi * variance + sigma * sigma
        power *= abs(phi)
        chance = cell(value - mean, math.sqrt(variance))
        total += chance * weight
        if code == FIXED and ahead >= parameter:
            break
        if code == EXPONENTIAL:
            if power < 1e-6:
                rest = math.exp(-1.0 / parameter)
                cut = math.exp(-(life - ahead) / parameter) if life < ENDLESS else 0.0
                return total + chance * weight * (rest - rest * cut) / (1.0 - rest)
            if weight < 1e-14:
                break
    return total


@compiled_no_refcount
def _reverting_score(scorer: Scorer, layer: int, value: int, life: int, last: int) -> float:
    """Return the score under an AR(1) model, summed directly; whole: survival, cached?; numbers: constant, phi, sigma,
    survival's parameter.
    """
    constant, phi, sigma = scorer.numbers[0], scorer.numbers[1], scorer.numbers[2]
    code, parameter = scorer.whole[0], scorer.numbers[3 + layer]
    here = float(value)
    total = reverting_sum(constant, phi, sigma, code, parameter, here - last, float(last), life)
    if scorer.whole[1]:
        total /= 1.0 + reverting_sum(constant, phi, sigma, code, parameter, 0.0, here, life)
    return math.log(total) if total > 0.0 else -np.inf


@compiled_no_refcount
def _place(ordered: Integers, low: int, high: int, value: int) -> int:
    """Return the first place in [low, high) that holds at least `value`; `high` if none does."""
    while low < high:
        middle = (low + high) // 2
        if ordered[middle] < value:
            low = middle + 1
        else:
            high = middle
    return low


@compiled_no_refcount
def _event_score(scorer: Scorer, layer: int, value: int, life: int, tick: int) -> tuple[float, float]:
    """Return the score from listed ticks of a value and their probabilities; second: ln of all but the first term.

    whole: survival, cached?, number of values, number of ticks. listed: the values, in order; where the ticks of each
    begin; the ticks. table: the probabilities of those. numbers: parameter
    """
    n = scorer.whole[2]
    listed = scorer.listed
    place = _place(listed, i64(0), n, value)
    if place >= n or listed[place] != value:
        return -np.inf, -np.inf
    base = 2 * n + 1
    begin, end = listed[n + place], listed[n + place + 1]
    k = _place(listed, base + begin, base + end, tick + 1) - base
    first, others, rest, missed = -np.inf, -np.inf, 0.0, 1.0
    while k < end and listed[base + k] - tick <= life and missed > 0.0:
        ahead = float(listed[base + k] - tick)
        chance = scorer.table[k]
        term = math.log(chance * missed) + log_survival(scorer.whole[0], scorer.numbers[layer], ahead)
        if term == -np.inf:
            break
        if first == -np.inf:
            first = term
        elif others == -np.inf:
            others, rest = term, 1.0
        else:
            rest += math.exp(term - others)
            if term < others - 40.0:
                break
        if scorer.whole[1]:
            missed *= 1.0 - chance
        k += 1
    if others == -np.inf:
        return first, -np.inf
    others += math.log(rest)
    return first + math.log1p(math.exp(others - first)), others
