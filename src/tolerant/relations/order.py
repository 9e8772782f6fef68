"""Maps the numbers of any column to integers of the same order, so that one compiled index serves all types exactly."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

INTEGERS = ("INT", "BIGINT")
"""The SQL types of integer columns."""

_LEAST, _MOST = np.iinfo(np.int64).min, np.iinfo(np.int64).max
_MAGNITUDE = np.int64(_MOST)
_TWO_63 = 2.0**63


def ordered(values: NDArray[Any], type_name: str) -> NDArray[np.int64]:
    """Return integers in the order of the values: a < b if and only if ordered(a) < ordered(b); −0.0 and 0.0 are equal.

    >>> x = ordered(np.array([-np.inf, -1.5, -0.0, 0.0, 2.0**-1074, 7.0, np.inf]), "DOUBLE")
    >>> (np.diff(x) > 0).tolist()
    [True, True, False, True, True, True]
    """
    if type_name in INTEGERS:
        return values.astype(np.int64)
    bits = (values.astype(np.float64) + 0.0).view(np.int64)  # −0.0 + 0.0 is 0.0
    return np.where(bits < 0, ~(bits & _MAGNITUDE), bits)


def unordered(places: NDArray[np.int64], type_name: str) -> NDArray[np.float64]:
    """Return the values of which `ordered` made these integers, for display: large integers are rounded.

    >>> unordered(ordered(np.array([-np.inf, -1.5, 0.0, 7.0]), "DOUBLE"), "DOUBLE").tolist()
    [-inf, -1.5, 0.0, 7.0]
    """
    if type_name in INTEGERS:
        return places.astype(np.float64)
    return np.where(places < 0, ~places | _LEAST, places).view(np.float64)


def ordered_ends(
    lows: NDArray[Any], highs: NDArray[Any], type_name: str
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the ends of ranges over a column of the type: x BETWEEN low AND high if and only if ordered(x) is between
    the returned ends.

    >>> ordered_ends(np.array([2.5, -np.inf]), np.array([7.5, np.inf]), "INT")[0].tolist()
    [3, -9223372036854775808]
    """
    if type_name not in INTEGERS:
        return ordered(lows, type_name), ordered(highs, type_name)
    low, high = _whole(np.ceil, lows), _whole(np.floor, highs)
    # A range beyond all integers is empty. No float lies between the largest integer and 2^63, so the converted end
    # alone cannot express it. An end that is an integer is never beyond, although the largest one is as a float.
    above = lows >= _TWO_63 if lows.dtype.kind == "f" else np.zeros(len(lows), np.bool_)
    is_empty = above | (highs < -_TWO_63)
    return np.where(is_empty, _MOST, low), np.where(is_empty, _LEAST, high)


def _whole(rounding: Any, values: NDArray[Any]) -> NDArray[np.int64]:
    if values.dtype.kind in "iu":
        return values.astype(np.int64)
    whole = rounding(values)
    inside = np.where(np.abs(whole) < _TWO_63, whole, 0.0).astype(np.int64)
    return np.where(whole >= _TWO_63, _MOST, np.where(whole <= -_TWO_63, _LEAST, inside))
