"""What a predictive source does for many items at once: watch, forecast, report (`specs/1-filters.md` §5.1)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tolerant.filters.curves import is_news, write_report
from tolerant.filters.ladder import ROOMS, Ladder, begin, ladder, observe, propose
from tolerant.filters.reports import REPORT
from tolerant.filters.state import CURVES, Bytes, Flags, Floats, Integers
from tolerant.kernels.compiled import borrowing

_AGAIN = 2.0
"""A ladder is begun anew when its item's uniform width has changed by more than this factor."""

_AT_LEAST = 1000
"""Ticks after which an update has a report all the same: who listens may not have heard the last one."""


class Forecasts:
    """The ladders of a source's items, by handle: small integers that count up from 0."""

    def __init__(self) -> None:
        self._ladder = ladder(0)
        self._told = np.zeros((0, CURVES), np.uint8)
        self._told_at = np.zeros(0, np.int64)  # the ladder's age at the last report; −1: there was none

    def make_room(self, items: int) -> None:
        """Have ladders for so many items."""
        have = len(self._ladder.unit)
        if items > have:
            fresh = ladder(max(items, 2 * have, 16))
            for name, old, new in zip(Ladder._fields, self._ladder, fresh, strict=True):
                if name not in ROOMS:
                    new[:have] = old
            self._ladder = fresh
            room = len(fresh.unit) - have
            self._told = np.concatenate([self._told, np.zeros((room, CURVES), np.uint8)])
            self._told_at = np.concatenate([self._told_at, np.full(room, -1)])

    def begin(self, handles: Integers, units: Floats, values: Floats) -> None:
        """Watch these items, whose uniform widths are `units` (0: not known yet), from these values on."""
        self._told_at[handles] = -1
        _begin_many(self._ladder, handles, units, values)

    def retune(self, handles: Integers, units: Floats, values: Floats) -> None:
        """These items' uniform widths are `units` now; begin anew where that makes the old ladder useless."""
        old = self._ladder.unit[handles]
        stale = (units > 0) & ((old == 0) | (units > _AGAIN * old) | (units < old / _AGAIN))
        self.begin(handles[stale], units[stale], values[stale])

    def observe(self, handles: Integers, values: Floats) -> None:
        """A tick passes with these items at these values."""
        _observe_many(self._ladder, handles, values)

    def propose(self, handles: Integers, values: Floats, widths: Floats, offs: Floats) -> tuple[Floats, Floats]:
        """Level and slope (a tick) to send for filters of these widths, which the values left by `offs`."""
        levels, slopes = np.empty(len(handles)), np.empty(len(handles))
        _propose_many(self._ladder, handles, values, widths, offs, levels, slopes)
        return levels, slopes

    def reports(self, handles: Integers, widths: Floats, *, whole: bool = False) -> NDArray[np.void]:
        """What other widths than these would have sent, as rows of type `REPORT`: zeros where that is no news, unless
        `whole`.
        """
        found = np.zeros(len(handles), REPORT)
        curves, news = np.zeros((len(handles), CURVES), np.uint8), np.ones(len(handles), np.bool_)
        _report_many(self._ladder, handles, widths, self._told, curves, news)
        age, told_at = self._ladder.age[handles], self._told_at[handles]
        says = np.flatnonzero(news | (told_at < 0) | (age - told_at >= _AT_LEAST) | whole)
        spoken = handles[says]
        self._told[spoken], self._told_at[spoken] = curves[says], age[says]
        for name, column in (("unit", self._ladder.unit[spoken]), ("age", age[says]), ("curves", curves[says])):
            found[name][says] = column
        return found


@borrowing
def _begin_many(shadows: Ladder, handles: Integers, units: Floats, values: Floats) -> None:
    for k in range(handles.size):
        begin(shadows, handles[k], units[k], values[k])


@borrowing
def _observe_many(shadows: Ladder, handles: Integers, values: Floats) -> None:
    for k in range(handles.size):
        observe(shadows, handles[k], values[k])


@borrowing
def _propose_many(
    shadows: Ladder, handles: Integers, values: Floats, widths: Floats, offs: Floats, levels: Floats, slopes: Floats
) -> None:
    for k in range(handles.size):
        levels[k], slopes[k] = propose(shadows, handles[k], values[k], widths[k], offs[k])


@borrowing
def _report_many(shadows: Ladder, handles: Integers, widths: Floats, told: Bytes, out: Bytes, news: Flags) -> None:
    for k in range(handles.size):
        write_report(shadows, handles[k], out[k])
        news[k] = is_news(out[k], told[handles[k]], shadows.unit[handles[k]], widths[k])
