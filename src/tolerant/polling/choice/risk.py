"""The chooser `"risk"`: pull by the probability that a query exceeds its bound (`docs/design/polling.md` §5.1).

The variance of an item that is not pulled grows by ρ per tick. A row (a query, or one item of a min or max) is over
when its variance exceeds what its own z allows; z follows the row's mean risk, so that in the long run each query gets
the fidelity that it asked for. No draws, no windows, no delay. `risk_calibration` learns how far the model is right,
and what replaces ρ·age where changes are no random walk.
"""

from __future__ import annotations

import math
from statistics import NormalDist
from typing import NamedTuple

import numpy as np

from tolerant.kernels.array_types import record_type
from tolerant.kernels.compiled import compiled, compiled_no_refcount
from tolerant.polling.poller_arrays import LINEAR, ROUNDING, Floats, Indices, Integers, Links, Record, Records

FIRST_Z = 1.6
_STRICTEST = 0.9999
"""Fidelity 1 has no finite z."""


ROW = record_type(
    [
        ("start", np.int64),  # its items are start … stop − 1
        ("stop", np.int64),
        ("query", np.int64),
        ("bound", np.float64),  # within², with the allowance for rounding
        ("half", np.float64),  # within² / 2
        ("scale", np.float64),  # 1 / (1 − fidelity)
        ("z", np.float64),
        ("variance", np.float64),  # Σ w²·ρ·age^h over the items that are neither marked nor unreachable
        ("feared", np.float64),  # Σ of its risks since the last calibration
        ("doubt", np.float64),  # factor on the risk that the model states
        ("lost", np.int64),  # number of its items that are unreachable at this tick
    ]
)
"""The fields of a row, which is kept within its risk: a linear query, or one item of a min or max."""

LEARNED = ("z", "feared", "doubt")
"""The fields that a row keeps when the set of queries changes."""


class RiskRows(NamedTuple):
    """The rows, and the links between rows and items, by row and by item."""

    table: Records
    items: Indices
    weights: Floats
    item_start: Integers
    item_rows: Indices
    item_weights: Floats


def build_risk_rows(queries: Records, links: Links, n_items: int, doubt: float = 1.0) -> RiskRows:
    """Build the rows of the queries: one per linear query, one per item of a min or max (with its share of the risk).

    doubt: the factor on the model's risk until it has been learned.
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
    """Return the z at which a row's risk is the allowed one; scale: 1 / allowed risk."""
    distinct, place = np.unique(scale, return_inverse=True)
    allowed = [min(max(-NormalDist().inv_cdf(0.5 / each), FIRST_Z), 6.0) for each in distinct.tolist()]
    return np.array(allowed)[place]


def _linked(table: Records, links: Links, n_items: int) -> RiskRows:
    sizes = table["stop"] - table["start"]
    owner = np.repeat(np.arange(len(table), dtype=np.uint32), sizes)
    places = np.repeat(table["start"] - (np.cumsum(sizes) - sizes), sizes) + np.arange(sizes.sum())
    members = links.items[places]
    order = np.argsort(members, kind="stable")
    item_start = np.concatenate([[0], np.cumsum(np.bincount(members, minlength=n_items))]).astype(np.int64)
    return RiskRows(table, links.items, links.weights, item_start, owner[order], links.weights[places][order])


@compiled
def recompute_variances(rows: RiskRows, items: Records, tick: int) -> None:
    """Recompute the variance of every row."""
    variances = np.empty(len(items))
    for i in range(len(items)):
        variances[i] = 0.0 if items[i].marked else counted_variance(items, i, tick)
    _sum_variances(rows, variances)


@compiled_no_refcount
def _sum_variances(rows: RiskRows, variances: Floats) -> None:
    table, members, weights = rows.table, rows.items, rows.weights
    for r in range(len(table)):
        row = table[r]
        variance = 0.0
        for k in range(np.uint64(row.start), np.uint64(row.stop)):  # unsigned as `Indices` are
            variance += weights[k] * weights[k] * variances[members[k]]
        row.variance = variance


