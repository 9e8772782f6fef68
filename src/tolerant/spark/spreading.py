"""Spreads the rows of two tables over shards by what they are joined on, values or ranges: `WITH (shards = n)`.

Every shard is told of every row its key, its time and what it is joined on: with `KEEP n ROWS` all decide alike which
rows are kept, and otherwise a row may take the place of one that another shard holds. The other columns, which are most
of what is held, come to the row's own shard alone. Where subscriptions are spread instead, all get every row. All of it
is a function of the payload.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tolerant.spark.kinds.parts import Part
from tolerant.spark.splitter import Splitter
from tolerant.sql import CreateTable, Pair
from tolerant.streams import Column
from tolerant.transport.changes import ARROW, read_changes, topic_of
from tolerant.transport.rows import pack, unpack


class PairSplit(Splitter):
    """Splits the rows of a pair; travels to the workers."""

    def __init__(self, pair: Pair) -> None:
        super().__init__(pair.shards)
        self._parts = [Part(shard, pair.shards, pair.ranges) for shard in range(pair.shards)]
        found = zip(pair.tables, pair.on, strict=True) if pair.by_value else ()
        self._tables = {topic_of(table.name): (table, on) for table, on in found}

    def parts(self, topic: str, payload: bytes) -> list[tuple[int, bytes]]:
        """See `Splitter.parts`; what cannot be read goes to all, of which the first buries it."""
        for_all = [(shard, payload) for shard in range(self.shards)]
        if topic not in self._tables:
            return for_all
        table, on = self._tables[topic]
        try:
            batch = unpack(payload)
            found = read_changes(batch, table.columns)
        except ValueError:
            return for_all
        insert = found.changes.insert
        if not insert.any():
            return for_all
        said = []
        for part in self._parts:
            whole = np.ones(batch.num_rows, np.bool_)  # clock rows, deletions, rows that cannot be used: all have them
            whole[found.rows[insert]] = part.holds(table.name, found.changes.columns[on][insert])
            said.append((part.shard, pack(_part(batch, table, on, pa.array(whole)))))
        return said


def _part(batch: pa.RecordBatch, table: CreateTable, on: str, whole: pa.BooleanArray) -> pa.RecordBatch:
    """All rows; those of other shards without the columns that are theirs alone."""
    columns = {f"row.{column.name}": column for column in table.columns if column.name != on}
    arrays = [
        pc.if_else(whole, batch.column(name), _nothing(columns[name])) if name in columns else batch.column(name)
        for name in batch.schema.names
    ]
    return pa.record_batch(arrays, schema=batch.schema)


def _nothing(column: Column) -> pa.Scalar:
    value = {"STRING": "", "BOOLEAN": False}.get(column.type, 0)
    return pa.scalar(value, ARROW[column.type])
