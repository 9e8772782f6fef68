"""Changes of a table that are not yet appended to the log, in order."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tolerant.kernels.versions import version
from tolerant.sql import CreateTable
from tolerant.streams import KeyPart
from tolerant.transport.changes import ARROW, DELETE, INSERT, changes_batch, key_texts

PIECE = 65_536
"""Most rows in one append; one more where the two halves of an update would be separated."""


@dataclass
class _Single:
    """Changes that were made one by one; they become arrays all at once."""

    kinds: list[str]
    keys: list[str]
    at: list[int]
    rows: list[tuple[KeyPart | None, ...]]


@dataclass
class _Many:
    """Rows that were inserted at one event time."""

    keys: pa.Array
    at: int
    values: dict[str, pa.Array]


class ChangeBuffer:
    """Collects changes of one source and epoch, and numbers them; `drain` returns the oldest as a batch."""

    def __init__(self, table: CreateTable, source: str, epoch: int) -> None:
        self._table = table
        self._source = source
        self._epoch = epoch
        self._next = 1
        self._size = 0
        self._waiting: deque[_Single | _Many] = deque()

    def __len__(self) -> int:
        return self._size

    def insert(self, key: str, row: tuple[KeyPart, ...], at: int) -> None:
        """Add the insertion of a row."""
        self._add(INSERT, key, row, at)

    def delete(self, key: str, at: int) -> None:
        """Add the deletion of a row."""
        self._add(DELETE, key, (None,) * len(self._table.columns), at)

    def insert_many(self, values: dict[str, pa.Array], at: int) -> None:
        """Add the insertion of rows at one event time; `values` has one array per column."""
        keys = key_texts([values[name] for name in self._table.key])
        if not len(keys):
            return
        self._waiting.append(_Many(keys, at, values))
        self._size += len(keys)

    def drain(self) -> pa.RecordBatch | None:
        """Remove and return the oldest rows, at most PIECE, as a batch; None: the buffer is empty."""
        if not self._size:
            return None
        first = self._waiting.popleft()
        if isinstance(first, _Single):
            kinds, keys, at, values = first.kinds, pa.array(first.keys, pa.string()), first.at, self._columns(first)
        else:
            if len(first.keys) > PIECE:
                rest = {name: array.slice(PIECE) for name, array in first.values.items()}
                self._waiting.appendleft(_Many(first.keys.slice(PIECE), first.at, rest))
            keys = first.keys.slice(0, PIECE)
            kinds, at = [INSERT] * len(keys), [first.at] * len(keys)
            values = {name: array.slice(0, PIECE) for name, array in first.values.items()}
        self._size -= len(keys)
        return self._batch(kinds, keys, np.array(at, np.int64), values)

    def _add(self, kind: str, key: str, row: tuple[KeyPart | None, ...], at: int) -> None:
        last = self._waiting[-1] if self._waiting else None
        if not isinstance(last, _Single) or (len(last.keys) >= PIECE and last.at[-1] != at):
            last = _Single([], [], [], [])
            self._waiting.append(last)
        last.kinds.append(kind)
        last.keys.append(key)
        last.at.append(at)
        last.rows.append(row)
        self._size += 1

    def _columns(self, single: _Single) -> dict[str, pa.Array]:
        columns = zip(self._table.columns, zip(*single.rows, strict=True), strict=True)
        return {column.name: pa.array(values, ARROW[column.type]) for column, values in columns}

    def _batch(
        self, kinds: list[str], keys: pa.Array, at: NDArray[np.int64], values: dict[str, pa.Array]
    ) -> pa.RecordBatch:
        # Every later row has a later event time, except the rest of a call that is too large for one append.
        same = self._waiting[0] if self._waiting else None
        last = at[-1] - 1 if isinstance(same, _Many) and same.at == at[-1] else at[-1]
        first = version(self._epoch, self._next)
        self._next += len(keys)
        return changes_batch(
            self._table.columns,
            kinds=kinds,
            keys=keys,
            at=at,
            source=self._source,
            sequence=np.arange(first, first + len(keys)),
            through=np.append(at[1:] - 1, last),
            values=values,
        )