@compiled_no_refcount
def add_variance(rows: RiskRows, item: int, variance: float) -> None:
    """Add to an item's variance in all its rows."""
    for k in range(np.uint64(rows.item_start[item]), np.uint64(rows.item_start[item + 1])):  # unsigned as `Indices` are
        r, square = rows.item_rows[k], rows.item_weights[k] * rows.item_weights[k]
        rows.table[r].variance = max(rows.table[r].variance + square * variance, 0.0)


@compiled
def variance_after(item: Record, ticks: int) -> float:
    """Return the variance of an item's value so many ticks after its last pull."""
    if item.growth == 1.0 or ticks <= 0:
        return item.variance * ticks
    return item.variance * math.pow(ticks, item.growth)


@compiled_no_refcount
def variance_at(items: Records, item: int, tick: int) -> float:
    """Return V, the variance of an item's value at a tick."""
    return variance_after(items[item], tick - items[item].last)


@compiled
def is_unreachable(item: Record, tick: int) -> bool:
    """Return whether an item is unreachable: its pulls fail or stay without a reply, or it must not be pulled yet."""
    return bool(item.failures > 0 or item.missing > 0 or item.blocked > tick)


@compiled_no_refcount
def counted_variance(items: Records, item: int, tick: int) -> float:
    """Return the variance that decisions use: 0 for an unreachable item, as no pull of another one makes up for it."""
    return 0.0 if is_unreachable(items[item], tick) else variance_at(items, item, tick)


@compiled_no_refcount
def count_unreachable(rows: RiskRows, items: Records, tick: int) -> None:
    """Count the unreachable items of each row."""
    table = rows.table
    for r in range(len(table)):
        table[r].lost = 0
    for i in range(len(items) if len(table) > 0 else 0):
        if is_unreachable(items[i], tick):
            for k in range(rows.item_start[i], rows.item_start[i + 1]):
                table[rows.item_rows[k]].lost += 1


@compiled_no_refcount
def mark(rows: RiskRows, items: Records, item: int, tick: int) -> None:
    """Mark an item to be pulled; it no longer adds to the variance of its rows."""
    if not items[item].marked:
        items[item].marked = True
        add_variance(rows, item, -counted_variance(items, item, tick))


@compiled_no_refcount
def unmark(rows: RiskRows, items: Records, item: int, tick: int) -> None:
    """Unmark an item that is not pulled after all, or did not reply; its variance counts again."""
    if items[item].marked:
        items[item].marked = False
        add_variance(rows, item, counted_variance(items, item, tick))


@compiled_no_refcount
def sum_pressure(rows: RiskRows, i: int, pressure: Floats) -> None:
    """Compute the weight of an item's variance in its rows, Σ (w·z/within)², unless it is known already (not NaN)."""
    if not math.isnan(pressure[i]):
        return
    table, places, weights, total = rows.table, rows.item_rows, rows.item_weights, 0.0
    for k in range(np.uint64(rows.item_start[i]), np.uint64(rows.item_start[i + 1])):  # unsigned as `Indices` are
        row = table[places[k]]
        part = weights[k] * row.z
        total += part * part / row.half
    pressure[i] = total


@compiled
def pull_worth(item: Record, pressure: float, tick: int) -> float:
    """Return what a pull of the item is worth, per cost.

    The factors h and age make pulls fewest: the best intervals have equal w²·ρ·h·m^(h+1), not equal w²·ρ·m^h.
    """
    age = tick - item.last
    return variance_after(item, age) * item.growth * age * pressure / item.cost


