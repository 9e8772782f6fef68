"""The kinds of query that a table's shard can host beside each other: one class a kind, listed here by their select.

A good member keeps what its subscriptions need, and nothing of the table that can be worked out again from its rows;
what it says is a function of the changes, of their steps and of the subscriptions that stand when they apply.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol, runtime_checkable

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tolerant.kinds.notices.notices import Notices
from tolerant.kinds.ranges.selections import Selection
from tolerant.relations import Changes, Relation
from tolerant.sql import CreateQuery, CreateTable
from tolerant.sql.statements import RangeAggregateSelect, RangeSelect, Select


class TableQuery(Protocol):
    """One query over a table: a template with its subscriptions, or without parameters one for all."""

    tally: str
    """What the shard counts the rows under that it says: "deliveries" for rows that name a subscription,
    "notices" for rows that say whom they concern."""

    def __len__(self) -> int:
        """How many subscriptions there are."""
        ...

    def take(self, batch: pa.RecordBatch) -> None:
        """Subscribe and unsubscribe, in the order of the rows.

        Raises:
            ValueError: the rows are not those of this template.
        """
        ...

    def say(self, changes: Changes, steps: NDArray[np.int64]) -> list[tuple[str, pa.RecordBatch]]:
        """What the changes, which the table has just taken, are to those who listen: batches with their topics."""
        ...

    def figures(self) -> dict[str, int]:
        """Counts for `tolerant status`, by what they are of; there may be none. A function of the log, as all is."""
        ...

    def state(self) -> dict[str, NDArray[Any]]:
        """What cannot be worked out again from the statement and the table's rows, as arrays for a snapshot."""
        ...


@runtime_checkable
class Announcing(Protocol):
    """What a query has besides if its subscriptions share something that is told to all: a channel table."""

    def announce(self, at: int, step: int) -> list[tuple[str, pa.RecordBatch]]:
        """What subscriptions that came or went have changed in it; for rows of steps after `step`."""
        ...

    def boundary(self, at: int, step: int) -> list[tuple[str, pa.RecordBatch]]:
        """What the boundary at this event time, whose rows have been said, changes in it.

        Nothing may depend on boundaries that follow one another without rows or subscriptions in between: only the
        first of them is processed.
        """
        ...

    def explanation(self) -> dict[str, Any]:
        """What it comes to, for `tolerant explain`, as JSON has it."""
        ...


Maker = Callable[[CreateQuery, CreateTable, Relation, Mapping[str, NDArray[Any]] | None], TableQuery]
"""Makes a query from its statement, its table, the rows that this has now, and the state that it had; None: it is new.

The rows are only to be read while it is made: afterwards `say` tells what changes.
"""

MAKERS: dict[type[Select], Maker] = {
    RangeSelect: Selection.over,
    RangeAggregateSelect: Notices.over,
}


def is_hosted(query: CreateQuery) -> bool:
    """Whether a table's shard has a class for such a query."""
    return type(query.select) in MAKERS


def table_query(
    query: CreateQuery, table: CreateTable, rows: Relation, state: Mapping[str, NDArray[Any]] | None = None
) -> TableQuery:
    """The query, new or as `state` says; `is_hosted` must be true of it."""
    return MAKERS[type(query.select)](query, table, rows, state)
