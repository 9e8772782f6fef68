"""Computes a lower bound of the cost of the remaining rows, per table: the search's heuristic (`docs/design/views.md`
§2.4).

g(N) is the cheapest way to push N rows of one table in batches of at most P rows, P the largest batch that a forced
action can meet: the most rows within the limit plus the largest arrival of a tick. Admissible, because every plan
pushes the rest in such batches; consistent, because g(N) ≤ f(b) + g(N − b) for b ≤ P.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tolerant.kernels.compiled import compiled, compiled_no_refcount
from tolerant.views.cost_curves import PackedCurves, cost_of
from tolerant.views.schedule_problem import ScheduleProblem

LINE, BATCHES, TABLE, RATIO = range(4)
"""How a table's floor is computed: a line, full batches and a remainder, tabulated, or a cost per row."""

_MOST_STEPS = 20_000_000
"""A floor is tabulated where N·P is at most this."""


class Floors(NamedTuple):
    """The floor of each of n tables."""

    kind: NDArray[np.int64]  # [n]
    batch: NDArray[np.int64]  # [n] P, rows
    ratio: NDArray[np.float64]  # [n] of a RATIO: the least cost per row
    slope: NDArray[np.float64]  # [n] the least cost of one more row, in a batch of any size
    start: NDArray[np.int64]  # [n] of a TABLE: where its values begin
    values: NDArray[np.float64]


@compiled_no_refcount
def floor_of(floors: Floors, curves: PackedCurves, table: int, rows: int) -> float:
    """Return the least that pushing `rows` changes of a table can cost, in as many batches as it takes."""
    if rows <= 0:
        return 0.0
    kind, batch = floors.kind[table], floors.batch[table]
    if kind == LINE:
        return curves.slope[table] * rows + curves.setup[table] * ((rows + batch - 1) // batch)
    if kind == BATCHES:
        return (rows // batch) * cost_of(curves, table, batch) + cost_of(curves, table, rows % batch)
    if kind == TABLE:
        return floors.values[floors.start[table] + rows]
    return floors.ratio[table] * rows


@compiled
def cheapest_batches(curves: PackedCurves, table: int, rows: int, batch: int) -> NDArray[np.float64]:
    """Return g(0), …, g(rows) by dynamic programming, O(rows·batch)."""
    floor = np.zeros(rows + 1)
    price = np.zeros(batch + 1)
    for size in range(1, batch + 1):
        price[size] = cost_of(curves, table, size)
    for n in range(1, rows + 1):
        best = np.inf
        for size in range(1, min(n, batch) + 1):
            best = min(best, price[size] + floor[n - size])
        floor[n] = best
    return floor


@compiled_no_refcount
def largest_within(curves: PackedCurves, table: int, bound: float, most: int) -> int:
    """Return the most rows of a table, up to `most`, that cost at most `bound`."""
    low, high = 0, most + 1
    while high - low > 1:
        middle = (low + high) // 2
        if cost_of(curves, table, middle) <= bound:
            low = middle
        else:
            high = middle
    return low


def floors_of(problem: ScheduleProblem) -> Floors:
    """Return the floors of a problem's tables; 0 where recomputing, which all tables share, is allowed."""
    curves, n = problem.packed, len(problem.curves)
    kind, batch, ratio, slope = np.full(n, RATIO), np.ones(n, np.int64), np.zeros(n), np.zeros(n)
    start, values = np.zeros(n, np.int64), [np.zeros(1)]
    burst = np.diff(problem.total, axis=0, prepend=0).max(axis=0)
    for i in range(n if np.isinf(problem.recompute) else 0):
        rows = int(problem.total[-1, i])
        batch[i] = max(1, min(rows, largest_within(curves, i, problem.bound, rows) + int(burst[i])))
        slope[i] = _least_slope(curves, i, int(batch[i]))
        kind[i] = _kind(curves, i, rows, int(batch[i]))
        if kind[i] == TABLE:
            start[i] = sum(map(len, values))
            values.append(cheapest_batches(curves, i, rows, int(batch[i])))
        if kind[i] == RATIO:
            ratio[i] = _least_ratio(curves, i, int(batch[i]))
    return Floors(kind, batch, ratio, slope, start, np.concatenate(values))


def _kind(curves: PackedCurves, table: int, rows: int, batch: int) -> int:
    knots = slice(curves.start[table], curves.start[table + 1])
    if knots.start == knots.stop:
        return LINE
    sizes, values = curves.sizes[knots], curves.values[knots]
    within = int(np.searchsorted(sizes, batch, "right"))
    if sizes[0] == 1 and _is_concave(sizes[: within + 1], values[: within + 1]):
        return BATCHES
    return TABLE if rows * batch <= _MOST_STEPS else RATIO


def _least_slope(curves: PackedCurves, table: int, batch: int) -> float:
    knots = slice(curves.start[table], curves.start[table + 1])
    if knots.start == knots.stop:
        return float(curves.slope[table])
    within = int(np.searchsorted(curves.sizes[knots], batch)) + 1
    sizes, values = curves.sizes[knots][:within], curves.values[knots][:within]
    slopes = np.diff(values) / np.diff(sizes)
    beyond = curves.slope[table] if batch > sizes[-1] else np.inf
    # Below the smallest timed size the cost does not rise at all.
    return float(max(0.0, min(slopes.min(initial=np.inf), beyond, values[0] if sizes[0] == 1 else 0.0)))


def _is_concave(sizes: NDArray[np.int64], values: NDArray[np.float64]) -> bool:
    slopes = np.diff(values, prepend=0.0) / np.diff(sizes, prepend=0)
    return bool(np.all(slopes[1:] <= slopes[:-1]))


def _least_ratio(curves: PackedCurves, table: int, batch: int) -> float:
    """Return the least cost per row of a batch: between knots it is at one of them."""
    knots = curves.sizes[curves.start[table] : curves.start[table + 1]]
    sizes = np.append(knots[knots <= batch], batch)
    return min(cost_of(curves, table, int(size)) / int(size) for size in sizes)
