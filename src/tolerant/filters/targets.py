"""Targets: the burden of each row, by non-negative least squares (`docs/design/filters.md` §2.4 step 2).

T = argmin ‖AᵀT − B‖² over T ≥ 0, A being the busy rows over adaptable items. Projected Gauss–Seidel finds which targets
are above 0, conjugate gradients then compute these to the last digits: deviations that are equal must be equal to the
bit, or one of two items that tie would always win. The slopes A·(B − AᵀT) are computed from the residual, or updated
incrementally where the matrix of overlaps is small.
"""

from __future__ import annotations

import numpy as np

from tolerant.filters.constraints import ConstraintArrays, WidthConstraints
from tolerant.filters.state import Floats, Integers
from tolerant.kernels.compiled import compiled, compiled_no_refcount

_ENOUGH = 1e-6
_EXACT = 1e-12
"""Fractions of the largest burden: the step at which to stop, after exact least squares and otherwise."""

_ROUGH, _FINE = 1e-3, 1e-10
"""Fractions of the slopes at which conjugate gradients stop."""

_SWEEPS = 1000
"""Nearly dependent rows converge slowly; the next period's end continues from these targets."""

_PATIENCE = 16
"""Sweeps after which conjugate gradients are tried even if the set of positive targets still changes."""


def solve(rows: WidthConstraints, burdens: Floats, start: Floats | None = None) -> Floats:
    """The targets, float64[rows], to 1e-6 of the largest burden or better; 0 for a row without adaptable items.

    burdens: float64[items], ≥ 0. start: initial targets, those of the last period; None if the rows changed.
    """
    targets = np.zeros(len(rows)) if start is None else np.array(start, np.float64)
    if len(targets) != len(rows):
        raise ValueError(f"start must have one target for each of the {len(rows)} rows, got {len(targets)}")
    improve(rows.arrays, np.ascontiguousarray(burdens, np.float64), targets)
    return targets


def deviations(rows: WidthConstraints, burdens: Floats, targets: Floats) -> Floats:
    """Each item's burden above its rows' targets, max(B − Σ a·T, 0), float64[items]; 0 if not adaptable."""
    out = np.empty(rows.n_items)
    deviate(rows.arrays, np.ascontiguousarray(burdens, np.float64), np.ascontiguousarray(targets, np.float64), out)
    return out


@compiled
def improve(rows: ConstraintArrays, burdens: Floats, targets: Floats) -> int:
    """Solve in place from the given targets; returns the number of sweeps. For compiled code."""
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
            # Roughly at first: the set of positive targets may not be final yet.
            fine, since = whole, 0
            whole = _polish(rows, targets, residual, slopes, _FINE if fine else _ROUGH)
            exact = fine and whole
    return _SWEEPS


@compiled_no_refcount
def _sweep(rows: ConstraintArrays, targets: Floats, residual: Floats, slopes: Floats) -> tuple[float, bool]:
    """T ← max(0, T + A·r/‖A‖²) for each coupled row: the longest step, and whether the same targets are above 0."""
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
def _polish(rows: ConstraintArrays, targets: Floats, residual: Floats, slopes: Floats, rest: float) -> bool:
    """Move the positive targets to their least squares, or as far as all stay ≥ 0; True if the move was complete."""
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
def _least_squares(rows: ConstraintArrays, face: Integers, residual: Floats, slopes: Floats, rest: float) -> Floats:
    """Steps of the targets of `face` to their unconstrained least squares: conjugate gradients, which tolerate
    dependent rows."""
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


@compiled_no_refcount
def _times(
    rows: ConstraintArrays, face: Integers, overlaps: Floats, direction: Floats, fitted: Floats, out: Floats
) -> None:
    """A·Aᵀ·direction on the rows of `face`, whose matrix is `overlaps` unless empty; `fitted` is workspace."""
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


@compiled_no_refcount
def _step(rows: ConstraintArrays, k: int, step: float, residual: Floats, slopes: Floats) -> None:
    """Update residual or slopes after a step of the k-th coupled row's target."""
    if slopes.size:
        for other in range(slopes.size):
            slopes[other] -= step * rows.overlaps[k, other]
    else:
        _move(rows, rows.coupled[k], -step, residual)


@compiled_no_refcount
def _product(rows: ConstraintArrays, row: int, values: Floats) -> float:
    total = 0.0
    for entry in range(rows.indptr[row], rows.indptr[row + 1]):
        if rows.adaptable[rows.items[entry]]:
            total += rows.coefficients[entry] * values[rows.items[entry]]
    return total


@compiled_no_refcount
def _move(rows: ConstraintArrays, row: int, step: float, values: Floats) -> None:
    for entry in range(rows.indptr[row], rows.indptr[row + 1]):
        values[rows.items[entry]] += step * rows.coefficients[entry]


@compiled_no_refcount
def deviate(rows: ConstraintArrays, burdens: Floats, targets: Floats, out: Floats) -> None:
    """`deviations` into `out`; for compiled code."""
    for item in range(out.size):
        if not rows.adaptable[item]:
            out[item] = 0.0
            continue
        target = 0.0
        for entry in range(rows.item_indptr[item], rows.item_indptr[item + 1]):
            target += rows.item_coefficients[entry] * targets[rows.item_rows[entry]]
        out[item] = max(burdens[item] - target, 0.0)
