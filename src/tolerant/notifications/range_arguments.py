"""Checks arguments: an error names the bad argument, and nothing has changed."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]


def finite(name: str, value: Any) -> float:
    """Return `value` as a finite float; −0.0 becomes 0.0. An integer that a float cannot hold is refused."""
    try:
        number = float(value) + 0.0
    except (TypeError, ValueError, OverflowError):
        number = math.nan
    if not math.isfinite(number) or isinstance(value, str):
        raise ValueError(f"{name} must be a finite number, got {value!r}")
    if isinstance(value, int) and number != value:
        raise ValueError(f"{name} must be a number that a float holds exactly, got {value!r}")
    return number


def interval(low_name: str, low: Any, high_name: str, high: Any) -> tuple[float, float]:
    """Return the ends of a closed range, low ≤ high, either of which may be infinite."""
    ends = float(low) + 0.0, float(high) + 0.0
    if not ends[0] <= ends[1]:
        raise ValueError(f"{low_name} must be a number that is at most {high_name}, got {low!r} and {high!r}")
    return ends


def floats(name: str, values: Any, length: int | None = None) -> Floats:
    """Return `values` as float64[n]; NaN and infinities pass; −0.0 becomes 0.0."""
    given = np.asarray(values)
    if given.dtype.kind not in "biufO":
        raise ValueError(f"{name} must be numbers, got {given.dtype}")
    array: Floats = np.ascontiguousarray(given, np.float64) + 0.0
    if array.ndim != 1 or (length is not None and len(array) != length):
        wanted = "one dimension" if length is None else f"{length} of them"
        raise ValueError(f"{name} must have {wanted}, got the shape {array.shape}")
    if given.dtype.kind in "iu" and len(array):
        rounded = np.flatnonzero(np.abs(array) > 2.0**53)
        if len(rounded):
            raise ValueError(f"{name}[{rounded[0]}] must be at most 2^53, got {given[rounded[0]]}")
    return array


def refuse(name: str, array: Floats, wrong: NDArray[np.bool_], expected: str) -> None:
    """Raise for the first wrong entry of an array, if there is one."""
    if wrong.any():
        at = int(np.argmax(wrong))
        raise ValueError(f"{name}[{at}] must be {expected}, got {array[at]}")


def intervals(lows: Any, highs: Any, low_name: str = "x1s", high_name: str = "x2s") -> tuple[Floats, Floats]:
    """Return the ends of many closed ranges, float64[n] each."""
    starts = floats(low_name, lows)
    ends = floats(high_name, highs, len(starts))
    refuse(low_name, starts, ~(starts <= ends), f"a number that is at most {high_name} there")
    return starts, ends


def one_of(name: str, value: str, allowed: tuple[str, ...]) -> str:
    """Return `value`, if it is allowed."""
    if value not in allowed:
        raise ValueError(f"{name} must be one of {', '.join(map(repr, allowed))}, got {value!r}")
    return value
