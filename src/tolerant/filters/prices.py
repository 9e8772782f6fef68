"""What width is worth: prices on the rows' room, and the width that every item would buy (`specs/1-filters.md` §5.1).

Every item has a curve of what it would send at each width. At a price, it takes the width at which messages and room
together cost least; giving up on a hopeless item (width 0) is right. Prices are such that the rows are just full.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tolerant.filters.curves import BEFORE, REPORT, rate_at, read_report
from tolerant.filters.ladder import RUNGS
from tolerant.filters.rows import RowArrays
from tolerant.filters.state import Bytes, Flags, Floats, Integers
from tolerant.kernels.compiled import borrowing, compiled, inlined_borrowing

_LASTS = 200.0
"""Ticks that what is seen now lasts."""
_QUARTERS = 2.0 ** (np.arange(4 * 8 + 1) / 4 - 4)
_CAP, _FIRST = 1, 2
_CHOICES = np.concatenate([[0.0, np.nan], _QUARTERS])
"""Widths that a target is chosen from, in units: 0, then the cap, of which that is not known, then quarter octaves over
eight octaves, of which every other one is a rung's."""
_BISECTIONS = 30
_ROUNDS = 30


class Known(NamedTuple):
    """What plans are made from, an entry an item. Ticks count from any beginning."""

    unit: Floats
    cost: Floats
    curves: Bytes  # uint8[items, REPORT]: the last report of each item
    told: Flags  # whether there was one
    reported: Integers  # its tick
    age: Integers  # ticks that the report covers
    widened: Integers  # the tick of the last growth
    narrowed: Integers  # and of the last tightening


class Market(NamedTuple):
    """Room to find prices in, an entry an item; made once."""

    rates: Floats  # float64[items, choices]: what the item is expected to send over the horizon, updates a tick
    corners: Integers  # how many corners the hull of cost over width has; 0: not adaptable
    hull: Bytes  # uint8[items, choices]: which choices these are
    target: Floats  # the width that it should have
    price: Floats  # of a unit of its width
    best: Floats  # targets of the cheapest round so far
    width: Floats  # float64[choices]: of the corners of the item at work
    spend: Floats  # and what it would cost there a tick
    life: Floats  # float64[rungs]: what it has reported
    now: Floats


def known_of(unit: Floats, cost: Floats) -> Known:
    """Nothing is known of these items yet but what any item is expected to send."""
    n = len(unit)
    curves, told = np.zeros((n, REPORT), np.uint8), np.zeros(n, np.bool_)
    return Known(unit, cost, curves, told, *(np.zeros(n, np.int64) for _ in range(4)))


def market(items: int) -> Market:
    """Room for so many items."""
    shape, flat = (items, len(_CHOICES)), [np.zeros(items) for _ in range(3)]
    rooms = [np.zeros(size) for size in (len(_CHOICES), len(_CHOICES), RUNGS, RUNGS)]
    return Market(np.zeros(shape), np.zeros(items, np.int64), np.zeros(shape, np.uint8), *flat, *rooms)


@borrowing
def expected_rate(known: Known, item: int, width: float, space: Market) -> float:
    """What an item is expected to send at any width, updates a tick."""
    return rate_at(space.rates[item, ::2], known.unit[item], width)


@borrowing
def _expect(known: Known, item: int, width: float, tick: int, horizon: float, space: Market) -> None:
    """The rates of an item's rungs expected over a horizon of ticks: as reported, less for silence at `width` since."""
    if known.told[item]:
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
    rows: RowArrays, known: Known, widths: Floats, movable: Flags, tick: int, horizon: float, space: Market
) -> None:
    """The width that every movable item should have, and the price of its width; widths are those at present, of the
    others those that must be reckoned with.
    """
    for item in range(widths.size):
        if movable[item]:
            _expect(known, item, widths[item], tick, horizon, space)
    find_targets_at(rows, known, widths, movable, space)


