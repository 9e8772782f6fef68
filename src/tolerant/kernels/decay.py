"""The width that a grant gives at a time: both ends of the protocol must compute it to the same bit.

`W(t) = width · (1 − shrink)^(boundaries passed since from)` (`specs/0-pipeline.md` §4). The power is made by repeated
multiplication, one boundary at a time, never by `pow`, whose last bit differs between scalar and vector code.
"""

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

_SMALLEST = 1e-300


def boundaries_passed(at: int, period: int) -> int:
    """How many boundaries (multiples of `period`, microseconds) lie strictly before `at`.

    Period p covers (pT, (p+1)T]: at pT its boundary has not passed yet, one microsecond later it has. Arrays work too.

    >>> boundaries_passed(10, 10), boundaries_passed(11, 10)
    (0, 1)
    """
    return (at - 1) // period


@lru_cache(maxsize=64)
def powers(shrink: float) -> NDArray[np.float64]:
    """`(1 − shrink)^n` for n = 0, 1, …, until it is as good as 0 (the last entry is exactly 0 where shrink > 0)."""
    if shrink == 0.0:
        return np.ones(1)
    table, value = [], 1.0
    while value > _SMALLEST:
        table.append(value)
        value *= 1.0 - shrink
    return np.array([*table, 0.0])


def decayed(width: float, shrink: float, passed: int) -> float:
    """The width after `passed` boundaries, for one grant."""
    table = powers(shrink)
    return width * float(table[min(passed, len(table) - 1)])


def decayed_many(width: NDArray[np.float64], shrink: float, passed: NDArray[np.int64]) -> NDArray[np.float64]:
    """`decayed` for arrays of grants with one `shrink`; `passed` ≥ 0. An infinite width stays infinite."""
    table = powers(shrink)
    factor = table[np.minimum(passed, len(table) - 1)]
    with np.errstate(invalid="ignore"):
        return np.where(np.isinf(width), np.inf, width * factor)
