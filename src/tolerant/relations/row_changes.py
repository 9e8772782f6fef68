"""Changes of the rows of a relation, as arrays."""

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
"""The NumPy type of a column, by its SQL type."""


@dataclass(frozen=True, eq=False)
class Changes:
    """Insertions and deletions of rows, in order; n of them.

    `insert` bool[n]: whether the row is inserted, else deleted. `keys` object[n]: the key texts of the rows. `at`
    int64[n]: event time in microseconds. `source` int32[n]: the source of the change, an index into the names
    `sources`. `sequence` int64[n]: its number at the source. `columns`: one array[n] per column of the relation. In a
    deletion that is yet to be applied the columns are ignored; in one that `Relation.apply` returns they are the row
    that was deleted.
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
        """Return the changes at these indices, or where the flags are true."""
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
        """Return the row of one change, column → Python value."""
        return {name: column[index : index + 1].tolist()[0] for name, column in self.columns.items()}


def empty_columns(columns: tuple[Column, ...], size: int = 0) -> dict[str, NDArray[Any]]:
    """Return an array of `size` for each column: zeros, or empty places for text."""
    return {column.name: np.zeros(size, DTYPES[column.type]) for column in columns}
