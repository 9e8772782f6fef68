"""Searches sorted values through a shift: all comparisons are with `values[i] - shift`, as the join condition is
written.

Rounding is monotone (x ≤ y implies x − b ≤ y − b in floats too), so a search with the rounded difference is exact;
a search for `low + b` would not be (docs/design/joins.md §2.1). With a shift of 0 the values themselves are compared.
"""

from __future__ import annotations

from typing import cast

import numpy as np

from tolerant.kernels.array_types import Floats
from tolerant.kernels.compiled import compiled_no_refcount

START = cast(int, np.int64(0))
"""A typed zero: for a literal 0 Numba would compile every function that it is passed to once more."""


@compiled_no_refcount
def first_at_least(values: Floats, start: int, stop: int, shift: float, x: float) -> int:
    """Return the first place in [start, stop) whose shifted value is ≥ x, else `stop`."""
    left = stop - start
    while left > 0:
        half = (left + 1) >> 1
        # An addition instead of a branch, which would be mispredicted every other time.
        start += half * (values[start + half - 1] - shift < x)
        left -= half
    return start


@compiled_no_refcount
def first_above(values: Floats, start: int, stop: int, shift: float, x: float) -> int:
    """Return the first place in [start, stop) whose shifted value is > x, else `stop`."""
    left = stop - start
    while left > 0:
        half = (left + 1) >> 1
        # An addition instead of a branch, which would be mispredicted every other time.
        start += half * (values[start + half - 1] - shift <= x)
        left -= half
    return start


@compiled_no_refcount
def gallop_at_least(values: Floats, start: int, stop: int, shift: float, x: float) -> int:
    """Search as `first_at_least`, in time that grows with the log of the distance from `start`."""
    step = 1
    at = start
    while at < stop and values[at] - shift < x:
        start = at + 1
        at += step
        step <<= 1
    return first_at_least(values, start, min(at, stop), shift, x)


@compiled_no_refcount
def gallop_above(values: Floats, start: int, stop: int, shift: float, x: float) -> int:
    """Search as `first_above`, in time that grows with the log of the distance from `start`."""
    step = 1
    at = start
    while at < stop and values[at] - shift <= x:
        start = at + 1
        at += step
        step <<= 1
    return first_above(values, start, min(at, stop), shift, x)


@compiled_no_refcount
def gallop_back(values: Floats, start: int, stop: int, shift: float, x: float) -> int:
    """Search as `first_at_least`, in time that grows with the log of the distance before `stop`."""
    step = 1
    at = stop - 1
    while at >= start and values[at] - shift >= x:
        stop = at
        at -= step
        step <<= 1
    return first_at_least(values, max(at + 1, start), stop, shift, x)
