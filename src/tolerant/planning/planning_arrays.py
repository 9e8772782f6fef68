"""The array types and constants that the modules of this package share."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

Floats: TypeAlias = NDArray[np.float64]
Integers: TypeAlias = NDArray[np.int64]
Flags: TypeAlias = NDArray[np.bool_]

SLACK = 1e-12
"""Relative slack in comparing floors with a bound (`docs/design/planning.md` §2.5)."""

GRID = 1e-9
"""Relative slack of the filters, so that values on a grid pass or stay whatever the order of summation."""

SUM, MIN, MAX = range(3)
CODES = {"sum": SUM, "avg": SUM, "count": SUM, "min": MIN, "max": MAX}
"""How the items of a part are combined, by the query's function."""
