"""`"risk"`: ask by the probability that a query is off (`specs/2-polling.md` §5.1).

An item that is not asked for spreads: its variance grows by ρ a tick. A row (a query, or one item of a min or max) is
over when its variance is more than its own z allows; z follows the row's mean risk, so that in the long run each query
gets the fidelity that it asked for. No draws, no windows, no delay. How far the model is to be trusted, and what
replaces ρ·age where changes are no walk, is in `calibration`.
"""

from __future__ import annotations

import math
from statistics import NormalDist
from typing import NamedTuple

import numpy as np

from tolerant.kernels.compiled import borrowing, compiled
from tolerant.polling.arrays import LINEAR, ROUNDING, Floats, Indices, Integers, Links, Record, Records

FIRST_Z = 1.6
_STRICTEST = 0.9999
"""Fidelity 1 has no finite z."""


ROW = np.dtype(
    [
        ("start", np.int64),  # its items are start … stop − 1
        ("stop", np.int64),
        ("query", np.int64),
        ("bound", np.float64),  # within², with the allowance for rounding
        ("half", np.float64),  # within² / 2
        ("scale", np.float64),  # 1 / (1 − fidelity)
        ("z", np.float64),
        ("variance", np.float64),  # Σ w²·ρ·age^h over the items that are not marked and not lost
        ("feared", np.float64),  # Σ of its risks since the last calibration
        ("doubt", np.float64),  # how many times its risk is what the model says
        ("lost", np.int64),  # how many of its items cannot be had at this tick
    ],
    align=True,
)
"""What is kept within its risk: a linear query, or one item of a min or max."""

LEARNED = ("z", "feared", "doubt")
"""What a row keeps when queries come and go."""


class Rows(NamedTuple):
    """The rows, and which items are in which, by row and by item."""

    table: Records
    items: Indices
    weights: Floats
    item_start: Integers
    item_rows: Indices
    item_weights: Floats


def rows_of(queries: Records, links: Links, n_items: int, doubt: float = 1.0) -> Rows:
    """The rows of the queries: one a linear query, one for each item of a min or max (its share of the risk).

    doubt: how many times its risk is thought to be what the model says, until that is known.
    """
    sizes = queries["stop"] - queries["start"]
    used = (queries["within"] > 0) & (sizes > 0)
    whole = queries["kind"] == LINEAR
    repeats = np.where(used, np.where(whole, 1, sizes), 0)
    owner = np.repeat(np.arange(len(queries)), repeats)
    number = np.arange(len(owner)) - (np.cumsum(repeats) - repeats)[owner]  # of the row within its query
    table = np.zeros(len(owner), ROW)
    table["start"] = queries["start"][owner] + number
    table["stop"] = np.where(whole[owner], queries["stop"][owner], table["start"] + 1)
    table["query"] = owner
    risk = 1.0 - np.minimum(queries["required"][owner], _STRICTEST)
    table["scale"] = np.where(whole[owner], 1, sizes[owner]) / risk
    table["z"] = FIRST_Z if doubt == 1.0 else _first_z(table["scale"] * doubt)
    table["doubt"] = doubt
    table["bound"] = (queries["within"][owner] * ROUNDING) ** 2
    table["half"] = queries["within"][owner] ** 2 / 2.0
    return _linked(table, links, n_items)


def _first_z(scale: Floats) -> Floats:
    """The z at which a row's risk is the allowed one; scale: of the risk, one over what is allowed."""
    distinct, place = np.unique(scale, return_inverse=True)
    allowed = [min(max(-NormalDist().inv_cdf(0.5 / each), FIRST_Z), 6.0) for each in distinct.tolist()]
    return np.array(allowed)[place]


def _linked(table: Records, links: Links, n_items: int) -> Rows:
    sizes = table["stop"] - table["start"]
    owner = np.repeat(np.arange(len(table), dtype=np.uint32), sizes)
    places = np.repeat(table["start"] - (np.cumsum(sizes) - sizes), sizes) + np.arange(sizes.sum())
    members = links.items[places]
    order = np.argsort(members, kind="stable")
    item_start = np.concatenate([[0], np.cumsum(np.bincount(members, minlength=n_items))]).astype(np.int64)
    return Rows(table, links.items, links.weights, item_start, owner[order], links.weights[places][order])


@compiled
def refresh(rows: Rows, items: Records, tick: int) -> None:
    """Make the sums of every row anew."""
    spread = np.empty(len(items))
    for i in range(len(items)):
        spread[i] = 0.0 if items[i].marked else counted_spread(items, i, tick)
    _sum_up(rows, spread)


