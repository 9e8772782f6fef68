"""One shard of a table's pipeline: its rows and the queries over it, from log entries to deliveries.

What a change is to whom is said in `answers.<query>`; the rows that it leaves are in the compacted topic
`rows.<table>`, in the same transaction, for those who ask for the current answer first.
"""

from __future__ import annotations

from collections.abc import Sequence

from tolerant.relations import Changes, Relation
from tolerant.spark.kinds.shard import Arrays, Integers, RowsShard, Side
from tolerant.spark.kinds.table_queries import TableQuery, is_hosted, table_query
from tolerant.sql import CreateQuery, CreateTable


class TableShard(RowsShard[TableQuery]):
    """`Hosted` by Spark; see the module."""

    def __init__(self, table: CreateTable, shard: int = 0) -> None:
        super().__init__(table.name, (Side(table),), shard)
        self._table = table

    @property
    def relation(self) -> Relation:
        """The table's current rows."""
        return self._sides[0].relation

    def _is_hosted(self, query: CreateQuery) -> bool:
        return is_hosted(query)

    def _make(self, query: CreateQuery, state: Arrays | None) -> TableQuery:
        return table_query(query, self._table, self.relation, state)

    def _tell(self, effects: Sequence[Changes], steps: Sequence[Integers]) -> None:
        for query in self._queries.values():
            self._say_for(query, query.say(effects[0], steps[0]))
