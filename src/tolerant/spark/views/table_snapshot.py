"""The snapshot file of the tables of a pipeline of views, and the position in the log that it was taken at."""

from __future__ import annotations

import os
import struct
from pathlib import Path

_HEAD = struct.Struct("<q")


class TableSnapshot:
    """A file that is replaced as a whole."""

    def __init__(self, file: Path) -> None:
        self._file = file

    @property
    def size(self) -> int:
        """Bytes of the file; 0 if there is none."""
        return self._file.stat().st_size if self._file.exists() else 0

    def write(self, position: int, tables: bytes) -> None:
        """Replaces the snapshot."""
        scratch = self._file.with_suffix(".writing")
        with open(scratch, "wb") as file:
            file.write(_HEAD.pack(position) + tables)
            file.flush()
            os.fsync(file.fileno())
        scratch.rename(self._file)

    def read(self) -> tuple[int, bytes] | None:
        """Returns the position and the tables, or None if there is no snapshot.

        Raises:
            ValueError: the file is cut short.
        """
        if not self._file.exists():
            return None
        data = self._file.read_bytes()
        if len(data) < _HEAD.size:
            raise ValueError("the snapshot of the tables is cut short")
        return _HEAD.unpack_from(data)[0], data[_HEAD.size :]

    def remove(self) -> None:
        """Removes the snapshot if there is one."""
        self._file.unlink(missing_ok=True)
