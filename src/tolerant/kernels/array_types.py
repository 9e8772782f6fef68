"""Names for the array types that several cores use."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

Floats: TypeAlias = NDArray[np.float64]
Integers: TypeAlias = NDArray[np.int64]
Places: TypeAlias = NDArray[np.int32]
Flags: TypeAlias = NDArray[np.bool_]


def record_type(fields: Sequence[tuple[str, type]]) -> np.dtype[Any]:
    """Return the type of an aligned array of records whose entries have their fields as attributes, compiled or not.

    >>> items = np.zeros(2, record_type([("value", np.float64), ("marked", np.bool_)]))
    >>> items[1].marked = True
    >>> items["marked"].tolist()
    [False, True]
    """
    return np.dtype((np.record, np.dtype(list(fields), align=True)))
