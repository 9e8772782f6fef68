"""Targets: the burden each row asks of its items, by non-negative least squares (`specs/1-filters.md` §2.4 step 2).

T = argmin ‖AᵀT − B‖² over T ≥ 0, A being the busy rows over adaptable items, by projected Gauss–Seidel.
"""

from __future__ import annotations

import numpy as np

from tolerant.filters.rows import RowArrays, Rows
from tolerant.filters.state import Floats
from tolerant.kernels.compiled import compiled

_TOLERANCE = 1e-6
_SWEEPS = 1000
"""Rows that nearly depend on each other converge slowly; the next boundary goes on from where this one stopped."""


def solve(rows: Rows, burdens: Floats, start: Floats | None = None) -> Floats:
    """The targets, float64[rows], to 1e-6 of the largest burden; 0 for a row without adaptable items.

    burdens: float64[items], ≥ 0. start: targets to begin with, those of the last boundary; other rows than now: None.
    """
    targets = np.zeros(len(rows)) if start is None else np.array(start, np.float64)
    if len(targets) != len(rows):
        raise ValueError(f"start must have one target for each of the {len(rows)} rows, got {len(targets)}")
    improve(rows.arrays, burdens, targets)
    return targets


def deviations(rows: Rows, burdens: Floats, targets: Floats) -> Floats:
    """How far each item's burden is above what its rows ask, max(B − Σ a·T, 0), float64[items]; 0 if not adaptable."""
    out = np.empty(rows.n_items)
    deviate(rows.arrays, burdens, targets, out)
    return out


@compiled
def improve(rows: RowArrays, burdens: Floats, targets: Floats) -> int:
    """Solve in place from the given targets; the number of sweeps it took. For compiled code."""
    for row in rows.alone:
        # In closed form, so that rounding does not depend on the start: for unit weights, the mean of the burdens.
        targets[row] = _product(rows, row, burdens) / rows.square[row] if rows.square[row] > 0 else 0.0
    if rows.coupled.size == 0:
        return 0
    residual = burdens.copy()
    for row in rows.coupled:
        if rows.square[row] == 0:
            targets[row] = 0.0
        _move(rows, row, -targets[row], residual)
    limit = _TOLERANCE * burdens.max()
    for sweep in range(_SWEEPS):
        if _sweep(rows, residual, targets) <= limit:
            return sweep + 1
    return _SWEEPS


@compiled
def _sweep(rows: RowArrays, residual: Floats, targets: Floats) -> float:
    """T ← max(0, T + A·r/‖A‖²) for each coupled row; the length of the largest move of the residual."""
    largest = 0.0
    for row in rows.coupled:
        square = rows.square[row]
        if square == 0:
            continue
        target = max(0.0, targets[row] + _product(rows, row, residual) / square)
        step = target - targets[row]
        if step != 0:
            _move(rows, row, -step, residual)
            targets[row] = target
            largest = max(largest, abs(step) * np.sqrt(square))
    return largest


@compiled
def _product(rows: RowArrays, row: int, values: Floats) -> float:
    total = 0.0
    for entry in range(rows.indptr[row], rows.indptr[row + 1]):
        if rows.adaptable[rows.items[entry]]:
            total += rows.coefficients[entry] * values[rows.items[entry]]
    return total


@compiled
def _move(rows: RowArrays, row: int, step: float, values: Floats) -> None:
    for entry in range(rows.indptr[row], rows.indptr[row + 1]):
        values[rows.items[entry]] += step * rows.coefficients[entry]


@compiled
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
