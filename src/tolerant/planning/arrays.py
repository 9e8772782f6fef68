"""The array types that the compiled loops of this package share."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

Floats: TypeAlias = NDArray[np.float64]
Integers: TypeAlias = NDArray[np.int64]
Flags: TypeAlias = NDArray[np.bool_]

SLACK = 1e-12
"""Relative slack in comparing floors with a bound (`specs/3-planning.md` §2.5)."""
