"""Arrays of text as arrays of bytes, for snapshots."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray


def packed_texts(texts: NDArray[np.object_]) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """Return all texts concatenated in UTF-8, and the length of each in bytes."""
    encoded = [text.encode("utf-8", "surrogatepass") for text in texts.tolist()]
    lengths = np.fromiter(map(len, encoded), np.int64, len(encoded))
    return np.frombuffer(b"".join(encoded), np.uint8), lengths


def unpacked_texts(content: NDArray[np.uint8], lengths: NDArray[np.int64]) -> NDArray[Any]:
    """Return the texts of which `packed_texts` made these arrays, object[n]."""
    raw = content.tobytes()
    texts = np.empty(len(lengths), object)
    end = 0
    for i, length in enumerate(lengths.tolist()):
        texts[i] = raw[end : end + length].decode("utf-8", "surrogatepass")
        end += length
    return texts
