"""Finds target widths by pricing the rows' budgets (`docs/design/filters.md` §5.1).

Every item has a curve of expected updates per width. At a given price, its target minimises the cost of messages plus
width; the target may be 0 for an item that no affordable width helps. Prices are such that the rows are just full.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tolerant.filters.constraints import ConstraintArrays
from tolerant.filters.ladder import RUNGS
from tolerant.filters.rate_curves import BEFORE, REPORT, rate_at, read_report
from tolerant.filters.state import Bytes, Flags, Floats, Integers
from tolerant.kernels.compiled import compiled, compiled_no_refcount, inlined_no_refcount

_LASTS = 200.0
"""Ticks for which the present rate is expected to last."""
_QUARTERS = 2.0 ** (np.arange(4 * 8 + 1) / 4 - 4)
_CAP, _FIRST = 1, 2
_CHOICES = np.concatenate([[0.0, np.nan], _QUARTERS])
"""Candidate targets, in units: 0, then the cap (not a multiple of the unit, so NaN), then quarter octaves over eight
octaves, every other one of which is a rung."""
_BISECTIONS = 30
_ROUNDS = 30


class KnownRates(NamedTuple):
    """The inputs of a plan, one entry per item. Ticks have any common origin."""

    unit: Floats
    cost: Floats
    curves: Bytes  # uint8[items, REPORT]: the last report of each item
    has_report: Flags  # whether the item has reported
    reported: Integers  # the tick of its last report
    age: Integers  # ticks that the report covers
    widened: Integers  # the tick of the last growth
    narrowed: Integers  # and of the last tightening


class PriceWorkspace(NamedTuple):
    """Workspace for finding prices, one entry per item; allocated once."""

    rates: Floats  # float64[items, choices]: expected updates per tick over the horizon
    corners: Integers  # number of corners of the hull of cost over width; 0: not adaptable
    hull: Bytes  # uint8[items, choices]: the choices at the corners
    target: Floats  # the target width
    price: Floats  # price per unit of width
    best: Floats  # the targets of the cheapest round so far
    width: Floats  # float64[choices]: widths of the corners of the present item
    spend: Floats  # and their cost per tick
    life: Floats  # float64[rungs]: its reported curves
    now: Floats


def initial_rates(unit: Floats, cost: Floats) -> KnownRates:
    """Inputs of a plan before any report."""
    n = len(unit)
    curves, has_report = np.zeros((n, REPORT), np.uint8), np.zeros(n, np.bool_)
    return KnownRates(unit, cost, curves, has_report, *(np.zeros(n, np.int64) for _ in range(4)))


def price_workspace(items: int) -> PriceWorkspace:
    """Workspace for this many items."""
    shape, flat = (items, len(_CHOICES)), [np.zeros(items) for _ in range(3)]
    rooms = [np.zeros(size) for size in (len(_CHOICES), len(_CHOICES), RUNGS, RUNGS)]
    return PriceWorkspace(np.zeros(shape), np.zeros(items, np.int64), np.zeros(shape, np.uint8), *flat, *rooms)


@compiled_no_refcount
def expected_rate(known: KnownRates, item: int, width: float, space: PriceWorkspace) -> float:
    """Expected updates per tick of an item at any width."""
    return rate_at(space.rates[item, ::2], known.unit[item], width)


@compiled_no_refcount
def _expect(known: KnownRates, item: int, width: float, tick: int, horizon: float, space: PriceWorkspace) -> None:
    """Compute the expected rates of an item's rungs over a horizon: as reported, less for silence since."""
    if known.has_report[item]:
        read_report(known.curves[item], space.life, space.now)
    else:
        for rung in range(RUNGS):
            space.life[rung] = space.now[rung] = BEFORE[rung]
    share = _LASTS / horizon * (1.0 - np.exp(-horizon / _LASTS))
    silent = float(tick - known.reported[item])
    unit, age = known.unit[item], float(known.age[item])
    x = silent * rate_at(space.now, unit, width)
    y = silent * rate_at(space.life, unit, width)
    now = share * 2.0 / (2.0 + x)
    life = (1.0 - share) * max(age / max(age + silent, 1.0), 1.0 / (1.0 + y))
    for rung in range(RUNGS):
        space.rates[item, 2 * rung] = now * space.now[rung] + life * space.life[rung]


