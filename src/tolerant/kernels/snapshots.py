"""Packed snapshots: named arrays and plain values as bytes, and back, bit for bit."""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

_MAGIC = b"TOL2"
_HEAD = struct.Struct("<4sqq")  # magic, bytes of the header, bytes of everything behind this head, uncompressed
_CODEC = pa.Codec("zstd", compression_level=1)  # unused capacity is zeros: compresses to a thirtieth


def pack(arrays: Mapping[str, NDArray[Any]], values: Any = None) -> bytes:
    """The arrays and a JSON-like value (infinities and NaN allowed) as one byte string.

    >>> arrays, values = unpack(pack({"x": np.arange(3)}, {"n": 1}))
    >>> arrays["x"].tolist(), values
    ([0, 1, 2], {'n': 1})
    """
    heads = [(name, array.dtype.str, list(array.shape)) for name, array in arrays.items()]
    header = json.dumps([heads, values], separators=(",", ":")).encode()
    body = b"".join([header, *(np.ascontiguousarray(array).tobytes() for array in arrays.values())])
    return _HEAD.pack(_MAGIC, len(header), len(body)) + bytes(_CODEC.compress(body, asbytes=True))


def unpack(payload: bytes, most: int | None = None) -> tuple[dict[str, NDArray[Any]], Any]:
    """The arrays (writable copies) and the value that `pack` made the bytes from.

    `most`: limit of the decompressed bytes; None: no limit, for bytes that this process packed.

    Raises:
        ValueError: the bytes were not made by `pack`, are cut short, or are more than `most`.
    """
    if payload[:4] != _MAGIC or len(payload) < _HEAD.size:
        raise ValueError("not a packed snapshot")
    _, offset, size = _HEAD.unpack_from(payload)
    if size < 0 or (most is not None and size > most):
        raise ValueError(f"a packed snapshot that declares {size:,} bytes, expected {most or 2**63:,} at most")
    try:
        body = _CODEC.decompress(payload[_HEAD.size :], size, asbytes=True)
    except OSError as error:
        raise ValueError(f"a packed snapshot that is cut short or damaged: {error}") from error
    heads, values = json.loads(body[:offset])
    arrays: dict[str, NDArray[Any]] = {}
    for name, dtype, shape in heads:
        count = int(np.prod(shape))
        arrays[name] = np.frombuffer(body, dtype, count, offset).reshape(shape).copy()
        offset += arrays[name].nbytes
    return arrays, values
