"""One shard of a table's pipeline: its rows and the queries over it, from log entries to deliveries.

The effects of a change on subscriptions are in `answers.<query>`; the rows that it leaves are in the compacted topic
`rows.<table>`, in the same transaction, for those who ask for the current answer first.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from tolerant.kernels.snapshots import Schema, State
from tolerant.kinds.tables.queries import Announcing, TableQuery, table_query
from tolerant.pipeline.hosting import Output
from tolerant.pipeline.migrations import with_late_sources
from tolerant.pipeline.rows_shard import Integers, RowsShard, Side
from tolerant.relations import Changes, Relation
from tolerant.sql import CreateQuery, CreateTable
from tolerant.sql.query_kind import shard_query_of
from tolerant.streams import StreamOptions
from tolerant.transport.rows import pack

_BOUNDARY = StreamOptions().boundary


class TableShard(RowsShard[TableQuery, Side]):
    """`Hosted` by Spark; see the module."""

    SCHEMA = Schema("tables", 2, {1: with_late_sources})

    def __init__(self, table: CreateTable, shard: int = 0) -> None:
        super().__init__(table.name, (table,), Side, shard)
        self._table = table

    @property
    def relation(self) -> Relation:
        """The table's current rows."""
        return self._sides[0].relation

    def _is_hosted(self, query: CreateQuery) -> bool:
        return shard_query_of(query) is not None

    def _make(self, query: CreateQuery, state: State | None) -> TableQuery:
        return table_query(query, self._table, self.relation, state)

    def _publish(self, effects: Sequence[Changes], steps: Sequence[Integers]) -> None:
        for query in self._queries.values():
            self._publish_for(query, query.outputs(effects[0], steps[0]))

    # -- what subscriptions share ------------------------------------------------------------------------------------

    def _advance(self, before: int | None, due: Sequence[Changes]) -> None:
        for part, boundary in self._by_boundary(due[0], before):
            self._apply([part])
            for query in self._queries.values():
                if boundary is not None and isinstance(query, Announcing):
                    self._announce(query.boundary(boundary, self._steps))

    def _by_boundary(self, due: Changes, before: int | None) -> Iterator[tuple[Changes, int | None]]:
        """Changes in order in parts, each with the boundary that follows it, if the watermark has reached that.

        Of boundaries that follow one another without changes the first alone is given.
        """
        watermark, ends = self._now, -(-due.at // _BOUNDARY)
        first = None if before is None else before // _BOUNDARY + 1
        if first is not None and first * _BOUNDARY <= watermark and (not len(due) or ends[0] > first):
            yield due.take(np.zeros(0, np.int64)), first * _BOUNDARY
        for number in np.unique(ends).tolist():
            yield due.take(ends == number), number * _BOUNDARY if number * _BOUNDARY <= watermark else None

    def _on_subscriptions(self, query: TableQuery) -> None:
        if isinstance(query, Announcing):
            self._announce(query.announce(self._now + 1, self._steps))

    def _announce(self, batches: Sequence[tuple[str, pa.RecordBatch]]) -> None:
        self._outputs += [Output(topic, pack(batch)) for topic, batch in batches]

    def _explanations(self) -> dict[str, Any]:
        announcing = ((name, query) for name, query in self._queries.items() if isinstance(query, Announcing))
        return {f"channels/{name}/{self._shard}": query.explanation() for name, query in announcing}
