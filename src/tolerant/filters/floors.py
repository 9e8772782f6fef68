"""MIN and MAX where the pipeline may ask: far items need only a floor (`specs/1-filters.md` §5.3).

An item near the minimum has the usual two-sided filter. One that is far above it reports only when it falls below its
floor: while all floors are at or above the lowest bound of the two-sided items, they do not matter. When that bound
rises above a floor, the item is asked, lowest floor first. A request tells the item the bound, and the item's reply its
value, so that both ends know the new floor, or that there is none, without a further message. A maximum is the minimum
of the negated values.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tolerant.filters.state import Flags, Floats, Integers
from tolerant.kernels.compiled import compiled

FAR = 8.0
"""An item that is this many tolerances above the lowest bound needs only a floor."""
UP = 0.35
"""How far up from the lowest bound to its value an item's floor is."""
_OF_WITHIN, _OF_VALUES = 1e-9, 1e-11


class Watched(NamedTuple):
    """The items of one query, negated for a maximum: a floor, or a filter centred where it last sent."""

    here: Flags  # has a reading
    floored: Flags
    floor: Floats
    centre: Floats


class Floored(NamedTuple):
    """What came of it: messages by item, broken promises, and who has only a floor in the end."""

    updates: Integers
    grants: Integers
    violations: int
    floored: Flags


@compiled
def replay_floors(
    trace: Floats, columns: Integers, sign: float, first: Integers, within: float, warmup: int
) -> Floored:
    """One minimum over some columns of a trace without gaps; `first`: the tick of the first reading of each of them.

    sign: what values are multiplied by, −1 for a maximum.
    """
    ticks, n, values = len(trace), columns.size, np.empty(columns.size)
    items = Watched(np.zeros(n, np.bool_), np.zeros(n, np.bool_), np.zeros(n), np.zeros(n))
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
            asked = _below(items, bound)
            if asked < 0:
                break
            grants[asked] += counts
            updates[asked] += counts
            bound = min(bound, _place(items, asked, values[asked], bound, within))
        for item in range(n):
            if sent[item] and not items.floored[item]:
                _place(items, item, values[item], bound, within)
                grants[item] += items.floored[item] and counts and tick > first[item]
        if tick >= max(answered, 1):
            violations += _breaks(values, items, within)
    return Floored(updates, grants, violations, items.floored)


@compiled
def _test(values: Floats, first: Integers, tick: int, within: float, items: Watched, sent: Flags) -> None:
    """Test every filter and floor; who has left it sends, and has a two-sided filter from then on."""
    for item in range(values.size):
        sent[item] = False
        if tick < first[item]:
            continue
        if not items.here[item]:
            items.here[item] = sent[item] = True
        elif items.floored[item]:
            sent[item] = values[item] < items.floor[item]
        else:
            sent[item] = abs(values[item] - items.centre[item]) > within
        if sent[item]:
            items.floored[item], items.centre[item] = False, values[item]


@compiled
def _lowest(items: Watched, within: float) -> float:
    bound = np.inf
    for item in range(items.centre.size):
        if items.here[item] and not items.floored[item]:
            bound = min(bound, items.centre[item] - within)
    return bound


@compiled
def _below(items: Watched, bound: float) -> int:
    """The item with the lowest floor of those below the bound; −1: none."""
    lowest, found = bound, -1
    for item in range(items.centre.size):
        if items.here[item] and items.floored[item] and items.floor[item] < lowest:
            lowest, found = items.floor[item], item
    return found


@compiled
def _place(items: Watched, item: int, value: float, bound: float, within: float) -> float:
    """Give an item whose value is known a floor, or a filter; the lower end of the filter, infinite for a floor."""
    items.centre[item] = value
    items.floored[item] = value - bound > FAR * within and value - within > bound
    if not items.floored[item]:
        return value - within
    items.floor[item] = max(bound + UP * (value - bound), bound)
    return np.inf


@compiled
def _breaks(values: Floats, items: Watched, within: float) -> bool:
    truth, high = values.min(), np.inf
    low = _lowest(items, within)
    for item in range(values.size):
        if not items.floored[item]:
            high = min(high, items.centre[item] + within)
    slack = _OF_WITHIN * within + _OF_VALUES * max(abs(truth), abs(low), abs(high))
    return not (low - slack <= truth <= high + slack and high - low <= 2 * within + slack)
