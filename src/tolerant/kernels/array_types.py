"""Names for the array types that several cores use."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

Floats: TypeAlias = NDArray[np.float64]
Integers: TypeAlias = NDArray[np.int64]
Places: TypeAlias = NDArray[np.int32]
Flags: TypeAlias = NDArray[np.bool_]
