"""Targets: the burden each row asks of its items, by non-negative least squares (`specs/1-filters.md` §2.4 step 2).

T = argmin ‖AᵀT − B‖² over T ≥ 0, A being the busy rows over adaptable items. Projected Gauss–Seidel finds which targets
are above 0, conjugate gradients then find these to the last digits: equal deviations must come out equal, or one of two
items that tie would always win. The slopes A·(B − AᵀT) come from the residual, or are kept up to date themselves
where the matrix of overlaps is small.
"""

from __future__ import annotations

import numpy as np

from tolerant.filters.rows import RowArrays, Rows
from tolerant.filters.state import Floats, Integers
from tolerant.kernels.compiled import borrowing, compiled

_ENOUGH = 1e-6
_EXACT = 1e-12
"""Both of the largest burden: how long a step may be after the least squares of the positive targets, and else."""

_ROUGH, _FINE = 1e-3, 1e-10
"""What conjugate gradients leave of the slopes."""

_SWEEPS = 1000
"""Rows that nearly depend on each other converge slowly; the next boundary goes on from where this one stopped."""

_PATIENCE = 16
"""Sweeps in which the positive targets may change before conjugate gradients are tried all the same."""


def solve(rows: Rows, burdens: Floats, start: Floats | None = None) -> Floats:
    """The targets, float64[rows], to 1e-6 of the largest burden or better; 0 for a row without adaptable items.

    burdens: float64[items], ≥ 0. start: targets to begin with, those of the last boundary; None if the rows changed.
    """
    targets = np.zeros(len(rows)) if start is None else np.array(start, np.float64)
    if len(targets) != len(rows):
        raise ValueError(f"start must have one target for each of the {len(rows)} rows, got {len(targets)}")
    improve(rows.arrays, np.ascontiguousarray(burdens, np.float64), targets)
    return targets


def deviations(rows: Rows, burdens: Floats, targets: Floats) -> Floats:
    """How far each item's burden is above what its rows ask, max(B − Σ a·T, 0), float64[items]; 0 if not adaptable."""
    out = np.empty(rows.n_items)
    deviate(rows.arrays, np.ascontiguousarray(burdens, np.float64), np.ascontiguousarray(targets, np.float64), out)
    return out


@compiled
def improve(rows: RowArrays, burdens: Floats, targets: Floats) -> int:
    """Solve in place from the given targets; the number of sweeps it took. For compiled code."""
    for row in rows.alone:
        # In closed form, so that rounding does not depend on the start: for unit weights, the mean of the burdens.
        targets[row] = _product(rows, row, burdens) / rows.square[row] if rows.square[row] > 0 else 0.0
    if rows.coupled.size == 0:
        return 0
    residual, slopes = burdens.copy(), np.empty(rows.overlaps.shape[0])
    for k in range(rows.coupled.size):
        row = rows.coupled[k]
        targets[row] = targets[row] if rows.square[row] > 0 else 0.0
        _move(rows, row, -targets[row], residual)
    for k in range(slopes.size):
        slopes[k] = _product(rows, rows.coupled[k], residual)
    most = burdens.max()
    whole, exact, since = False, False, 0
    for sweep in range(_SWEEPS):
        step, settled = _sweep(rows, targets, residual, slopes)
        if step <= _EXACT * most or (exact and step <= _ENOUGH * most):
            return sweep + 1
        since += 1
        if settled or since == _PATIENCE:
            # The first time roughly: the targets that are above 0 may not be the right ones yet.
            fine, since = whole, 0
            whole = _polish(rows, targets, residual, slopes, _FINE if fine else _ROUGH)
            exact = fine and whole
    return _SWEEPS


@borrowing
def _sweep(rows: RowArrays, targets: Floats, residual: Floats, slopes: Floats) -> tuple[float, bool]:
    """T ← max(0, T + A·r/‖A‖²) for each coupled row: the longest move of the residual; are the same targets above 0?"""
    longest, settled = 0.0, True
    for k in range(rows.coupled.size):
        row = rows.coupled[k]
        square = rows.square[row]
        if square == 0:
            continue
        slope = slopes[k] if slopes.size else _product(rows, row, residual)
        target = max(0.0, targets[row] + slope / square)
        step = target - targets[row]
        if step != 0:
            settled = settled and (target > 0) == (targets[row] > 0)
            targets[row] = target
            _step(rows, k, step, residual, slopes)
            longest = max(longest, abs(step) * np.sqrt(square))
    return longest, settled


