"""Simulates the predictive policy over a recorded trace, source and pipeline (`docs/design/filters.md` §5.1)."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tolerant.filters.constraints import ConstraintArrays
from tolerant.filters.ladder import Ladder, begin, observe, propose
from tolerant.filters.prices import KnownRates, PriceWorkspace
from tolerant.filters.promise_check import AnswerSpread, Promises, update_spread, violations_at
from tolerant.filters.rate_curves import REPORT, Report, is_news, write_report
from tolerant.filters.state import Floats, Integers
from tolerant.filters.width_plans import WidthPlan, best_plan
from tolerant.kernels.compiled import compiled, compiled_no_refcount


class SharedFilters(NamedTuple):
    """The filter of every item, as source and pipeline both know it: its centre is level + slope·(tick − since)."""

    level: Floats
    slope: Floats
    since: Integers
    width: Floats
    pending: Floats  # width of a growth from the next tick on; NaN: none
    report: Report  # workspace for the report of an update


class MessageCounts(NamedTuple):
    """Messages and reports by item from the tick `warmup` on; the cost of every update."""

    warmup: int
    updates: Integers
    grants: Integers
    reports: Integers
    received: Floats


def shared_filters(widths: Floats) -> SharedFilters:
    """Filters of these widths, which the simulation changes, before their first reading."""
    n = len(widths)
    level, slope, pending = np.zeros(n), np.zeros(n), np.full(n, np.nan)
    return SharedFilters(level, slope, np.zeros(n, np.int64), widths, pending, np.zeros(REPORT, np.uint8))


@compiled
def replay_predictive(  # noqa: PLR0913
    values: Floats,
    first: Integers,
    filters: SharedFilters,
    shadows: Ladder,
    known: KnownRates,
    space: PriceWorkspace,
    rows: ConstraintArrays,
    promises: Promises,
    period: int,
    warmup: int,
) -> tuple[Integers, Integers, int, int]:
    """Return updates and grants by item, violations, and reports; `first`: the tick of each item's first reading."""
    ticks, n = values.shape
    counted = MessageCounts(warmup, np.zeros(n, np.int64), np.zeros(n, np.int64), np.zeros(n, np.int64), np.zeros(n))
    centres = np.empty((period, n))
    spread = AnswerSpread(np.empty(promises.fn.size), np.empty(promises.fn.size, np.bool_))
    last, spent, received, violations = 0, 0.0, 0.0, 0
    for item in range(n):
        if first[item] == 0:
            _begin(values[0, item], 0, item, filters, shadows, known, counted)
    for start in range(1, ticks, period):
        stop = min(start + period, ticks)
        _grow_pending(filters, known, counted, start)
        old_widths = filters.width.copy()  # they still count in the tick of a plan
        update_spread(promises, old_widths, spread)
        # Item by item: a ladder is large, and should be loaded into the cache once per period, not once per tick.
        for item in range(n):
            _run_item(values, start, stop, item, first[item], filters, shadows, known, centres, counted)
        arrived, received = counted.received.sum() > received, counted.received.sum()
        tick = stop - 1
        if arrived and tick % period == 0:
            plan = best_plan(rows, known, filters.width, rows.adaptable, tick, last, spent, received, space)
            if plan.worth > 0.0:
                last, spent = tick, spent + plan.cost
                _tighten(plan, values[tick], tick, filters, shadows, known, centres[tick - start], counted)
        for tick in range(start, stop):
            violations += violations_at(promises, spread, tick, values[tick], centres[tick - start], old_widths)
    return counted.updates, counted.grants, violations, counted.reports.sum()


@compiled_no_refcount
def _run_item(  # noqa: PLR0913
    values: Floats,
    start: int,
    stop: int,
    item: int,
    first: int,
    filters: SharedFilters,
    shadows: Ladder,
    known: KnownRates,
    centres: Floats,
    counted: MessageCounts,
) -> None:
    """Simulate one item from tick `start` to before `stop`."""
    reach = filters.width[item] / 2
    for tick in range(start, stop):
        value = values[tick, item]
        if tick <= first:
            if tick == first:
                _begin(value, tick, item, filters, shadows, known, counted)
            centres[tick - start, item] = value
            continue
        observe(shadows, item, value)
        centre = filters.level[item] + filters.slope[item] * (tick - filters.since[item])
        if abs(value - centre) > reach:
            _send(value, value - centre, tick, item, filters, shadows, known, counted)
            centre = filters.level[item]
            counted.updates[item] += tick >= counted.warmup
            counted.received[item] += known.cost[item]
        centres[tick - start, item] = centre


@compiled_no_refcount
def _begin(
    value: float,
    tick: int,
    item: int,
    filters: SharedFilters,
    shadows: Ladder,
    known: KnownRates,
    counted: MessageCounts,
) -> None:
    """Register an item with its first reading."""
    begin(shadows, item, known.unit[item] if known.unit[item] < np.inf else 0.0, value)
    _send(value, 0.0, tick, item, filters, shadows, known, counted)


@compiled_no_refcount
def _send(
    value: float,
    off: float,
    tick: int,
    item: int,
    filters: SharedFilters,
    shadows: Ladder,
    known: KnownRates,
    counted: MessageCounts,
) -> None:
    """Send an update: level, slope and, if it is news, a report."""
    filters.level[item], filters.slope[item] = propose(shadows, item, value, filters.width[item], off)
    filters.since[item] = tick
    write_report(shadows, item, filters.report)
    if is_news(filters.report, known.curves[item], shadows.unit[item], filters.width[item]):
        for place in range(REPORT):
            known.curves[item, place] = filters.report[place]
        known.has_report[item] = True
        counted.reports[item] += tick >= counted.warmup
    known.reported[item] = tick
    known.age[item] = shadows.age[item]


@compiled_no_refcount
def _tighten(
    plan: WidthPlan,
    values: Floats,
    tick: int,
    filters: SharedFilters,
    shadows: Ladder,
    known: KnownRates,
    centres: Floats,
    counted: MessageCounts,
) -> None:
    """Tighten now, each confirmed by an update; growths follow at the next tick."""
    counts = tick >= counted.warmup
    for item in range(plan.width.size):
        if plan.width[item] < filters.width[item]:
            filters.width[item] = plan.width[item]
            _send(values[item], 0.0, tick, item, filters, shadows, known, counted)
            centres[item] = filters.level[item]
            known.narrowed[item] = tick
            counted.grants[item] += counts
            counted.updates[item] += counts
        elif plan.width[item] > filters.width[item]:
            filters.pending[item] = plan.width[item]


@compiled_no_refcount
def _grow_pending(filters: SharedFilters, known: KnownRates, counted: MessageCounts, tick: int) -> None:
    for item in range(filters.width.size):
        if not np.isnan(filters.pending[item]):
            filters.width[item] = filters.pending[item]
            filters.pending[item] = np.nan
            known.widened[item] = tick
            counted.grants[item] += tick >= counted.warmup
