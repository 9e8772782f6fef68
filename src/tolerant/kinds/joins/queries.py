"""What the shard of a pair of tables hosts beside each other: queries of the kinds whose `QueryKind.shard_query` is a
`Maker`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import pyarrow as pa

from tolerant.kernels.snapshots import State
from tolerant.pipeline.shard_range import SINGLE_SHARD, Part
from tolerant.pipeline.sides import SideChanges, Sides
from tolerant.sql import CreateQuery
from tolerant.sql.query_kind import shard_query_of


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

    def outputs(self, changes: tuple[SideChanges, SideChanges]) -> list[tuple[str, pa.RecordBatch]]:
        """What the changes of the two tables are to those who listen: batches with their topics.

        It is called for all that applies at one time, so that a backlog costs no more than its changes; what is said
        must be what it would be had they come one transaction after the other.
        """
        ...

    def figures(self) -> dict[str, float]:
        """Counts and shares for `tolerant status`, by what they are of; may be none. A function of the log."""
        ...

    def state(self) -> State:
        """What cannot be worked out again from the statement and the tables' rows, for a snapshot."""
        ...


Maker = Callable[[CreateQuery, Sides, State | None, Part], PairQuery]
"""Makes a query from its statement, its tables with the rows that they have now, the state that it had (None: it is
new), and which shard it is in.
"""


def pair_query(query: CreateQuery, sides: Sides, state: State | None = None, part: Part = SINGLE_SHARD) -> PairQuery:
    """The query, new or as `state` says; its kind must have a `QueryKind.shard_query`, which is a Maker."""
    make = shard_query_of(query)
    assert make is not None
    made: PairQuery = make(query, sides, state, part)
    return made
