"""Rate curves: updates per tick of an item at every width, measured by its ladder and carried by its updates
(`docs/design/filters.md` §5.1).

A report is two curves over the rungs, updates per tick: over the item's life, and now. It is encoded as one byte per
rung: the negative binary logarithm in eighths, precise to 4 %.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tolerant.filters.ladder import FIRED, LATELY, LONG, NOW, RUNGS, SHORT, Ladder
from tolerant.filters.state import Floats
from tolerant.kernels.compiled import compiled, compiled_no_refcount

Report = NDArray[np.uint8]

REPORT = 2 * RUNGS
"""Bytes of a report: the rungs' rates over the item's life, then the present ones."""

_NEAR = 4.0
"""Rungs on either side of the width in force (two octaves) whose rates can change a plan soon."""
_UNLIKE, _MATTERS = 2.0**0.5, 0.005
"""A report is sent when one of those rates differs by half an octave, and by one message in 200 ticks."""
_RECENT = 0.4
"""Weight of the present rate in the rate that is compared. On recorded traces, reporting every change of either curve
added a report to nine updates in ten, and saved one message in a hundred."""
_WORTH = 6.0
"""Weight of an expectation, in observed events."""
BEFORE = np.minimum(1.0, np.array([1.0, *(0.02 * 2.0 ** (9 - rung) for rung in range(1, RUNGS))]))
"""The rates of the rungs before anything is measured."""
_FINENESS = 8.0
_RATES = 2.0 ** (-np.arange(256) / _FINENESS)


@compiled_no_refcount
def write_report(shadows: Ladder, item: int, out: Report) -> None:
    """Write the item's two curves into `out`."""
    age = float(shadows.age[item])
    if age == 0.0:
        for rung in range(RUNGS):
            out[rung] = out[RUNGS + rung] = _code(BEFORE[rung])
        return
    long, short = (1.0 - LONG**age) / (1.0 - LONG), (1.0 - SHORT**age) / (1.0 - SHORT)
    sent = shadows.chosen[item]
    n = s = f = life = now = 0.0
    for rung in range(RUNGS):
        narrower_n, narrower_s, narrower_f = n, s, f
        count = sent[FIRED + rung]
        if rung == 0:
            n = count + 0.5
            s = _weigh(n * long / age, sent[LATELY])
            f = _weigh(s * short / long, sent[NOW])
            life, now = min(n / age, 1.0), min(f / short, 1.0)
        else:
            # A walk halves its rate per rung; a change seen on the narrower rung is expected here too.
            n = _weigh(narrower_n if rung == 1 else narrower_n / 2.0, count)
            s = _weigh(narrower_s / narrower_n * n, sent[LATELY + rung])
            f = _weigh(narrower_f / narrower_s * s, sent[NOW + rung])
            life, now = min(n / age, life), min(f / short, now)
        out[rung], out[RUNGS + rung] = _code(life), _code(now)


@compiled_no_refcount
def is_news(report: Report, last: Report, unit: float, width: float) -> bool:
    """Whether a report could change a plan made from the last one; `width`: in force, `unit`: uniform."""
    own = 2.0 * np.log2(width / unit) + 9.0 if width > 0.0 and unit > 0.0 else 0.0
    for rung in range(RUNGS):
        if abs(rung - own) <= _NEAR:
            rate, known = _mixed(report, rung), _mixed(last, rung)
            if max(rate, known) > _UNLIKE * min(rate, known) and abs(rate - known) >= _MATTERS:
                return True
    return False


@compiled_no_refcount
def _mixed(report: Report, rung: int) -> float:
    return _RECENT * _RATES[report[RUNGS + rung]] + (1.0 - _RECENT) * _RATES[report[rung]]


@compiled
def _weigh(expected: float, observed: float) -> float:
    return expected * (_WORTH + observed) / (_WORTH + expected)


@compiled
def _code(rate: float) -> np.uint8:
    return np.uint8(min(255.0, np.rint(-_FINENESS * np.log2(rate))))


def decoded(codes: Report) -> Floats:
    """Decode any number of curves to updates per tick."""
    return _RATES[codes]


@compiled_no_refcount
def read_report(report: Report, life: Floats, now: Floats) -> None:
    """Decode the curves of a report to updates per tick, into float64[rungs] each."""
    for rung in range(RUNGS):
        life[rung] = _RATES[report[rung]]
        now[rung] = _RATES[report[RUNGS + rung]]


@compiled_no_refcount
def rate_at(curve: Floats, unit: float, width: float) -> float:
    """The rate of a curve over the rungs at any width: geometric between rungs, linear below the first, ∝ W⁻² beyond
    the last."""
    if width <= 0.0 or unit <= 0.0:
        return curve[0]
    place = 2.0 * np.log2(width / unit) + 9.0
    if place <= 1.0:
        return curve[0] + (curve[1] - curve[0]) * (width / (unit / 16.0))
    if place >= RUNGS - 1:
        return curve[RUNGS - 1] * (16.0 * unit / width) ** 2
    rung = int(place)
    return curve[rung] * (curve[rung + 1] / curve[rung]) ** (place - rung)