@compiled
def _polish(rows: RowArrays, targets: Floats, residual: Floats, slopes: Floats, rest: float) -> bool:
    """Move the positive targets to their least squares, or as far as all stay ≥ 0; True if it was the whole way."""
    face = np.array([k for k in range(rows.coupled.size) if targets[rows.coupled[k]] > 0], np.int64)
    moves = _least_squares(rows, face, residual, slopes, rest)
    share = 1.0
    for k in range(face.size):
        if moves[k] < 0:
            share = min(share, targets[rows.coupled[face[k]]] / -moves[k])
    for k in range(face.size):
        row = rows.coupled[face[k]]
        target = max(0.0, targets[row] + share * moves[k])
        _step(rows, face[k], target - targets[row], residual, slopes)
        targets[row] = target
    return share == 1.0


@compiled
def _least_squares(rows: RowArrays, face: Integers, residual: Floats, slopes: Floats, rest: float) -> Floats:
    """How far to move the targets of `face`, signs left aside: conjugate gradients, which bear dependent rows."""
    moves, products, slope = np.zeros(face.size), np.empty(face.size), np.empty(face.size)
    for k in range(face.size):
        slope[k] = slopes[face[k]] if slopes.size else _product(rows, rows.coupled[face[k]], residual)
    direction = slope.copy()
    overlaps = rows.overlaps[face][:, face] if slopes.size else rows.overlaps
    fitted = np.empty(0 if slopes.size else residual.size)
    norm = (slope * slope).sum()
    enough = norm * rest**2
    for _ in range(face.size + 10):
        if norm <= enough:
            break
        _times(rows, face, overlaps, direction, fitted, products)
        curvature = (direction * products).sum()
        if curvature <= 0:
            break
        moves += norm / curvature * direction
        slope -= norm / curvature * products
        last, norm = norm, (slope * slope).sum()
        direction = slope + norm / last * direction
    return moves


@borrowing
def _times(rows: RowArrays, face: Integers, overlaps: Floats, direction: Floats, fitted: Floats, out: Floats) -> None:
    """A·Aᵀ·direction on the rows of `face`, whose matrix is `overlaps` if there is one; `fitted` is room to work in."""
    if overlaps.size:
        out[:] = 0.0
        for k in range(face.size):
            for other in range(face.size):
                out[other] += overlaps[k, other] * direction[k]
        return
    fitted[:] = 0.0
    for k in range(face.size):
        _move(rows, rows.coupled[face[k]], direction[k], fitted)
    for k in range(face.size):
        out[k] = _product(rows, rows.coupled[face[k]], fitted)


@borrowing
def _step(rows: RowArrays, k: int, step: float, residual: Floats, slopes: Floats) -> None:
    """The k-th coupled row's target has moved by `step`."""
    if slopes.size:
        for other in range(slopes.size):
            slopes[other] -= step * rows.overlaps[k, other]
    else:
        _move(rows, rows.coupled[k], -step, residual)


@borrowing
def _product(rows: RowArrays, row: int, values: Floats) -> float:
    total = 0.0
    for entry in range(rows.indptr[row], rows.indptr[row + 1]):
        if rows.adaptable[rows.items[entry]]:
            total += rows.coefficients[entry] * values[rows.items[entry]]
    return total


@borrowing
def _move(rows: RowArrays, row: int, step: float, values: Floats) -> None:
    for entry in range(rows.indptr[row], rows.indptr[row + 1]):
        values[rows.items[entry]] += step * rows.coefficients[entry]


@borrowing
def deviate(rows: RowArrays, burdens: Floats, targets: Floats, out: Floats) -> None:
    """`deviations` into `out`; for compiled code."""
    for item in range(out.size):
        if not rows.adaptable[item]:
            out[item] = 0.0
            continue
        asked = 0.0
        for entry in range(rows.item_indptr[item], rows.item_indptr[item + 1]):
            asked += rows.item_coefficients[entry] * targets[rows.item_rows[entry]]
        out[item] = max(burdens[item] - asked, 0.0)
