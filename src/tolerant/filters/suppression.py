"""Simulates MIN and MAX with suppression and probes over a recorded trace (`docs/design/filters.md` §5.3).

An item near the minimum has a two-sided filter. An item far above it is suppressed: it reports only when it falls below
its threshold. While all thresholds are at or above the lowest bound of the filtered items, suppressed items cannot be
the minimum. When that bound rises above a threshold, the item is probed, lowest threshold first. The probe carries the
bound and the reply the value, so that both ends compute the new threshold, or that there is none, without a further
message. A maximum is the minimum of the negated values.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tolerant.filters.state import Flags, Floats, Integers
from tolerant.kernels.compiled import compiled

SUPPRESS_DISTANCE = 8.0
"""An item this many tolerances above the lowest bound is suppressed."""
THRESHOLD_SHARE = 0.35
"""Position of an item's threshold between the lowest bound (0) and the item's value (1)."""
_OF_WITHIN, _OF_VALUES = 1e-9, 1e-11


class ExtremeItems(NamedTuple):
    """The items of one query, negated for a maximum: suppressed above a threshold, or filtered around a centre."""

    here: Flags  # has a reading
    suppressed: Flags
    threshold: Floats
    centre: Floats


class SuppressionRun(NamedTuple):
    """Result: messages by item, broken promises, and which items are suppressed at the end."""

    updates: Integers
    grants: Integers
    violations: int
    suppressed: Flags


@compiled
def replay_suppressed(
    trace: Floats, columns: Integers, sign: float, first: Integers, within: float, warmup: int
) -> SuppressionRun:
    """Simulate one minimum over columns of a trace without gaps; `first`: the tick of each column's first reading.

    sign: what values are multiplied by, −1 for a maximum.
    """
    ticks, n, values = len(trace), columns.size, np.empty(columns.size)
    items = ExtremeItems(np.zeros(n, np.bool_), np.zeros(n, np.bool_), np.zeros(n), np.zeros(n))
    updates, grants, sent = np.zeros(n, np.int64), np.zeros(n, np.int64), np.zeros(n, np.bool_)
    violations, answered = 0, first.max()
    for tick in range(ticks):
        for item in range(n):
            values[item] = sign * trace[tick, columns[item]]
        _test(values, first, tick, within, items, sent)
        bound = _lowest(items, within)
        counts = tick >= max(warmup, 1)
        for item in range(n):
            updates[item] += sent[item] and counts and tick > first[item]
        while True:
            probed = _below(items, bound)
            if probed < 0:
                break
            grants[probed] += counts
            updates[probed] += counts
            bound = min(bound, _place(items, probed, values[probed], bound, within))
        for item in range(n):
            if sent[item] and not items.suppressed[item]:
                _place(items, item, values[item], bound, within)
                grants[item] += items.suppressed[item] and counts and tick > first[item]
        if tick >= max(answered, 1):
            violations += _breaks(values, items, within)
    return SuppressionRun(updates, grants, violations, items.suppressed)


@compiled
def _test(values: Floats, first: Integers, tick: int, within: float, items: ExtremeItems, sent: Flags) -> None:
    """Test every filter and threshold; an item that left its own sends, and has a two-sided filter from then on."""
    for item in range(values.size):
        sent[item] = False
        if tick < first[item]:
            continue
        if not items.here[item]:
            items.here[item] = sent[item] = True
        elif items.suppressed[item]:
            sent[item] = values[item] < items.threshold[item]
        else:
            sent[item] = abs(values[item] - items.centre[item]) > within
        if sent[item]:
            items.suppressed[item], items.centre[item] = False, values[item]


@compiled
def _lowest(items: ExtremeItems, within: float) -> float:
    bound = np.inf
    for item in range(items.centre.size):
        if items.here[item] and not items.suppressed[item]:
            bound = min(bound, items.centre[item] - within)
    return bound


@compiled
def _below(items: ExtremeItems, bound: float) -> int:
    """The item with the lowest threshold below the bound; −1: none."""
    lowest, lowest_item = bound, -1
    for item in range(items.centre.size):
        if items.here[item] and items.suppressed[item] and items.threshold[item] < lowest:
            lowest, lowest_item = items.threshold[item], item
    return lowest_item


@compiled
def _place(items: ExtremeItems, item: int, value: float, bound: float, within: float) -> float:
    """Suppress or filter an item of known value; returns the lower end of its filter, infinite if suppressed."""
    items.centre[item] = value
    items.suppressed[item] = value - bound > SUPPRESS_DISTANCE * within and value - within > bound
    if not items.suppressed[item]:
        return value - within
    items.threshold[item] = max(bound + THRESHOLD_SHARE * (value - bound), bound)
    return np.inf


@compiled
def _breaks(values: Floats, items: ExtremeItems, within: float) -> bool:
    truth, high = values.min(), np.inf
    low = _lowest(items, within)
    for item in range(values.size):
        if not items.suppressed[item]:
            high = min(high, items.centre[item] + within)
    slack = _OF_WITHIN * within + _OF_VALUES * max(abs(truth), abs(low), abs(high))
    return not (low - slack <= truth <= high + slack and high - low <= 2 * within + slack)
