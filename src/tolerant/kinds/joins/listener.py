"""Reads result rows of joins for subscriptions from `answers.<query>` and `rows.<pair>`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from tolerant.kinds.ranges.listener import RowChange, current_changes, row_change
from tolerant.relations.row_changes import DTYPES
from tolerant.sql import CreateQuery, CreateTable, PipelineId
from tolerant.transport import Log
from tolerant.transport.deliveries import read_rows, row_key
from tolerant.transport.feeds import Extracted, Listener
from tolerant.transport.positions import Position
from tolerant.transport.records import records_of
from tolerant.transport.results import results_schema, rows_naming
from tolerant.transport.topics import answers_topic, rows_topic

if TYPE_CHECKING:
    from tolerant.joins import RowLifetimes
    from tolerant.kinds.joins.join_columns import Joining

Row = dict[str, Any]


class ResultExtractor:
    """Extracts result rows; each row names the subscriptions that it is for."""

    def __init__(self, query: str, schema: pa.Schema) -> None:
        self.topic = answers_topic(query)
        self._schema = schema

    def extract(self, batch: pa.RecordBatch, listeners: Mapping[int, Listener]) -> Iterator[tuple[Listener, Extracted]]:
        """Yield the result rows of a batch for the subscriptions that listen."""
        if not batch.schema.equals(self._schema):
            return  # of another query of this name, which was dropped
        of_row, named = rows_naming(batch, listeners)
        chosen, back = np.unique(of_row, return_inverse=True)
        records = batch.drop_columns(["subscriptions"]).take(pa.array(chosen)).to_pylist()
        for number, row, place in zip(named.tolist(), of_row.tolist(), back.tolist(), strict=True):
            yield listeners[number], Extracted(row, records[place]["step"], records[place])


class ResultListener(Listener):
    """Listens to a join: a transaction may have many result rows, all of them in one entry."""

    def offer(self, entry: int, extracted: Extracted) -> bool:
        """See `Listener.offer`: a row with the position's mark is news if it follows the position in its entry."""
        position = self.position
        if position.entry == entry and extracted.mark == position.mark and extracted.row >= position.rows:
            self.position = Position(entry, extracted.row + 1, position.mark)
            self.waiting.append((extracted.content, self.position))
            return True
        return super().offer(entry, extracted)


class PartitionedListener(Listener):
    """Listens to several shards: the steps of each shard ascend, and the mark of a position has the step of each."""

    def __init__(self, position: Position, shards: int) -> None:
        super().__init__(position)
        self._shards = shards

    def offer(self, entry: int, extracted: Extracted) -> bool:
        """See `Listener.offer`."""
        position, shard = self.position, int(extracted.content["shard"])
        marks = unpacked_marks(position.mark, self._shards)
        continues = position.entry == entry and extracted.mark == marks[shard] and extracted.row >= position.rows
        before = (entry, extracted.row) < (position.entry, position.rows)
        if not continues and (before or extracted.mark <= marks[shard]):
            return False
        marks[shard] = max(extracted.mark, marks[shard])
        self.position = Position(entry, extracted.row + 1, packed_marks(marks))
        self.waiting.append((extracted.content, self.position))
        return True


def listener_at(position: Position, shards: int) -> Listener:
    """Return a listener to `shards` shards."""
    return ResultListener(position) if shards == 1 else PartitionedListener(position, shards)


def packed_marks(marks: Sequence[int]) -> int:
    """Pack the marks of shards, each -1 or more, into one integer; the mark of a single shard stays as it is.

    >>> packed_marks([7]), unpacked_marks(packed_marks([7, -1, 2**50]), 3) == [7, -1, 2**50], unpacked_marks(-1, 2)
    (7, True, [-1, -1])
    """
    return marks[0] if len(marks) == 1 else sum((mark + 1) << (64 * shard) for shard, mark in enumerate(marks))


def unpacked_marks(mark: int, shards: int) -> list[int]:
    """Undo `packed_marks`."""
    mark = max(mark, 0) if shards > 1 else mark
    return [mark] if shards == 1 else [(mark >> (64 * shard) & (2**64 - 1)) - 1 for shard in range(shards)]


