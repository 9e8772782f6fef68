"""Observes, forecasts and reports on many items at once, at a predictive source (`docs/design/filters.md` §5.1)."""

from __future__ import annotations

import threading
from functools import cache

import numpy as np
from numpy.typing import NDArray

from tolerant.filters import ladder_arrays
from tolerant.filters.ladder import ROOMS, Ladder, begin, ladder, observe, propose
from tolerant.filters.rate_curves import is_news, write_report
from tolerant.filters.reports import REPORT
from tolerant.filters.state import CURVES, Bytes, Flags, Floats, Integers
from tolerant.kernels.compiled import compiled_no_refcount, has_numba, numba_is_loaded

COMPILED_FROM = 2_000
"""Items from which on a source's ladders are compiled, where Numba is installed. In NumPy as many take 6 ms per tick;
importing Numba and loading the code takes half a second of processor time and 170 MB, 50 MB of them the process's own.
"""

_AGAIN = 2.0
"""A ladder starts again when its item's uniform width has changed by more than this factor."""

_AT_LEAST = 1000
"""Ticks after which an update carries a report even if it is no news: the last one may have been lost."""


class Forecasts:
    """The ladders of a source's items, by handle: small integers that count up from 0."""

    def __init__(self) -> None:
        self._ladder = ladder(0)
        self._last = np.zeros((0, CURVES), np.uint8)
        self._last_age = np.zeros(0, np.int64)  # the ladder's age at the last report; −1: none yet

    def make_room(self, items: int) -> None:
        """Grow to ladders for this many items."""
        have = len(self._ladder.unit)
        if items > have:
            fresh = ladder(max(items, 2 * have, 16))
            for name, old, new in zip(Ladder._fields, self._ladder, fresh, strict=True):
                if name not in ROOMS:
                    new[:have] = old
            self._ladder = fresh
            room = len(fresh.unit) - have
            self._last = np.concatenate([self._last, np.zeros((room, CURVES), np.uint8)])
            self._last_age = np.concatenate([self._last_age, np.full(room, -1)])
            self._compiled()  # begins to load the code, if it is needed from now on

    def begin(self, handles: Integers, units: Floats, values: Floats) -> None:
        """Start the ladders of these items at these values; `units`: their uniform widths (0: not known yet)."""
        self._last_age[handles] = -1
        start = _begin_many if self._compiled() else ladder_arrays.begin_many
        start(self._ladder, handles, units, values)

    def retune(self, handles: Integers, units: Floats, values: Floats) -> None:
        """Set these items' uniform widths to `units`; restarts ladders that have become useless by it."""
        old = self._ladder.unit[handles]
        stale = (units > 0) & ((old == 0) | (units > _AGAIN * old) | (units < old / _AGAIN))
        self.begin(handles[stale], units[stale], values[stale])

    def observe(self, handles: Integers, values: Floats) -> None:
        """Count one tick with these items at these values."""
        watch = _observe_many if self._compiled() else ladder_arrays.observe_many
        watch(self._ladder, handles, values)

    def propose(self, handles: Integers, values: Floats, widths: Floats, offs: Floats) -> tuple[Floats, Floats]:
        """Level and slope per tick to send for filters of these widths, which the values left by `offs`."""
        levels, slopes = np.empty(len(handles)), np.empty(len(handles))
        forecast = _propose_many if self._compiled() else ladder_arrays.propose_many
        forecast(self._ladder, handles, values, widths, offs, levels, slopes)
        return levels, slopes

    def reports(self, handles: Integers, widths: Floats, *, whole: bool = False) -> NDArray[np.void]:
        """Return what other widths would have sent, as rows of type `REPORT`; zeros where that is no news, unless
        `whole`.
        """
        reports = np.zeros(len(handles), REPORT)
        curves, worth_sending = np.zeros((len(handles), CURVES), np.uint8), np.ones(len(handles), np.bool_)
        report = _report_many if self._compiled() else ladder_arrays.report_many
        report(self._ladder, handles, widths, self._last, curves, worth_sending)
        age, last_age = self._ladder.age[handles], self._last_age[handles]
        sent = np.flatnonzero(worth_sending | (last_age < 0) | (age - last_age >= _AT_LEAST) | whole)
        senders = handles[sent]
        self._last[senders], self._last_age[senders] = curves[sent], age[sent]
        for name, column in (("unit", self._ladder.unit[senders]), ("age", age[sent]), ("curves", curves[sent])):
            reports[name][sent] = column
        return reports

    def _compiled(self) -> bool:
        """Return whether to run compiled code: both ways give the same bits, so it may change at any call."""
        if has_numba() and len(self._ladder.unit) >= COMPILED_FROM:
            return not _loading().is_alive()
        return numba_is_loaded()


@cache
def _loading() -> threading.Thread:
    """The thread that loads the compiled code: a source that grows does not wait for it, and no row is late."""
    thread = threading.Thread(target=_load, name="tolerant-load", daemon=True)
    thread.start()
    return thread


def _load() -> None:
    shadows, handles, ones = ladder(1), np.zeros(1, np.int64), np.ones(1)
    _begin_many(shadows, handles, ones, ones)
    _observe_many(shadows, handles, ones)
    _propose_many(shadows, handles, ones, ones, ones, np.empty(1), np.empty(1))
    curves = np.zeros((1, CURVES), np.uint8)
    _report_many(shadows, handles, ones, curves.copy(), curves, np.ones(1, np.bool_))


@compiled_no_refcount
def _begin_many(shadows: Ladder, handles: Integers, units: Floats, values: Floats) -> None:
    for k in range(handles.size):
        begin(shadows, handles[k], units[k], values[k])


@compiled_no_refcount
def _observe_many(shadows: Ladder, handles: Integers, values: Floats) -> None:
    for k in range(handles.size):
        observe(shadows, handles[k], values[k])


@compiled_no_refcount
def _propose_many(
    shadows: Ladder, handles: Integers, values: Floats, widths: Floats, offs: Floats, levels: Floats, slopes: Floats
) -> None:
    for k in range(handles.size):
        levels[k], slopes[k] = propose(shadows, handles[k], values[k], widths[k], offs[k])


@compiled_no_refcount
def _report_many(
    shadows: Ladder, handles: Integers, widths: Floats, last: Bytes, out: Bytes, worth_sending: Flags
) -> None:
    for k in range(handles.size):
        write_report(shadows, handles[k], out[k])
        worth_sending[k] = is_news(out[k], last[handles[k]], shadows.unit[handles[k]], widths[k])
