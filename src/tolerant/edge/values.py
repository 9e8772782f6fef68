"""Checks numbers as applications pass them in; what is not a number is refused with its item and position."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

_NUMBERS = "iuf"


def as_numbers(values: object, items: Sequence[object] | NDArray[np.int64]) -> NDArray[np.float64]:
    """Return `values` as float64[items]; integers and floats of any width are numbers, booleans and text are not.

    Raises:
        ValueError: something is not a number, or there is not one for each item.
    """
    if isinstance(values, np.ndarray):
        if values.dtype.kind not in _NUMBERS or values.ndim != 1:
            raise ValueError(f"values must be a one-dimensional array of numbers, got {values.dtype}, {values.ndim}-d")
        numbers = values.astype(np.float64, copy=False)
    elif isinstance(values, Sequence) and not isinstance(values, str | bytes):
        numbers = _from_sequence(values, items)
    else:
        raise ValueError(f"values must be a sequence or an array of numbers, got {type(values).__name__}")
    if len(numbers) != len(items):
        raise ValueError(f"values must be one for each of the {len(items)} items, got {len(numbers)}")
    return numbers


def _from_sequence(values: Sequence[object], items: Sequence[object] | NDArray[np.int64]) -> NDArray[np.float64]:
    for kind in set(map(type, values)):
        if not _is_number(kind):
            where = next(k for k, value in enumerate(values) if type(value) is kind)
            item = f" for item {items[where]!r}" if where < len(items) else ""
            raise ValueError(f"values must be numbers, got {values[where]!r}{item} at position {where}")
    try:
        return np.asarray(values, np.float64)
    except OverflowError:
        raise ValueError("values must fit a 64-bit float, got an integer that is too large") from None


def _is_number(kind: type) -> bool:
    return issubclass(kind, int | float | np.integer | np.floating) and not issubclass(kind, bool)
