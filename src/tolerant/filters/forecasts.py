"""What a predictive source does for many items at once: watch, forecast, report (`specs/1-filters.md` §5.1)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tolerant.filters.curves import write_report
from tolerant.filters.ladder import Ladder, begin, ladder, observe, propose
from tolerant.filters.reports import REPORT
from tolerant.filters.state import Bytes, Floats, Integers
from tolerant.kernels.compiled import compiled

_AGAIN = 2.0
"""A ladder is begun anew when its item's uniform width has changed by more than this factor."""


class Forecasts:
    """The ladders of a source's items, by handle: small integers that count up from 0."""

    def __init__(self) -> None:
        self._ladder = ladder(0)

    def make_room(self, items: int) -> None:
        """Have ladders for so many items."""
        have = len(self._ladder.unit)
        if items > have:
            fresh = ladder(max(items, 2 * have, 16))
            for name, old, new in zip(Ladder._fields, self._ladder, fresh, strict=True):
                if name != "keep":
                    new[:have] = old
            self._ladder = fresh

    def begin(self, handles: Integers, units: Floats, values: Floats) -> None:
        """Watch these items, whose uniform widths are `units` (0: not known yet), from these values on."""
        _begin_many(self._ladder, handles, units, values)

    def retune(self, handles: Integers, units: Floats, values: Floats) -> None:
        """These items' uniform widths are `units` now; begin anew where that makes the old ladder useless."""
        old = self._ladder.unit[handles]
        stale = (units > 0) & ((old == 0) | (units > _AGAIN * old) | (units < old / _AGAIN))
        _begin_many(self._ladder, handles[stale], units[stale], values[stale])

    def observe(self, handles: Integers, values: Floats) -> None:
        """A tick passes with these items at these values."""
        _observe_many(self._ladder, handles, values)

    def propose(self, handles: Integers, values: Floats, widths: Floats, offs: Floats) -> tuple[Floats, Floats]:
        """Level and slope (a tick) to send for filters of these widths, which the values left by `offs`."""
        levels, slopes = np.empty(len(handles)), np.empty(len(handles))
        _propose_many(self._ladder, handles, values, widths, offs, levels, slopes)
        return levels, slopes

    def reports(self, handles: Integers) -> NDArray[np.void]:
        """What other widths would have sent, as rows of type `REPORT`."""
        found = np.zeros(len(handles), REPORT)
        curves = np.zeros((len(handles), found["curves"].shape[1]), np.uint8)
        _report_many(self._ladder, handles, curves)
        found["unit"], found["age"], found["curves"] = self._ladder.unit[handles], self._ladder.age[handles], curves
        return found


@compiled
def _begin_many(shadows: Ladder, handles: Integers, units: Floats, values: Floats) -> None:
    for k in range(handles.size):
        begin(shadows, handles[k], units[k], values[k])


@compiled
def _observe_many(shadows: Ladder, handles: Integers, values: Floats) -> None:
    for k in range(handles.size):
        observe(shadows, handles[k], values[k])


@compiled
def _propose_many(
    shadows: Ladder, handles: Integers, values: Floats, widths: Floats, offs: Floats, levels: Floats, slopes: Floats
) -> None:
    for k in range(handles.size):
        levels[k], slopes[k] = propose(shadows, handles[k], values[k], widths[k], offs[k])


@compiled
def _report_many(shadows: Ladder, handles: Integers, out: Bytes) -> None:
    for k in range(handles.size):
        write_report(shadows, handles[k], out[k])