@compiled
def find_targets_at(rows: RowArrays, known: Known, widths: Floats, movable: Flags, space: Market) -> None:
    """The same where what the items are expected to send on their rungs is in `space.rates[:, ::2]`."""
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
        _take(rows, known, prices, space)
        _fit(rows, room, space)


@compiled
def _rooms(rows: RowArrays, widths: Floats, movable: Flags) -> Floats:
    """What the items that cannot be moved leave of each row."""
    room = rows.beta.copy()
    for row in range(room.size):
        for entry in range(rows.indptr[row], rows.indptr[row + 1]):
            if not movable[rows.items[entry]]:
                room[row] -= rows.coefficients[entry] * widths[rows.items[entry]]
        room[row] = max(room[row], 0.0)
    return room


@borrowing
def _find_hull(rows: RowArrays, known: Known, item: int, space: Market) -> None:
    """The lower hull of cost over width, over the widths that a target may be."""
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


@borrowing
def _add_corner(space: Market, item: int, corners: int, choice: int, width: float, spend: float) -> int:
    """A point to the right of the hull: the corners that are above the line to it go. How many there are then."""
    widths, spends = space.width, space.spend
    while corners >= 2:
        run, fall = widths[corners - 1] - widths[corners - 2], spends[corners - 1] - spends[corners - 2]
        if fall * (width - widths[corners - 2]) < (spend - spends[corners - 2]) * run:
            break
        corners -= 1
    widths[corners], spends[corners], space.hull[item, corners] = width, spend, choice
    return corners + 1


@inlined_borrowing
def _width(unit: float, cap: float, choice: int) -> float:
    return cap if choice == _CAP else unit * _CHOICES[choice]


@borrowing
def _bought(rows: RowArrays, known: Known, item: int, price: float, space: Market) -> float:
    """The width that an item takes at a price of a unit of its width."""
    cap, unit, cost = rows.caps[item], known.unit[item], known.cost[item]
    hull, rates = space.hull[item], space.rates[item]
    low, high = 0, space.corners[item] - 1
    while low < high:
        middle = (low + high) // 2
        one, next_one = hull[middle], hull[middle + 1]
        if cost * rates[one] - cost * rates[next_one] > price * (_width(unit, cap, next_one) - _width(unit, cap, one)):
            low = middle + 1
        else:
            high = middle
    return _width(unit, cap, hull[low])


@borrowing
def _use(rows: RowArrays, known: Known, row: int, price: float, space: Market) -> float:
    used = 0.0
    for entry in range(rows.indptr[row], rows.indptr[row + 1]):
        item = rows.items[entry]
        if space.corners[item]:
            used += rows.coefficients[entry] * _bought(rows, known, item, price * rows.coefficients[entry], space)
    return used


@borrowing
def _bisect(rows: RowArrays, known: Known, row: int, room: float, space: Market) -> float:
    """The least price at which a row, its items being in no other, stays within its room."""
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
def _settle(rows: RowArrays, known: Known, room: Floats, prices: Floats, space: Market) -> None:
    """Rows that share items: prices rise where a row is over its room and fall where it is under; the targets of the
    cheapest round."""
    least = np.inf
    for turn in range(_ROUNDS):
        _take(rows, known, prices, space)
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


@borrowing
def _spending(known: Known, space: Market) -> float:
    total = 0.0
    for item in range(space.target.size):
        if space.corners[item]:
            total += known.cost[item] * expected_rate(known, item, space.target[item], space)
    return total


@borrowing
def _take(rows: RowArrays, known: Known, prices: Floats, space: Market) -> None:
    """Everybody's width and its price, at the rows' prices."""
    for item in range(space.target.size):
        if space.corners[item]:
            price = 0.0
            for entry in range(rows.item_indptr[item], rows.item_indptr[item + 1]):
                price += rows.item_coefficients[entry] * prices[rows.item_rows[entry]]
            space.price[item] = price
            space.target[item] = _bought(rows, known, item, price, space)


@compiled
def _fit(rows: RowArrays, room: Floats, space: Market) -> None:
    """Scale the targets, up or down, by the least room / Σ a·W of each item's rows; no cap is passed."""
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
