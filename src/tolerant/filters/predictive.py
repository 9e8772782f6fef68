"""The predictive policy over a recorded trace: both ends, period by period (`specs/1-filters.md` §5.1)."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tolerant.filters.audit import Promises, Spread, spread_out, violations_at
from tolerant.filters.curves import REPORT, Report, is_news, write_report
from tolerant.filters.ladder import Ladder, begin, observe, propose
from tolerant.filters.plans import Plan, best_plan
from tolerant.filters.prices import Known, Market
from tolerant.filters.rows import RowArrays
from tolerant.filters.state import Floats, Integers
from tolerant.kernels.compiled import borrowing, compiled


class Ends(NamedTuple):
    """What the two ends of every item's filter agree on: level + slope·(tick − since) is its centre."""

    level: Floats
    slope: Floats
    since: Integers
    width: Floats
    pending: Floats  # a growth that begins at the next tick; NaN: none
    report: Report  # room for the report of the update being sent


class Counted(NamedTuple):
    """Messages by item from the tick `warmup` on, and how many updates had a report; the cost of every update."""

    warmup: int
    updates: Integers
    grants: Integers
    reports: Integers
    received: Floats


def ends_of(widths: Floats) -> Ends:
    """Filters of these widths, which the replay changes, before their first reading."""
    n = len(widths)
    level, slope, pending = np.zeros(n), np.zeros(n), np.full(n, np.nan)
    return Ends(level, slope, np.zeros(n, np.int64), widths, pending, np.zeros(REPORT, np.uint8))


@compiled
def replay_predictive(
    values: Floats,
    first: Integers,
    ends: Ends,
    shadows: Ladder,
    known: Known,
    space: Market,
    rows: RowArrays,
    promises: Promises,
    period: int,
    warmup: int,
) -> tuple[Integers, Integers, int, int]:
    """Updates and grants by item, violations, and reports; `first`: the tick of each item's first reading."""
    ticks, n = values.shape
    counted = Counted(warmup, np.zeros(n, np.int64), np.zeros(n, np.int64), np.zeros(n, np.int64), np.zeros(n))
    centres = np.empty((period, n))
    spread = Spread(np.empty(promises.fn.size), np.empty(promises.fn.size, np.bool_))
    last, spent, received, violations = 0, 0.0, 0.0, 0
    for item in range(n):
        if first[item] == 0:
            _begin(values[0, item], 0, item, ends, shadows, known, counted)
    for start in range(1, ticks, period):
        stop = min(start + period, ticks)
        _grow_pending(ends, known, counted, start)
        held = ends.width.copy()  # in the tick of a plan the old widths still count
        spread_out(promises, held, spread)
        # Item by item: a ladder is large, and should come from far memory once a period, not once a tick.
        for item in range(n):
            _live(values, start, stop, item, first[item], ends, shadows, known, centres, counted)
        news, received = counted.received.sum() > received, counted.received.sum()
        tick = stop - 1
        if news and tick % period == 0:
            plan = best_plan(rows, known, ends.width, rows.adaptable, tick, last, spent, received, space)
            if plan.worth > 0.0:
                last, spent = tick, spent + plan.cost
                _tighten(plan, values[tick], tick, ends, shadows, known, centres[tick - start], counted)
        for tick in range(start, stop):
            violations += violations_at(promises, spread, tick, values[tick], centres[tick - start], held)
    return counted.updates, counted.grants, violations, counted.reports.sum()


@borrowing
def _live(
    values: Floats,
    start: int,
    stop: int,
    item: int,
    first: int,
    ends: Ends,
    shadows: Ladder,
    known: Known,
    centres: Floats,
    counted: Counted,
) -> None:
    """One item's ticks from `start` to before `stop`."""
    reach = ends.width[item] / 2
    for tick in range(start, stop):
        value = values[tick, item]
        if tick <= first:
            if tick == first:
                _begin(value, tick, item, ends, shadows, known, counted)
            centres[tick - start, item] = value
            continue
        observe(shadows, item, value)
        centre = ends.level[item] + ends.slope[item] * (tick - ends.since[item])
        if abs(value - centre) > reach:
            _send(value, value - centre, tick, item, ends, shadows, known, counted)
            centre = ends.level[item]
            counted.updates[item] += tick >= counted.warmup
            counted.received[item] += known.cost[item]
        centres[tick - start, item] = centre


@borrowing
def _begin(value: float, tick: int, item: int, ends: Ends, shadows: Ladder, known: Known, counted: Counted) -> None:
    """An item's first reading is its registration."""
    begin(shadows, item, known.unit[item] if known.unit[item] < np.inf else 0.0, value)
    _send(value, 0.0, tick, item, ends, shadows, known, counted)


@borrowing
def _send(
    value: float, off: float, tick: int, item: int, ends: Ends, shadows: Ladder, known: Known, counted: Counted
) -> None:
    """Send an update: a level, a slope, and, when it is news, a report of what other widths would have sent."""
    ends.level[item], ends.slope[item] = propose(shadows, item, value, ends.width[item], off)
    ends.since[item] = tick
    write_report(shadows, item, ends.report)
    if is_news(ends.report, known.curves[item], shadows.unit[item], ends.width[item]):
        for place in range(REPORT):
            known.curves[item, place] = ends.report[place]
        known.told[item] = True
        counted.reports[item] += tick >= counted.warmup
    known.reported[item] = tick
    known.age[item] = shadows.age[item]


@borrowing
def _tighten(
    plan: Plan,
    values: Floats,
    tick: int,
    ends: Ends,
    shadows: Ladder,
    known: Known,
    centres: Floats,
    counted: Counted,
) -> None:
    """Tighten now, each confirmed by an update; what grows does so when that is known."""
    counts = tick >= counted.warmup
    for item in range(plan.width.size):
        if plan.width[item] < ends.width[item]:
            ends.width[item] = plan.width[item]
            _send(values[item], 0.0, tick, item, ends, shadows, known, counted)
            centres[item] = ends.level[item]
            known.narrowed[item] = tick
            counted.grants[item] += counts
            counted.updates[item] += counts
        elif plan.width[item] > ends.width[item]:
            ends.pending[item] = plan.width[item]


@borrowing
def _grow_pending(ends: Ends, known: Known, counted: Counted, tick: int) -> None:
    for item in range(ends.width.size):
        if not np.isnan(ends.pending[item]):
            ends.width[item] = ends.pending[item]
            ends.pending[item] = np.nan
            known.widened[item] = tick
            counted.grants[item] += tick >= counted.warmup
