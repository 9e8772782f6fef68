"""What a table's shard hosts beside each other: queries of the kinds whose `QueryKind.shard_query` is a `Maker`.

A good member keeps what its subscriptions need, and nothing of the table that can be worked out again from its rows;
what it says is a function of the changes, of their steps and of the subscriptions that stand when they apply.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol, runtime_checkable

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tolerant.kernels.snapshots import State
from tolerant.relations import Changes, Relation
from tolerant.sql import CreateQuery, CreateTable
from tolerant.sql.query_kind import shard_query_of


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

    def outputs(self, changes: Changes, steps: NDArray[np.int64]) -> list[tuple[str, pa.RecordBatch]]:
        """What the changes, which the table has just taken, are to those who listen: batches with their topics."""
        ...

    def figures(self) -> dict[str, int]:
        """Counts for `tolerant status`, by what they are of; there may be none. A function of the log, as all is."""
        ...

    def state(self) -> State:
        """What cannot be worked out again from the statement and the table's rows, for a snapshot."""
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


Maker = Callable[[CreateQuery, CreateTable, Relation, State | None], TableQuery]
"""Makes a query from its statement, its table, the rows that this has now, and the state that it had; None: it is new.

The rows are only to be read while it is made: afterwards `say` tells what changes.
"""


def table_query(query: CreateQuery, table: CreateTable, rows: Relation, state: State | None = None) -> TableQuery:
    """The query, new or as `state` says; its kind must have a `QueryKind.shard_query`, which is a Maker."""
    make = shard_query_of(query)
    assert make is not None
    made: TableQuery = make(query, table, rows, state)
    return made
