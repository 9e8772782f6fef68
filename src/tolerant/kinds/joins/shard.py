"""One shard of the pipeline of a pair of tables: the rows of both and the queries over them.

Changes of both tables apply in one order, (at, table, key, sequence), when the clocks of both have passed them; those
of one `at` are one transaction. The queries publish their effects on subscriptions; the rows that they leave are in the
compacted topic `rows.<pair>`, under table and key, in the same transaction.

Of several shards each reads all changes. Where rows are spread by what they are joined on, one holds the rows of its
own values or ranges, and a row of another shard replaces what it had under that key; where subscriptions are spread,
all hold every row and the first publishes them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from tolerant.kernels.snapshots import Schema, State
from tolerant.kinds.joins.queries import PairQuery, pair_query
from tolerant.pipeline.event_time import EventTimeBuffer
from tolerant.pipeline.hosting import Output
from tolerant.pipeline.migrations import with_late_sources
from tolerant.pipeline.rows_shard import Integers, RowsShard, Side
from tolerant.pipeline.shard_range import Part
from tolerant.pipeline.sides import SideChanges
from tolerant.relations import Changes, RowNumbers
from tolerant.sql import CreateQuery, CreateTable, JoinInput
from tolerant.sql.query_kind import shard_query_of
from tolerant.transport.deliveries import row_key


class NumberedSide(Side):
    """A table of a pair, whose rows have numbers."""

    def __init__(self, table: CreateTable, waiting: EventTimeBuffer[Changes]) -> None:
        super().__init__(table, waiting)
        self.numbers = RowNumbers()

    def clear(self) -> None:
        """See `Side.clear`."""
        super().clear()
        self.numbers = RowNumbers()

    def state(self) -> State:
        """See `Side.state`."""
        return State(side=super().state(), numbers=self.numbers.state(self.relation.keys()))

    def load(self, state: State) -> None:
        """See `Side.load`."""
        side, numbers = state.exactly("side", "numbers")
        super().load(side)
        self.numbers = RowNumbers.load(self.relation.keys(), numbers)


class PairShard(RowsShard[PairQuery, NumberedSide]):
    """`Hosted` by Spark; see the module."""

    SCHEMA = Schema("joins", 2, {1: with_late_sources})

    def __init__(self, pair: JoinInput, shard: int = 0) -> None:
        super().__init__(pair.name, pair.tables, NumberedSide, shard)
        first, second = self._sides
        self._both, self._part = (first, second), Part(shard, pair.shards, pair.ranges)
        self._on = pair.on if pair.by_value else None
        self._publishes_rows = pair.by_value or not shard

    def _is_hosted(self, query: CreateQuery) -> bool:
        return shard_query_of(query) is not None

    def _make(self, query: CreateQuery, state: State | None) -> PairQuery:
        return pair_query(query, self._both, state, self._part)

    def _apply(self, changes: Sequence[Changes]) -> None:
        if self._on is None:
            super()._apply(changes)
            return
        own = zip(self._sides, changes, self._on, strict=True)
        super()._apply([self._own(side.table.name, rows, on) for side, rows, on in own])
        for side in self._sides:
            side.relation.unknown = 0  # a row that is not here may be another's

    def _own(self, table: str, changes: Changes, on: str) -> Changes:
        """The changes as they are here: an inserted row that belongs to another shard is deleted from this one."""
        insert = changes.insert.copy()
        insert[insert] = self._part.holds(table, changes.columns[on][insert])
        return replace(changes, insert=insert)

    def _publish(self, effects: Sequence[Changes], steps: Sequence[Integers]) -> None:
        first, second = (
            SideChanges(changes, of, side.numbers.apply(changes))
            for side, changes, of in zip(self._both, effects, steps, strict=True)
        )
        for query in self._queries.values():
            self._publish_for(query, query.outputs((first, second)))
        for side in self._both:
            side.numbers.settle()

    def _drain_outputs(self) -> list[Output]:
        if not self._publishes_rows:
            self._changed = []
        return super()._drain_outputs()

    def _key_prefix(self, side: NumberedSide) -> str | None:
        name = side.table.name
        return name if self._on is None else row_key(str(self._shard), name)  # steps are a shard's own

    def _size(self) -> int:
        if self._on is None:
            return super()._size() if self._publishes_rows else 0
        columns = (side.relation.rows()[on] for side, on in zip(self._sides, self._on, strict=True))
        return sum(int(np.count_nonzero(self._part.counts(values))) for values in columns)