@compiled
def find_targets(
    rows: ConstraintArrays,
    known: KnownRates,
    widths: Floats,
    movable: Flags,
    tick: int,
    horizon: float,
    space: PriceWorkspace,
) -> None:
    """Compute the target of every movable item, and the price of its width. widths: the present ones; of the other
    items, the believed ones.
    """
    for item in range(widths.size):
        if movable[item]:
            _expect(known, item, widths[item], tick, horizon, space)
    find_targets_at(rows, known, widths, movable, space)


@compiled
def find_targets_at(
    rows: ConstraintArrays, known: KnownRates, widths: Floats, movable: Flags, space: PriceWorkspace
) -> None:
    """`find_targets` with the expected rates of the rungs given in `space.rates[:, ::2]`."""
    for item in range(widths.size):
        space.corners[item] = 0
        space.target[item] = 0.0
        if movable[item]:
            _find_hull(rows, known, item, space)
    room = _rooms(rows, widths, movable)
    prices = np.zeros(rows.beta.size)
    for row in rows.alone:
        prices[row] = _bisect(rows, known, row, room[row], space)
    if rows.coupled.size:
        for row in rows.coupled:
            prices[row] = _bisect(rows, known, row, room[row], space)
        _settle(rows, known, room, prices, space)
    else:
        _set_targets(rows, known, prices, space)
        _fit(rows, room, space)


@compiled
def _rooms(rows: ConstraintArrays, widths: Floats, movable: Flags) -> Floats:
    """The budget that the immovable items leave of each row."""
    room = rows.beta.copy()
    for row in range(room.size):
        for entry in range(rows.indptr[row], rows.indptr[row + 1]):
            if not movable[rows.items[entry]]:
                room[row] -= rows.coefficients[entry] * widths[rows.items[entry]]
        room[row] = max(room[row], 0.0)
    return room


@compiled_no_refcount
def _find_hull(rows: ConstraintArrays, known: KnownRates, item: int, space: PriceWorkspace) -> None:
    """Compute the lower convex hull of cost over width, over the candidate targets."""
    cap, unit, cost, rates = rows.caps[item], known.unit[item], known.cost[item], space.rates[item]
    space.width[0], space.spend[0], space.hull[item, 0] = 0.0, cost * rates[0], 0
    corners = 1
    for choice in range(_FIRST, _CHOICES.size):
        width = unit * _CHOICES[choice]
        if width >= cap:
            break
        if choice % 2 == 1:
            rates[choice] = np.sqrt(rates[choice - 1] * rates[choice + 1])
        corners = _add_corner(space, item, corners, choice, width, cost * rates[choice])
    rates[_CAP] = expected_rate(known, item, cap, space)
    space.corners[item] = _add_corner(space, item, corners, _CAP, cap, cost * rates[_CAP])


@compiled_no_refcount
def _add_corner(space: PriceWorkspace, item: int, corners: int, choice: int, width: float, spend: float) -> int:
    """Add a point to the right of the hull, and drop corners above the line to it; returns the number of corners."""
    widths, spends = space.width, space.spend
    while corners >= 2:
        run, fall = widths[corners - 1] - widths[corners - 2], spends[corners - 1] - spends[corners - 2]
        if fall * (width - widths[corners - 2]) < (spend - spends[corners - 2]) * run:
            break
        corners -= 1
    widths[corners], spends[corners], space.hull[item, corners] = width, spend, choice
    return corners + 1


@inlined_no_refcount
def _width(unit: float, cap: float, choice: int) -> float:
    return cap if choice == _CAP else unit * _CHOICES[choice]


@compiled_no_refcount
def _bought(rows: ConstraintArrays, known: KnownRates, item: int, price: float, space: PriceWorkspace) -> float:
    """The width that minimises an item's cost at a price per unit of width."""
    cap, unit, cost = rows.caps[item], known.unit[item], known.cost[item]
    hull, rates = space.hull[item], space.rates[item]
    low, high = 0, space.corners[item] - 1
    while low < high:
        middle = (low + high) // 2
        here, right = hull[middle], hull[middle + 1]
        if cost * rates[here] - cost * rates[right] > price * (_width(unit, cap, right) - _width(unit, cap, here)):
            low = middle + 1
        else:
            high = middle
    return _width(unit, cap, hull[low])


