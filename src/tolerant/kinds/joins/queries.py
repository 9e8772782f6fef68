"""The kinds of query that the shard of a pair of tables can host beside each other: one class a kind, listed here by
their select.

To add one: a file here with a class that has the methods of `PairQuery` and a classmethod `over` of type `Maker`; a
line in `MAKERS`; `available=True` and a `check` in its file of `tolerant.sql.kinds`; a line in
`tolerant.client.listeners.LISTENERS` if clients can subscribe to it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol

import pyarrow as pa
from numpy.typing import NDArray

from tolerant.kinds.joins.joins import Joins
from tolerant.pipeline.shard_range import SINGLE_SHARD, Part
from tolerant.pipeline.sides import SideChanges, Sides
from tolerant.sql import CreateQuery
from tolerant.sql.statements import BandJoinSelect, EqualityJoinSelect, Select


class PairQuery(Protocol):
    """One query over a pair of tables: a template with its subscriptions, or without parameters one for all; what it
    sees of the tables is in `tolerant.pipeline.sides`.
    """

    tally: str
    """What the shard counts the rows under that it says."""

    def __len__(self) -> int:
        """How many subscriptions there are."""
        ...

    def take(self, batch: pa.RecordBatch) -> None:
        """Subscribe and unsubscribe, in the order of the rows.

        Raises:
            ValueError: the rows are not those of this template.
        """
        ...

    def say(self, changes: tuple[SideChanges, SideChanges]) -> list[tuple[str, pa.RecordBatch]]:
        """What the changes of the two tables are to those who listen: batches with their topics.

        It is called for all that applies at one time, so that a backlog costs no more than its changes; what is said
        must be what it would be had they come one transaction after the other.
        """
        ...

    def figures(self) -> dict[str, float]:
        """Counts and shares for `tolerant status`, by what they are of; may be none. A function of the log."""
        ...

    def state(self) -> dict[str, NDArray[Any]]:
        """What cannot be worked out again from the statement and the tables' rows, as arrays for a snapshot."""
        ...


Maker = Callable[[CreateQuery, Sides, Mapping[str, NDArray[Any]] | None, Part], PairQuery]
"""Makes a query from its statement, its tables with the rows that they have now, the state that it had (None: it is
new), and which shard it is in.
"""

MAKERS: dict[type[Select], Maker] = {
    BandJoinSelect: Joins.over,
    EqualityJoinSelect: Joins.over,
}


def is_hosted(query: CreateQuery) -> bool:
    """Whether a pair's shard has a class for such a query."""
    return type(query.select) in MAKERS


def pair_query(
    query: CreateQuery, sides: Sides, state: Mapping[str, NDArray[Any]] | None = None, part: Part = SINGLE_SHARD
) -> PairQuery:
    """The query, new or as `state` says; `is_hosted` must be true of it."""
    return MAKERS[type(query.select)](query, sides, state, part)
