"""The optimal static widths for walks of known steps (`docs/design/filters.md` §2.3, [OJW03] App. F).

Minimise Σ c·4s²/W² under the rows Σ a·W ≤ β: convex, with the dual W = (8·c·s²/Σ a·μ)^(1/3), μ ≥ 0. Each sweep sets
every row in turn to the price at which it is just full, given the prices of the others; the widths, scaled to fit the
rows, and the prices bound the optimum from both sides.
"""

from __future__ import annotations

import numpy as np

from tolerant.filters.constraints import ConstraintArrays, WidthConstraints
from tolerant.filters.state import Floats
from tolerant.kernels.compiled import compiled

_GAP = 1e-6
"""Relative gap between the bounds of the optimum at which to stop."""
_SWEEPS = 20_000
_NEWTON = 60
_TINY = 1e-250


def optimal(rows: WidthConstraints, steps: Floats, costs: Floats) -> Floats:
    """The widths that send least if item i is a walk of r.m.s. step steps[i] per tick and its messages cost costs[i].

    Fixed items get their cap, adaptable items that never change (or cost nothing) width 0.

    >>> from tolerant.filters.constraints import constraints_of
    >>> row = constraints_of([("sum", np.array([0, 1]), np.ones(2), 5.0)], 2)
    >>> optimal(row, np.array([1.0, 8.0]), np.ones(2)).round(4).tolist()
    [2.0, 8.0]
    """
    weights = np.where(rows.adaptable, costs * steps**2, 0.0)
    widths = np.where(rows.adaptable, 0.0, rows.caps)
    largest = weights.max(initial=0.0)
    if largest > 0.0:
        scaled = weights / largest
        _solve(rows.arrays, np.where(scaled > 1e-300, scaled, 0.0), widths)
    return widths


@compiled
def _solve(rows: ConstraintArrays, weights: Floats, widths: Floats) -> None:
    """Write the optimum into `widths`, for the items whose weight is above 0."""
    prices, load = np.zeros(rows.beta.size), np.zeros(weights.size)
    _start(rows, weights, prices, load)
    best = np.inf
    candidate = widths.copy()
    for _ in range(_SWEEPS):
        for row in range(rows.beta.size):
            _fill(rows, row, weights, prices, load)
        bound = _dual(rows, weights, prices, load)
        cost = _primal(rows, weights, load, candidate)
        if cost < best:
            best = cost
            for item in range(weights.size):
                if weights[item] > 0.0:
                    widths[item] = candidate[item]
        if best - bound <= _GAP * best:
            break


@compiled
def _start(rows: ConstraintArrays, weights: Floats, prices: Floats, load: Floats) -> None:
    """Set initial prices above 0: those of each row alone."""
    for row in range(rows.beta.size):
        total = 0.0
        for entry in range(rows.indptr[row], rows.indptr[row + 1]):
            total += np.cbrt(8.0 * weights[rows.items[entry]] * rows.coefficients[entry] ** 2)
        if total > 0.0 and rows.beta[row] > 0.0:
            prices[row] = (total / rows.beta[row]) ** 3
            for entry in range(rows.indptr[row], rows.indptr[row + 1]):
                load[rows.items[entry]] += rows.coefficients[entry] * prices[row]


@compiled
def _fill(rows: ConstraintArrays, row: int, weights: Floats, prices: Floats, load: Floats) -> None:
    """Set one row's price so that the row is just full, or to 0."""
    entries = range(rows.indptr[row], rows.indptr[row + 1])
    if _use(rows, row, 0.0, weights, prices, load)[0] <= rows.beta[row]:
        price = 0.0
    else:
        price = prices[row] if prices[row] > 0.0 else _TINY
        for _ in range(_NEWTON):
            used, slope = _use(rows, row, price, weights, prices, load)
            if abs(used - rows.beta[row]) <= 1e-13 * rows.beta[row] or slope == 0.0:
                break
            # Newton on used^-3, which is linear in the price where the row is alone.
            moved = price - used / (3.0 * slope) * ((used / rows.beta[row]) ** 3 - 1.0)
            price = min(max(moved, price / 16.0), price * 1e6)
    change = price - prices[row]
    if change != 0.0:
        prices[row] = price
        for entry in entries:
            load[rows.items[entry]] += rows.coefficients[entry] * change


@compiled
def _use(
    rows: ConstraintArrays, row: int, price: float, weights: Floats, prices: Floats, load: Floats
) -> tuple[float, float]:
    """The use of a row at a price, and its derivative by the price."""
    used, slope = 0.0, 0.0
    for entry in range(rows.indptr[row], rows.indptr[row + 1]):
        item, a = rows.items[entry], rows.coefficients[entry]
        if weights[item] > 0.0:
            paid = load[item] + a * (price - prices[row])
            if paid <= _TINY:
                return np.inf, 0.0
            width = np.cbrt(8.0 * weights[item] / paid)
            used += a * width
            slope -= a * a * width / (3.0 * paid)
    return used, slope


@compiled
def _dual(rows: ConstraintArrays, weights: Floats, prices: Floats, load: Floats) -> float:
    total = -(prices * rows.beta).sum()
    for item in range(weights.size):
        if weights[item] > 0.0:
            # 4w/W² + paid·W at W = (8w/paid)^(1/3).
            total += 3.0 * np.cbrt(weights[item] * load[item] ** 2)
    return total


@compiled
def _primal(rows: ConstraintArrays, weights: Floats, load: Floats, widths: Floats) -> float:
    """The cost of the widths at these loads, scaled to fit the rows."""
    for item in range(weights.size):
        if weights[item] > 0.0:
            widths[item] = np.cbrt(8.0 * weights[item] / load[item]) if load[item] > 0.0 else rows.caps[item]
    factor = np.full(widths.size, np.inf)
    for row in range(rows.beta.size):
        used = 0.0
        for entry in range(rows.indptr[row], rows.indptr[row + 1]):
            if weights[rows.items[entry]] > 0.0:
                used += rows.coefficients[entry] * widths[rows.items[entry]]
        if used > 0.0:
            for entry in range(rows.indptr[row], rows.indptr[row + 1]):
                item = rows.items[entry]
                factor[item] = min(factor[item], rows.beta[row] / used)
    cost = 0.0
    for item in range(weights.size):
        if weights[item] > 0.0:
            widths[item] *= min(factor[item], 1.0)
            cost += 4.0 * weights[item] / widths[item] ** 2
    return cost