@compiled_no_refcount
def _use(rows: ConstraintArrays, known: KnownRates, row: int, price: float, space: PriceWorkspace) -> float:
    used = 0.0
    for entry in range(rows.indptr[row], rows.indptr[row + 1]):
        item = rows.items[entry]
        if space.corners[item]:
            used += rows.coefficients[entry] * _bought(rows, known, item, price * rows.coefficients[entry], space)
    return used


@compiled_no_refcount
def _bisect(rows: ConstraintArrays, known: KnownRates, row: int, room: float, space: PriceWorkspace) -> float:
    """The least price at which a row stays within its room, if its items are in no other row."""
    if _use(rows, known, row, 0.0, space) <= room:
        return 0.0
    high = 0.0
    for entry in range(rows.indptr[row], rows.indptr[row + 1]):
        item = rows.items[entry]
        if space.corners[item] > 1:
            cost, second = known.cost[item], space.hull[item, 1]
            fall = cost * space.rates[item, 0] - cost * space.rates[item, second]
            steepest = fall / _width(known.unit[item], rows.caps[item], second)
            high = max(high, steepest / rows.coefficients[entry])
    low = high * 1e-9
    for _ in range(_BISECTIONS):
        middle = np.sqrt(low * high)
        if _use(rows, known, row, middle, space) <= room:
            high = middle
        else:
            low = middle
    return high


@compiled
def _settle(rows: ConstraintArrays, known: KnownRates, room: Floats, prices: Floats, space: PriceWorkspace) -> None:
    """Find prices of rows that share items: they rise where a row exceeds its room and fall where it does not. Keeps
    the targets of the cheapest round."""
    least = np.inf
    for turn in range(_ROUNDS):
        _set_targets(rows, known, prices, space)
        power = 1.0 - 0.8 * turn / (_ROUNDS - 1)
        for row in rows.coupled:
            used = 0.0
            for entry in range(rows.indptr[row], rows.indptr[row + 1]):
                used += rows.coefficients[entry] * space.target[rows.items[entry]]
            if room[row] > 0.0:
                prices[row] *= max(used / room[row], 0.2) ** power
        _fit(rows, room, space)
        spent = _spending(known, space)
        if spent < least:
            least = spent
            space.best[:] = space.target
    space.target[:] = space.best


@compiled_no_refcount
def _spending(known: KnownRates, space: PriceWorkspace) -> float:
    total = 0.0
    for item in range(space.target.size):
        if space.corners[item]:
            total += known.cost[item] * expected_rate(known, item, space.target[item], space)
    return total


@compiled_no_refcount
def _set_targets(rows: ConstraintArrays, known: KnownRates, prices: Floats, space: PriceWorkspace) -> None:
    """Compute every item's target and price, at the rows' prices."""
    for item in range(space.target.size):
        if space.corners[item]:
            price = 0.0
            for entry in range(rows.item_indptr[item], rows.item_indptr[item + 1]):
                price += rows.item_coefficients[entry] * prices[rows.item_rows[entry]]
            space.price[item] = price
            space.target[item] = _bought(rows, known, item, price, space)


@compiled
def _fit(rows: ConstraintArrays, room: Floats, space: PriceWorkspace) -> None:
    """Scale the targets up or down by the least room / Σ a·W of each item's rows, limited to the caps."""
    factor = np.full(space.target.size, np.inf)
    for row in range(rows.beta.size):
        used = 0.0
        for entry in range(rows.indptr[row], rows.indptr[row + 1]):
            used += rows.coefficients[entry] * space.target[rows.items[entry]]
        if used > 0.0:
            for entry in range(rows.indptr[row], rows.indptr[row + 1]):
                factor[rows.items[entry]] = min(factor[rows.items[entry]], room[row] / used)
    for item in range(space.target.size):
        if space.corners[item] and factor[item] < np.inf:
            space.target[item] = min(space.target[item] * factor[item], rows.caps[item])