@borrowing
def _sum_up(rows: Rows, spread: Floats) -> None:
    table, members, weights = rows.table, rows.items, rows.weights
    for r in range(len(table)):
        row = table[r]
        variance = 0.0
        for k in range(np.uint64(row.start), np.uint64(row.stop)):  # unsigned as `Indices` are
            variance += weights[k] * weights[k] * spread[members[k]]
        row.variance = variance


@borrowing
def shift(rows: Rows, item: int, variance: float) -> None:
    """Change an item's part in its rows: its variance now."""
    for k in range(np.uint64(rows.item_start[item]), np.uint64(rows.item_start[item + 1])):  # unsigned as `Indices` are
        r, square = rows.item_rows[k], rows.item_weights[k] * rows.item_weights[k]
        rows.table[r].variance = max(rows.table[r].variance + square * variance, 0.0)


@compiled
def spread_after(item: Record, ticks: int) -> float:
    """The variance of an item's value so many ticks after its last pull."""
    if item.growth == 1.0 or ticks <= 0:
        return item.variance * ticks
    return item.variance * math.pow(ticks, item.growth)


@borrowing
def spread_of(items: Records, item: int, tick: int) -> float:
    """V: the variance of an item's value by now."""
    return spread_after(items[item], tick - items[item].last)


@compiled
def lost(item: Record, tick: int) -> bool:
    """Whether an item cannot be had: its pulls fail, nothing comes of them, or it must not be asked for."""
    return bool(item.failures > 0 or item.missing > 0 or item.blocked > tick)


@borrowing
def counted_spread(items: Records, item: int, tick: int) -> float:
    """An item's part in what is decided: nothing if it is lost, because no pull of another one makes up for it."""
    return 0.0 if lost(items[item], tick) else spread_of(items, item, tick)


@borrowing
def count_lost(rows: Rows, items: Records, tick: int) -> None:
    """Count the items of each row that are lost."""
    table = rows.table
    for r in range(len(table)):
        table[r].lost = 0
    for i in range(len(items) if len(table) > 0 else 0):
        if lost(items[i], tick):
            for k in range(rows.item_start[i], rows.item_start[i + 1]):
                table[rows.item_rows[k]].lost += 1


@borrowing
def mark(rows: Rows, items: Records, item: int, tick: int) -> None:
    """Take an item as fresh."""
    if not items[item].marked:
        items[item].marked = True
        shift(rows, item, -counted_spread(items, item, tick))


@borrowing
def unmark(rows: Rows, items: Records, item: int, tick: int) -> None:
    """Take an item as it is: it was not asked for after all, or did not answer."""
    if items[item].marked:
        items[item].marked = False
        shift(rows, item, counted_spread(items, item, tick))


@borrowing
def press(rows: Rows, i: int, pressure: Floats) -> None:
    """Sum up what an item's variance is to its rows, (w·z/within)², unless that is known already (NaN: it is not)."""
    if not math.isnan(pressure[i]):
        return
    table, places, weights, total = rows.table, rows.item_rows, rows.item_weights, 0.0
    for k in range(np.uint64(rows.item_start[i]), np.uint64(rows.item_start[i + 1])):  # unsigned as `Indices` are
        row = table[places[k]]
        part = weights[k] * row.z
        total += part * part / row.half
    pressure[i] = total


@compiled
def index(item: Record, pressure: float, tick: int) -> float:
    """What a pull of the item is worth, per cost.

    The factors h and age are what makes pulls fewest: the best intervals have equal w²·ρ·h·m^(h+1), not equal w²·ρ·m^h.
    """
    age = tick - item.last
    return spread_after(item, age) * item.growth * age * pressure / item.cost


@borrowing
def choose_risk(
    rows: Rows, items: Records, tick: int, pressure: Floats, server_start: Integers, server_items: Integers,
    correlation: Floats,
) -> None:  # fmt: skip
    """Mark items until no row is over, the one of highest index first."""
    if server_items.size > 0:
        for i in range(len(items)):
            if items[i].marked:
                press(rows, i, pressure)
                worth = index(items[i], pressure[i], tick)
                take_along(rows, items, i, worth, tick, pressure, server_start, server_items)
    correlated = correlation.size > 0
    table = rows.table
    for r in range(len(table)):
        row = table[r]
        square = row.z * row.z
        if correlated:
            row.variance = joint_variance(rows, row, items, tick, correlation)
        while row.variance * square > row.bound:
            best, found = -1.0, -1
            for k in range(row.start, row.stop):
                i = rows.items[k]
                if open_to_pull(items[i], tick):
                    if math.isnan(pressure[i]):
                        press(rows, i, pressure)
                    worth = index(items[i], pressure[i], tick)
                    if worth > best:
                        best, found = worth, i
            if found < 0:
                break
            mark(rows, items, found, tick)
            take_along(rows, items, found, best, tick, pressure, server_start, server_items)
            if correlated:
                row.variance = joint_variance(rows, row, items, tick, correlation)