@compiled_no_refcount
def choose_risk(  # noqa: C901
    rows: RiskRows, items: Records, tick: int, pressure: Floats, server_start: Integers, server_items: Integers,
    correlation: Floats,
) -> None:  # fmt: skip
    """Mark items until no row is over, the one whose pull is worth most first."""
    if server_items.size > 0:
        for i in range(len(items)):
            if items[i].marked:
                sum_pressure(rows, i, pressure)
                worth = pull_worth(items[i], pressure[i], tick)
                mark_same_server(rows, items, i, worth, tick, pressure, server_start, server_items)
    correlated = correlation.size > 0
    table = rows.table
    for r in range(len(table)):
        row = table[r]
        square = row.z * row.z
        if correlated:
            row.variance = joint_variance(rows, row, items, tick, correlation)
        while row.variance * square > row.bound:
            best, chosen = -1.0, -1
            for k in range(row.start, row.stop):
                i = rows.items[k]
                if may_pull(items[i], tick):
                    if math.isnan(pressure[i]):
                        sum_pressure(rows, i, pressure)
                    worth = pull_worth(items[i], pressure[i], tick)
                    if worth > best:
                        best, chosen = worth, i
            if chosen < 0:
                break
            mark(rows, items, chosen, tick)
            mark_same_server(rows, items, chosen, best, tick, pressure, server_start, server_items)
            if correlated:
                row.variance = joint_variance(rows, row, items, tick, correlation)


@compiled
def may_pull(item: Record, tick: int) -> bool:
    """Return whether a pull of the item would help and is allowed."""
    return not item.marked and item.blocked <= tick and item.variance > 0.0 and item.last < tick


@compiled_no_refcount
def mark_same_server(
    rows: RiskRows, items: Records, item: int, worth: float, tick: int, pressure: Floats,
    server_start: Integers, server_items: Integers,
) -> None:  # fmt: skip
    """Mark the items of the same server that are nearly worth a request of their own (§5.4)."""
    server = items[item].server
    if server < 0:
        return
    for k in range(server_start[server], server_start[server + 1]):
        i = server_items[k]
        if may_pull(items[i], tick):
            sum_pressure(rows, i, pressure)
            if pull_worth(items[i], pressure[i], tick) >= 0.3 * worth:
                mark(rows, items, i, tick)


@compiled_no_refcount
def joint_variance(rows: RiskRows, row: Record, items: Records, tick: int, correlation: Floats) -> float:
    """Return the variance of a row whose items are correlated (§5.3)."""
    total = 0.0
    for k in range(row.start, row.stop):
        i = rows.items[k]
        if items[i].marked or is_unreachable(items[i], tick):
            continue
        age = tick - items[i].last
        total += rows.weights[k] * rows.weights[k] * variance_after(items[i], age)
        for other in range(row.start, k):
            j = rows.items[other]
            if not items[j].marked and not is_unreachable(items[j], tick):
                common = min(age, tick - items[j].last)
                both = math.sqrt(variance_after(items[i], common) * variance_after(items[j], common))
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
def tabled_erfc(x: float) -> float:
    """Return erfc for x ≥ 0, cubic between tabled points, to 1e-10; a tenth of the time of the exact one."""
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
def small_exp(x: float) -> float:
    """Return exp for |x| ≤ 0.2, by its series (without divisions, which would take most of the time)."""
    total = 1.0 + x * (1 / 9)
    total = 1.0 + total * x * (1 / 8)
    total = 1.0 + total * x * (1 / 7)
    total = 1.0 + total * x * (1 / 6)
    total = 1.0 + total * x * (1 / 5)
    total = 1.0 + total * x * (1 / 4)
    total = 1.0 + total * x * (1 / 3)
    total = 1.0 + total * x * (1 / 2)
    return 1.0 + total * x


@compiled_no_refcount
def adapt_z(rows: RiskRows, items: Records, tick: int, ticks: int, correlation: Floats) -> None:
    """End a tick: move every z towards the one at which the row's mean risk is the allowed one. ticks: until the next.

    A row with an unreachable item keeps its z, which says how often to pull the others: those are not at fault.
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
            risk = tabled_erfc(math.sqrt(row.half / row.variance))
        row.feared += risk * ticks
        step = min(0.01 * (risk * row.doubt * row.scale - 1.0), 0.2)
        row.z = min(max(row.z * small_exp(step), 0.3), 6.0)
