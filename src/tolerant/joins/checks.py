"""Argument checks: errors name the argument, what was expected and what came."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from tolerant.kernels.array_types import Floats, Integers


def floats(name: str, values: ArrayLike) -> Floats:
    """Return the values as float64[n].

    Raises:
        ValueError: they are not numbers in one dimension, or one of them is NaN.
    """
    array = np.ascontiguousarray(_numeric(name, values), np.float64)
    if np.isnan(array).any():
        raise ValueError(f"{name} must be numbers, got NaN at index {int(np.flatnonzero(np.isnan(array))[0])}")
    return array


def finite(name: str, values: ArrayLike) -> Floats:
    """Return the values as `floats` does; raises ValueError for infinite ones too."""
    array = floats(name, values)
    if not np.isfinite(array).all():
        index = int(np.flatnonzero(~np.isfinite(array))[0])
        raise ValueError(f"{name} must be finite, got {array[index]} at index {index}")
    return array


def integers(name: str, values: ArrayLike) -> Integers:
    """Return the values as int64[n].

    Raises:
        ValueError: they are not whole numbers of 64 bits in one dimension.
    """
    array = _numeric(name, values)
    if array.size and (array.dtype.kind not in "iu" or (array.dtype.kind == "u" and array.max() > 2**63 - 1)):
        raise ValueError(f"{name} must be integers of 64 bits, got {array.dtype}")
    return np.ascontiguousarray(array, np.int64)


def _numeric(name: str, values: ArrayLike) -> Any:
    array = np.asarray(values)
    if array.ndim != 1:
        raise ValueError(f"{name} must have one dimension, got {array.ndim}")
    if array.size and array.dtype.kind not in "iufb":
        raise ValueError(f"{name} must be numbers, got {array.dtype}")
    return array


def alike(names: Sequence[str], arrays: Sequence[Floats | Integers]) -> None:
    """Raise ValueError for arrays of different lengths."""
    if len({len(array) for array in arrays}) > 1:
        lengths = ", ".join(f"{name} {len(array)}" for name, array in zip(names, arrays, strict=True))
        raise ValueError(f"{' and '.join(names)} must have the same length, got {lengths}")


def intervals(low_name: str, high_name: str, lows: ArrayLike, highs: ArrayLike) -> tuple[Floats, Floats]:
    """Return closed intervals as two float64[n]; a low end may be −∞, a high end ∞.

    Raises:
        ValueError: NaN, low > high, low = ∞, high = −∞ (the index is named), or unequal lengths.
    """
    low, high = floats(low_name, lows), floats(high_name, highs)
    alike((low_name, high_name), (low, high))
    bad = (low > high) | (low == np.inf) | (high == -np.inf)
    if bad.any():
        index = int(np.flatnonzero(bad)[0])
        raise ValueError(
            f"{low_name} must be at most {high_name}, below inf, and {high_name} above -inf; "
            f"got {low[index]} and {high[index]} at index {index}"
        )
    return low, high


def interval(low_name: str, high_name: str, low: float, high: float) -> tuple[float, float]:
    """Return one closed interval, checked as `intervals` checks many."""
    low, high = float(low), float(high)
    if not (low <= high and low != np.inf and high != -np.inf):
        raise ValueError(
            f"{low_name} must be at most {high_name}, below inf, and {high_name} above -inf; got {low} and {high}"
        )
    return low, high


def number(name: str, value: float) -> float:
    """Return one finite number."""
    value = float(value)
    if not abs(value) < np.inf:
        raise ValueError(f"{name} must be finite, got {value}")
    return value


def identifier(name: str, value: int) -> int:
    """Return one id, a whole number of 64 bits."""
    if isinstance(value, (bool, np.bool_)) or not isinstance(value, (int, np.integer)):
        raise ValueError(f"{name} must be an integer, got {value!r}")
    value = int(value)
    if not -(2**63) <= value < 2**63:
        raise ValueError(f"{name} must fit 64 bits, got {value}")
    return value


def new_ids(name: str, ids: Integers, there: Integers) -> None:
    """Raise ValueError for ids that occur twice, or that exist already: `there` are those."""
    ordered = np.sort(ids)
    repeated = ordered[1:][ordered[1:] == ordered[:-1]]
    if len(repeated):
        raise ValueError(f"{name} must be new, got {int(repeated[0])} twice")
    if len(there):
        raise ValueError(f"{name} must be new, got {int(there[0])}, which is there already")


def choice(name: str, value: str, known: Sequence[str]) -> str:
    """Return the value if it is one of the known words, else raise ValueError."""
    if value not in known:
        raise ValueError(f"{name} must be one of {', '.join(known)}; got {value!r}")
    return value