@compiled
def open_to_pull(item: Record, tick: int) -> bool:
    """Whether a pull of the item would help and may be made."""
    return not item.marked and item.blocked <= tick and item.variance > 0.0 and item.last < tick


@borrowing
def take_along(
    rows: Rows, items: Records, item: int, worth: float, tick: int, pressure: Floats,
    server_start: Integers, server_items: Integers,
) -> None:  # fmt: skip
    """Mark the items of the same server that are nearly worth a request of their own (§5.4)."""
    server = items[item].server
    if server < 0:
        return
    for k in range(server_start[server], server_start[server + 1]):
        i = server_items[k]
        if open_to_pull(items[i], tick):
            press(rows, i, pressure)
            if index(items[i], pressure[i], tick) >= 0.3 * worth:
                mark(rows, items, i, tick)


@borrowing
def joint_variance(rows: Rows, row: Record, items: Records, tick: int, correlation: Floats) -> float:
    """The variance of a row whose items move together (§5.3)."""
    total = 0.0
    for k in range(row.start, row.stop):
        i = rows.items[k]
        if items[i].marked or lost(items[i], tick):
            continue
        age = tick - items[i].last
        total += rows.weights[k] * rows.weights[k] * spread_after(items[i], age)
        for other in range(row.start, k):
            j = rows.items[other]
            if not items[j].marked and not lost(items[j], tick):
                common = min(age, tick - items[j].last)
                both = math.sqrt(spread_after(items[i], common) * spread_after(items[j], common))
                total += 2.0 * rows.weights[k] * rows.weights[other] * correlation[i, j] * both
    return max(total, 0.0)


_CELLS = 1024
_END = 6.5
"""erfc is below 1e-19 from here on."""
_ERFC = np.array([math.erfc(k * _END / _CELLS) for k in range(_CELLS + 2)])
_SLOPE = np.array(
    [-2.0 / math.sqrt(math.pi) * math.exp(-((k * _END / _CELLS) ** 2)) * _END / _CELLS for k in range(_CELLS + 2)]
)


@compiled
def erfc_of(x: float) -> float:
    """erfc for x ≥ 0, cubic between tabled points, to 1e-10; a tenth of the time of the exact one."""
    if not x < 6.5:
        return 0.0
    place = x * (1024 / 6.5)
    cell = int(place)
    t = place - cell
    rest = 1.0 - t
    return (
        (1.0 + 2.0 * t) * rest * rest * _ERFC[cell]
        + t * t * (3.0 - 2.0 * t) * _ERFC[cell + 1]
        + (t * rest * (rest * _SLOPE[cell] - t * _SLOPE[cell + 1]))
    )


@compiled
def grown(x: float) -> float:
    """exp for |x| ≤ 0.2, by its series (without divisions: they would be most of it)."""
    total = 1.0 + x * (1 / 9)
    total = 1.0 + total * x * (1 / 8)
    total = 1.0 + total * x * (1 / 7)
    total = 1.0 + total * x * (1 / 6)
    total = 1.0 + total * x * (1 / 5)
    total = 1.0 + total * x * (1 / 4)
    total = 1.0 + total * x * (1 / 3)
    total = 1.0 + total * x * (1 / 2)
    return 1.0 + total * x


@borrowing
def settle(rows: Rows, items: Records, tick: int, ticks: int, correlation: Floats) -> None:
    """The end of a tick: every z moves towards where the row's mean risk is the allowed one. ticks: up to the next.

    Where an item is lost, z stays: it says how often to ask for the others, and those are not at fault.
    """
    table = rows.table
    if correlation.size > 0:
        for r in range(len(table)):
            table[r].variance = joint_variance(rows, table[r], items, tick, correlation)
    for r in range(len(table)):
        row = table[r]
        if row.lost > 0:
            continue
        risk = 0.0
        if row.variance * 42.25 > row.half:  # else less than 1e-19
            risk = erfc_of(math.sqrt(row.half / row.variance))
        row.feared += risk * ticks
        step = min(0.01 * (risk * row.doubt * row.scale - 1.0), 0.2)
        row.z = min(max(row.z * grown(step), 0.3), 6.0)
