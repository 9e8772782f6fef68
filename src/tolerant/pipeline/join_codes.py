"""Whole numbers for the values that rows are joined on, within ±2^62: what a store of rows takes."""

from __future__ import annotations

from hashlib import blake2b
from typing import Any

import numpy as np
from numpy.typing import NDArray

Integers = NDArray[np.int64]

_LARGEST = 1 << 62
_GOLDEN = np.uint64(0x9E3779B97F4A7C15)  # 2^64 over the golden ratio, as Fibonacci hashing has it


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
    numbers = np.empty(len(values), np.int64)
    numbers[plain] = values[plain].astype(np.int64)
    numbers[~plain] = [_hashed(_exact(value)) for value in values[~plain].tolist()]
    return numbers


def owner_of(joined: Integers, shards: int) -> Integers:
    """The shard of rows by the numbers of what they are joined on; the same in every process and release.

    >>> bool(np.bincount(owner_of(np.arange(0, 4000, 4), 2)).min() > 400)
    True
    """
    spread = joined.astype(np.uint64) * _GOLDEN >> np.uint64(32)  # numbers may all be even, or end with zeros
    return np.asarray(spread % np.uint64(shards), np.int64)


def _exact(value: float) -> int | float:
    return int(value) if value == value // 1 else value


def _hashed(value: object) -> int:
    return int.from_bytes(blake2b(str(value).encode(), digest_size=8).digest(), "big") >> 2
