"""Checksums of what a log holds: a row that is not what was appended is an error, not an answer.

CRC-32 finds every flip of one bit, of two, and of any run of up to 32. It is no signature: who may write the file may
write the sum.
"""

from __future__ import annotations

from zlib import crc32

Field = str | int | None


def checksum(payload: bytes | None, *fields: Field) -> int:
    """The sum of a row: of its payload and of where it stands.

    >>> checksum(b"x", "updates.s", 1) != checksum(b"x", "updates.s", 2)
    True
    """
    where = crc32(f"{payload is None}\0{chr(0).join(map(str, fields))}".encode())
    return where if payload is None else crc32(payload, where)


def is_intact(stored: object, payload: object, *fields: Field) -> bool:
    """Whether a row as SQLite gives it has this sum. A flipped bit may change the type of a column, too.

    >>> is_intact(checksum(b"x", 1), b"x", 1), is_intact(checksum(b"x", 1), "x", 1)
    (True, False)
    """
    return (payload is None or isinstance(payload, bytes)) and stored == checksum(payload, *fields)
