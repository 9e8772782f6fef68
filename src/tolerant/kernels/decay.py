"""The width of a grant over time, which source and pipeline must compute to the same bit.

`W(t) = width · (1 − shrink)^(periods passed since from)` (`docs/design/pipeline.md` §4). The power is computed by
repeated multiplication, once per period, never by `pow`, whose last bit differs between scalar and vector code.
"""

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

_SMALLEST = 1e-300
_MOST_PERIODS = 1 << 20  # a width that shrinks by less than a thousandth per period stays as it is after so many


def periods_passed(at: int, period: int) -> int:
    """Number of period ends (multiples of `period`, microseconds) strictly before `at`.

    Period p covers (pT, (p+1)T]: at (p+1)T it has not passed yet, one microsecond later it has. Also works on arrays.

    >>> periods_passed(10, 10), periods_passed(11, 10)
    (0, 1)
    """
    return (at - 1) // period


@lru_cache(maxsize=64)
def powers(shrink: float) -> NDArray[np.float64]:
    """`(1 − shrink)^n` for n = 0, 1, …, until it underflows (the last entry is then exactly 0) or n is very large."""
    if shrink == 0.0:
        return np.ones(1)
    table: list[float] = []
    value = 1.0
    while value > _SMALLEST and len(table) < _MOST_PERIODS:
        table.append(value)
        value *= 1.0 - shrink
    return np.array(table if value > _SMALLEST else [*table, 0.0])


def decayed(width: float, shrink: float, passed: int) -> float:
    """The width of one grant after `passed` periods."""
    table = powers(shrink)
    return width * float(table[min(passed, len(table) - 1)])


def decayed_many(width: NDArray[np.float64], shrink: float, passed: NDArray[np.int64]) -> NDArray[np.float64]:
    """`decayed` for arrays of grants with the same `shrink`; `passed` ≥ 0. An infinite width stays infinite."""
    table = powers(shrink)
    factor = table[np.minimum(passed, len(table) - 1)]
    with np.errstate(invalid="ignore"):
        return np.where(np.isinf(width), np.inf, width * factor)
