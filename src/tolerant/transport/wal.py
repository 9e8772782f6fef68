"""Reads the `-wal` file of SQLite (sqlite.org/fileformat2.html#walformat) to tell damage from a write that was cut off.

After a crash SQLite takes the frames up to the first that is not what was written, and drops all that follow without a
word. That is right for the end of the file, where a transaction was under way, and wrong before it: a log syncs every
transaction before it begins the next, so frames behind a whole transaction prove that it had been accepted.
"""

from __future__ import annotations

import struct
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

_HEADER, _FRAME = 32, 24
_MAGIC = {0x377F0682: "<u4", 0x377F0683: ">u4"}
"""By the first word of the file: the byte order of the words that checksums are of."""
_SUMMED = 8  # bytes of a frame's header that its checksum covers; the page follows


def has_lost_frames(file: Path) -> bool:
    """Whether a damaged frame hides accepted transactions. Damage to the last transaction looks like a write that a
    loss of power cut off, and is not told.
    """
    data = file.read_bytes() if file.exists() else b""
    if len(data) <= _HEADER:
        return False
    magic, _, size = struct.unpack(">3I", data[:12])
    begin = np.frombuffer(data, ">u4", _HEADER // 4).astype(np.uint32)
    words = _MAGIC.get(magic, "<u4")
    head = np.frombuffer(data, words, 6).astype(np.uint32)
    if (checksums(np.zeros((1, 2), np.uint32), head[None]) != begin[6:8]).any():
        return True  # 32 bytes that were written at once, before any frame
    frame = _FRAME + size
    count = (len(data) - _HEADER) // frame
    if count < 2:
        return False
    frames = np.frombuffer(data, np.uint8, count * frame, _HEADER).reshape(count, frame)
    heads = np.ascontiguousarray(frames[:, :_FRAME]).view(">u4").astype(np.uint32)
    # Each frame's sum continues the one in the frame before it, so that each is checked by itself.
    before = np.vstack([begin[6:8], heads[:-1, 4:6]])
    summed = np.delete(frames, np.s_[_SUMMED:_FRAME], axis=1).view(words).astype(np.uint32)
    own = (heads[:, 2:4] == begin[4:6]).all(axis=1)  # the others are left from before the file was begun again
    sound = own & (checksums(before, summed) == heads[:, 4:6]).all(axis=1)
    ends_transaction = own & (heads[:, 1] != 0)
    first_bad = int(np.argmin(sound)) if not sound.all() else count
    return bool((ends_transaction[first_bad:-1] & sound[first_bad + 1 :]).any())


def checksums(before: NDArray[np.uint32], words: NDArray[np.uint32]) -> NDArray[np.uint32]:
    """SQLite's checksums of rows of an even number of words, uint32[rows, 2], each from the sum before it.

    The sum (s, t) of two words (x, y) more is s' = s + t + x, t' = s' + t + y, modulo 2³²: linear, so that the share of
    each word is a power of ((1, 1), (1, 2)), and those are the numbers of Fibonacci.
    """
    count = words.shape[1]
    fibonacci = np.ones(count + 2, np.uint32)
    fibonacci[0] = 0
    for at in range(2, len(fibonacci)):
        fibonacci[at] = (int(fibonacci[at - 1]) + int(fibonacci[at - 2])) & 0xFFFFFFFF
    # The n-th power is ((F(2n−1), F(2n)), (F(2n), F(2n+1))); x counts for s' and t', y for t' alone.
    shares = np.stack([fibonacci[count - 1 :: -1], fibonacci[count:0:-1]], axis=1)
    powers = np.stack([fibonacci[count - 1 : count + 1], fibonacci[count:]], axis=1)
    return before @ powers + words @ shares
