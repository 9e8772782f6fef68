"""What the queries over a pair of tables see of them: the rows of each, and what has just changed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from tolerant.relations import Changes, Relation, RowNumbers
from tolerant.sql import CreateTable

Integers = NDArray[np.int64]


class PairSide(Protocol):
    """One table of a pair, as its queries see it. A query may keep it: when `say` is called, the rows are those after
    the changes. Both come and go with the table, never while a query is there.
    """

    @property
    def table(self) -> CreateTable:
        """Its definition."""
        ...

    @property
    def relation(self) -> Relation:
        """The rows that there are now."""
        ...

    @property
    def numbers(self) -> RowNumbers:
        """What they are called: `numbers.of(relation.keys())`."""
        ...


Sides = tuple[PairSide, PairSide]
"""The tables of a pair, in the order of their names."""


@dataclass(frozen=True, eq=False)
class SideChanges:
    """What one table of a pair has just taken, n changes in order.

    `steps` int64[n]: they count on over both tables, in the order in which the changes apply. `rows` int64[n]: the
    number of the row that each is about; a row that was replaced went under one and came under another. Changes with
    equal `at`, of both tables, are one transaction.
    """

    changes: Changes
    steps: Integers
    rows: Integers

    def __len__(self) -> int:
        return len(self.steps)

    def take(self, chosen: NDArray[Any]) -> SideChanges:
        """The changes at these indices, or where the flags are true."""
        return SideChanges(self.changes.take(chosen), self.steps[chosen], self.rows[chosen])
