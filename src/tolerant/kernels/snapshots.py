"""Packed snapshots: named arrays and plain values as bytes, and back, bit for bit."""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

_MAGIC = b"TOL1"


def pack(arrays: Mapping[str, NDArray[Any]], values: Any = None) -> bytes:
    """The arrays and a JSON-like value (infinities and NaN allowed) as one run of bytes.

    >>> arrays, values = unpack(pack({"x": np.arange(3)}, {"n": 1}))
    >>> arrays["x"].tolist(), values
    ([0, 1, 2], {'n': 1})
    """
    heads = [(name, array.dtype.str, list(array.shape)) for name, array in arrays.items()]
    header = json.dumps([heads, values], separators=(",", ":")).encode()
    bodies = [np.ascontiguousarray(array).tobytes() for array in arrays.values()]
    return b"".join([_MAGIC, struct.pack("<q", len(header)), header, *bodies])


def unpack(payload: bytes) -> tuple[dict[str, NDArray[Any]], Any]:
    """The arrays (writable copies) and the value that `pack` made the bytes from.

    Raises:
        ValueError: the bytes were not made by `pack`, or are cut short.
    """
    if payload[:4] != _MAGIC:
        raise ValueError("not a packed snapshot")
    (size,) = struct.unpack_from("<q", payload, 4)
    heads, values = json.loads(payload[12 : 12 + size])
    arrays: dict[str, NDArray[Any]] = {}
    offset = 12 + size
    for name, dtype, shape in heads:
        count = int(np.prod(shape))
        arrays[name] = np.frombuffer(payload, dtype, count, offset).reshape(shape).copy()
        offset += arrays[name].nbytes
    return arrays, values
