"""Defines the array types of this package and checks its inputs."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats: TypeAlias = NDArray[np.float64]
Integers: TypeAlias = NDArray[np.int64]
Flags: TypeAlias = NDArray[np.bool_]

i64 = cast("Callable[[object], int]", np.int64)
"""A 64-bit integer in compiled code: a bare constant or a smaller integer would compile another version."""

LARGEST = 2**62
"""Join values lie in ±this, so that a difference of two fits 64 bits."""


def whole_numbers(name: str, values: ArrayLike | Sequence[int]) -> Integers:
    """Return `values` as int64[n], contiguous.

    Raises:
        ValueError: they are not a flat list of whole numbers of at most 2^62 in size.
    """
    array = np.asarray(values)
    if array.ndim != 1:
        raise ValueError(f"{name} must be one flat list of integers, got {array.ndim} dimensions")
    if array.size == 0:
        return np.zeros(0, np.int64)
    if array.dtype.kind == "f":
        if not np.isfinite(array).all() or (array != np.floor(array)).any():
            wrong = array[~(np.isfinite(array) & (array == np.floor(array)))][0]
            raise ValueError(f"{name} must be integers, got {wrong}; scale them (tenths: × 10) and round")
    elif array.dtype.kind not in "iub":
        raise ValueError(f"{name} must be integers, got {array.dtype}")
    if (array > LARGEST).any() or (array < -LARGEST).any():
        raise ValueError(f"{name} must lie within ±2^62, got {array[np.argmax(np.abs(array.astype(np.float64)))]}")
    return np.ascontiguousarray(array, np.int64)


def whole_number(name: str, value: Any, least: int) -> int:
    """Return `value` as an integer ≥ `least`.

    Raises:
        ValueError: it is not one.
    """
    try:
        number = operator.index(value)
    except TypeError:
        if not isinstance(value, (float, np.floating)) or value != np.floor(value) or not np.isfinite(value):
            raise ValueError(f"{name} must be an integer, at least {least}, got {value!r}") from None
        number = int(value)
    if number < least:
        raise ValueError(f"{name} must be an integer, at least {least}, got {value!r}")
    return number


def finite(name: str, value: float, least: float = -np.inf) -> float:
    """Return `value` as a finite float ≥ `least`.

    Raises:
        ValueError: it is not one.
    """
    try:
        number = float(value)
    except (TypeError, ValueError):
        raise ValueError(f"{name} must be a number, got {value!r}") from None
    if not np.isfinite(number) or number < least:
        bound = "" if least == -np.inf else f", at least {least:g}"
        raise ValueError(f"{name} must be a finite number{bound}, got {value!r}")
    return number
