"""Splits the rows of two tables between shards by what they are joined on, values or ranges: `WITH (shards = n)`.

Every shard gets the key, the time and the joined columns of every row: with `KEEP n ROWS` all shards decide alike which
rows are kept, and otherwise a row may replace one of another shard. The other columns, which are most of the state, go
to the row's own shard only. Where subscriptions are spread instead, every shard gets every row. All of it is a function
of the payload.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tolerant.pipeline.shard_range import Part
from tolerant.pipeline.splitter import Splitter
from tolerant.sql import CreateTable, JoinInput
from tolerant.streams import Column
from tolerant.transport.changes import ARROW, read_changes
from tolerant.transport.rows import pack, unpack
from tolerant.transport.topics import changes_topic


class PairSplit(Splitter):
    """Splits the rows of two joined tables; is pickled for the workers."""

    def __init__(self, pair: JoinInput) -> None:
        super().__init__(pair.shards)
        self._parts = [Part(shard, pair.shards, pair.ranges) for shard in range(pair.shards)]
        columns = zip(pair.tables, pair.on, strict=True) if pair.by_value else ()
        self._tables = {changes_topic(table.name): (table, on) for table, on in columns}

    def parts(self, topic: str, payload: bytes) -> list[tuple[int, bytes]]:
        """See `Splitter.parts`; what cannot be read goes to all; the first shard writes it to the dead letters."""
        for_all = [(shard, payload) for shard in range(self.shards)]
        if topic not in self._tables:
            return for_all
        table, on = self._tables[topic]
        try:
            limits = table.options.limits
            batch = unpack(payload, limits)
            read = read_changes(batch, table.columns, limits.key_length)
        except ValueError:
            return for_all
        insert = read.changes.insert
        if not insert.any():
            return for_all
        parts = []
        for part in self._parts:
            whole = np.ones(batch.num_rows, np.bool_)  # clock rows, deletions, rows that cannot be used: all have them
            whole[read.rows[insert]] = part.holds(table.name, read.changes.columns[on][insert])
            parts.append((part.shard, pack(_part(batch, table, on, pa.array(whole)))))
        return parts


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