class JoinListenerFactory:
    """Creates listeners to a join of two tables."""

    def __init__(self, query: CreateQuery, left: CreateTable, right: CreateTable) -> None:
        self._query, self._tables = query, (left, right)
        self._pipeline = PipelineId.of(query.select)
        columns = [(table.name, table.columns) for table in self._tables]
        self.extractor = ResultExtractor(query.name, results_schema(columns, self._pipeline.shards))

    def begin(
        self, log: Log, numbers: Sequence[int], parameters: Mapping[str, Any]
    ) -> list[tuple[Listener, list[Any]]]:
        """See `ListenerFactory.begin`."""
        # The end first: what is published between the two reads is in the rows already, and recognised by its step.
        end = log.end()
        inputs, steps = pair_rows(log, self._pipeline, self._tables)
        current = joined_rows(self._query, self._tables, inputs, numbers, parameters)
        start = Position(end, mark=packed_marks(steps))
        return [(listener_at(start, len(steps)), [*current_changes(current[number], start)]) for number in numbers]

    def resume(
        self, log: Log, numbers: Sequence[int], parameters: Mapping[str, Any], positions: Sequence[Position]
    ) -> list[Listener]:
        """See `ListenerFactory.resume`."""
        return [listener_at(position, self._pipeline.shards) for position in positions]

    def change(self, content: Mapping[str, Any], position: Position) -> RowChange:
        """See `ListenerFactory.change`."""
        return row_change(content, position)


def pair_rows(log: Log, pipeline: PipelineId, tables: Sequence[CreateTable]) -> tuple[list[list[Row]], list[int]]:
    """Return the current rows of two joined tables, each table's by key, and the step of each shard."""
    records: dict[str, tuple[int, bytes | None]] = {}
    for key, version, body in records_of(log, rows_topic(str(pipeline))):
        records[key] = version, body
    shards = pipeline.shards
    if pipeline.by_value:  # each shard publishes its own rows, under its number
        by_shard = [
            {key: records[key] for key in records if key.startswith(row_key(str(shard), ""))} for shard in range(shards)
        ]
        steps = [max((version for version, _ in own.values()), default=0) for own in by_shard]
        records = {key.partition("/")[2]: record for own in by_shard for key, record in own.items() if record[1]}
    else:
        steps = [max((version for version, _ in records.values()), default=0)] * shards
    bodies = sorted((key, body) for key, (_, body) in records.items() if body)
    of_tables = [[(key, body) for key, body in bodies if key.startswith(row_key(table.name, ""))] for table in tables]
    return [read_rows(table.columns, own) for table, own in zip(tables, of_tables, strict=True)], steps


def joined_rows(
    query: CreateQuery,
    tables: tuple[CreateTable, CreateTable],
    inputs: Sequence[Sequence[Row]],
    numbers: Sequence[int],
    parameters: Mapping[str, Any],
) -> dict[int, list[Row]]:
    """Return subscription → its result rows, by the rows of the first table and then of the second."""
    from tolerant.kinds.joins.join_columns import Joining  # loads compiled code, which other listeners do not need

    joining = Joining(query, *tables)
    core = joining.core()
    ids, first = np.unique(np.array(numbers, np.int64), return_index=True)
    core.add_many(ids, *joining.ends(len(ids), {name: values[first] for name, values in parameters.items()}))
    core.store(*(_stored(joining, side, table, inputs[side]) for side, table in enumerate(tables)))
    pairs = core.results()
    order = np.lexsort((pairs.s, pairs.r))
    names = [[f"{table.name}.{column.name}" for column in table.columns] for table in tables]
    results: dict[int, list[Row]] = {number: [] for number in numbers}
    columns = (pairs.query[order].tolist(), pairs.r[order].tolist(), pairs.s[order].tolist())
    for number, r, s in zip(*columns, strict=True):
        both = ((inputs[0][r], names[0]), (inputs[1][s], names[1]))
        row = {name: value for part, own in both for name, value in zip(own, part.values(), strict=True)}
        results[number].append(row)
    return results


def _stored(joining: Joining, side: int, table: CreateTable, rows: Sequence[Row]) -> RowLifetimes:
    """Return rows of a table in the form that the join core stores, under their places."""
    from tolerant.joins import BEFORE, NEVER, RowLifetimes

    n = len(rows)
    columns = {c.name: np.array([row[c.name] for row in rows], DTYPES[c.type]) for c in table.columns}
    values = joining.values(side, columns, np.ones(n, np.bool_))
    return RowLifetimes(np.arange(n), np.full(n, BEFORE), np.full(n, NEVER), values)
