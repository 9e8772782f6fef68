"""Searching sorted values through a shift: everything compares `values[i] - shift`, as the condition is written.

Rounding keeps order (x ≤ y gives x − b ≤ y − b in floats too), so a search with the rounded difference is exact;
searching for `low + b` would not be (specs/5-joins.md §2.1). With a shift of 0 the values themselves are compared.
"""

from __future__ import annotations

from typing import cast

import numpy as np

from tolerant.joins.arrays import Floats
from tolerant.kernels.compiled import borrowing

START = cast(int, np.int64(0))
"""A zero with a type: for a plain 0 Numba would compile whatever it is handed to once more."""


@borrowing
def first_at_least(values: Floats, start: int, stop: int, shift: float, x: float) -> int:
    """The first place in [start, stop) whose shifted value is ≥ x, else `stop`."""
    left = stop - start
    while left > 0:
        half = (left + 1) >> 1
        # An addition instead of a branch, which would be guessed wrong every other time.
        start += half * (values[start + half - 1] - shift < x)
        left -= half
    return start


@borrowing
def first_above(values: Floats, start: int, stop: int, shift: float, x: float) -> int:
    """The first place in [start, stop) whose shifted value is > x, else `stop`."""
    left = stop - start
    while left > 0:
        half = (left + 1) >> 1
        # An addition instead of a branch, which would be guessed wrong every other time.
        start += half * (values[start + half - 1] - shift <= x)
        left -= half
    return start


@borrowing
def gallop_at_least(values: Floats, start: int, stop: int, shift: float, x: float) -> int:
    """As `first_at_least`, in time that grows with the log of how far the place is from `start`."""
    step = 1
    at = start
    while at < stop and values[at] - shift < x:
        start = at + 1
        at += step
        step <<= 1
    return first_at_least(values, start, min(at, stop), shift, x)


@borrowing
def gallop_above(values: Floats, start: int, stop: int, shift: float, x: float) -> int:
    """As `first_above`, in time that grows with the log of how far the place is from `start`."""
    step = 1
    at = start
    while at < stop and values[at] - shift <= x:
        start = at + 1
        at += step
        step <<= 1
    return first_above(values, start, min(at, stop), shift, x)


@borrowing
def gallop_back(values: Floats, start: int, stop: int, shift: float, x: float) -> int:
    """As `first_at_least`, in time that grows with the log of how far the place is before `stop`."""
    step = 1
    at = stop - 1
    while at >= start and values[at] - shift >= x:
        stop = at
        at -= step
        step <<= 1
    return first_at_least(values, max(at + 1, start), stop, shift, x)
