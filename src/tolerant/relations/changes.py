"""Changes of a relation's rows, as arrays."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tolerant.streams import Column

DTYPES: dict[str, Any] = {
    "STRING": object,
    "BOOLEAN": np.bool_,
    "INT": np.int32,
    "BIGINT": np.int64,
    "FLOAT": np.float32,
    "DOUBLE": np.float64,
}
"""The NumPy type that holds a column of each SQL type."""


@dataclass(frozen=True, eq=False)
class Changes:
    """Rows that were inserted or deleted, in order; n of them.

    `insert` bool[n]: inserted (or else deleted). `keys` object[n]: the rows' key texts. `at` int64[n]: event time,
    microseconds. `source` int32[n]: who said it, an index into the names `sources`. `sequence` int64[n]. `columns`: an
    array[n] a column of the relation. In a deletion that is to be applied it is of no account what stands there; in one
    that `Relation.apply` gives back it is the row that went.
    """

    insert: NDArray[np.bool_]
    keys: NDArray[np.object_]
    at: NDArray[np.int64]
    source: NDArray[np.int32]
    sources: tuple[str, ...]
    sequence: NDArray[np.int64]
    columns: Mapping[str, NDArray[Any]]

    def __len__(self) -> int:
        return len(self.at)

    def take(self, chosen: NDArray[Any]) -> Changes:
        """The changes at these indices, or where the flags are true."""
        return Changes(
            self.insert[chosen],
            self.keys[chosen],
            self.at[chosen],
            self.source[chosen],
            self.sources,
            self.sequence[chosen],
            {name: column[chosen] for name, column in self.columns.items()},
        )

    def row(self, index: int) -> dict[str, Any]:
        """The row that one of the changes is about, column → Python value."""
        return {name: column[index : index + 1].tolist()[0] for name, column in self.columns.items()}


def empty_columns(columns: tuple[Column, ...], size: int = 0) -> dict[str, NDArray[Any]]:
    """An array of `size` for each column: zeros, empty places for text."""
    return {column.name: np.zeros(size, DTYPES[column.type]) for column in columns}
