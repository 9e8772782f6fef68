"""Whole numbers for the values that rows are joined on, within ±2^62: what a store of rows takes."""

from __future__ import annotations

from hashlib import blake2b
from typing import Any

import numpy as np
from numpy.typing import NDArray

Integers = NDArray[np.int64]

_LARGEST = 1 << 62


def codes(values: NDArray[Any]) -> Integers:
    """A number for each value, the same for equal ones of any types that can be equal; whole numbers are their own.

    Others, texts above all, may share a number, if very seldom: who joins by it must compare the values.

    >>> codes(np.array([3.0, -1.0])).tolist(), codes(np.array([3, -1])).tolist()
    ([3, -1], [3, -1])
    >>> bool(codes(np.array(["a"], object))[0] == codes(np.array(["a"], object))[0])
    True
    """
    if values.dtype.kind == "b":
        return values.astype(np.int64)
    if values.dtype.kind == "O":
        return np.fromiter(map(_hashed, values.tolist()), np.int64, len(values))
    plain = (values >= -_LARGEST) & (values < _LARGEST) & (values == np.floor(values))
    found = np.empty(len(values), np.int64)
    found[plain] = values[plain].astype(np.int64)
    found[~plain] = [_hashed(_exact(value)) for value in values[~plain].tolist()]
    return found


def _exact(value: float) -> int | float:
    return int(value) if value == value // 1 else value


def _hashed(value: object) -> int:
    return int.from_bytes(blake2b(str(value).encode(), digest_size=8).digest(), "big") >> 2
