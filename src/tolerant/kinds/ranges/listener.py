"""Reads rows for subscriptions from `answers.<query>`, `channels.<query>` and `rows.<table>`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import pyarrow as pa

from tolerant.relations import RangeSelection
from tolerant.relations.row_changes import DTYPES
from tolerant.sql import CreateQuery, CreateTable
from tolerant.sql.templates import column_ranges
from tolerant.transport import Log
from tolerant.transport.channels import is_table
from tolerant.transport.deliveries import read_rows, row_of
from tolerant.transport.feeds import Extracted, Listener
from tolerant.transport.positions import Position
from tolerant.transport.records import records_of
from tolerant.transport.topics import answers_topic, channels_topic, rows_topic


@dataclass(frozen=True)
class RowChange:
    """A row that came into a subscription's range or left it; `at` microseconds.

    `current`: the row was there when the subscription began. The rows of one `at` are one transaction: a row that was
    replaced is deleted and inserted. `position`: to resume from once this and everything before it has been processed;
    None before the last of the current rows: they are one answer.
    """

    kind: Literal["insert", "delete"]
    row: dict[str, Any]
    at: int | None
    position: Position | None
    current: bool = False


class ChannelListener(Listener):
    """Listens to one subscription; `left`: it was unsubscribed, and gets nothing until it is subscribed again."""

    def __init__(self, position: Position, parameters: Mapping[str, Any]) -> None:
        super().__init__(position)
        self.parameters = parameters
        self.left = False


class ChannelExtractor:
    """Extracts the rows of a channel for every subscription whose range contains them.

    A channel carries at least the ranges of its subscriptions, so that the parameters alone find all rows of a
    subscription, whichever channel some version of the channel table puts it on; a row on several channels counts once.
    The channel table says which subscriptions have ended.
    """

    def __init__(self, query: CreateQuery, table: CreateTable) -> None:
        self.topic = (channels_topic(query.name), answers_topic(query.name))
        self._ranges = column_ranges(query, table)
        self._index, self._indexed = RangeSelection(self._ranges), set[int]()

    def extract(self, batch: pa.RecordBatch, listeners: Mapping[int, Listener]) -> Iterator[tuple[Listener, Extracted]]:
        """Yield the rows of a batch in the ranges of the listeners."""
        if is_table(batch):
            _mark_unsubscribed(batch, listeners)
            return
        step = batch.column("step").to_numpy()
        _, first = np.unique(step, return_index=True)  # steps ascend: the first row of each change
        columns = {
            part.column: batch.column(f"row.{part.column}").to_numpy(zero_copy_only=False)[first]
            for part in self._ranges
        }
        places, numbers = self._index_of(listeners).matching(columns)
        if not len(places):
            return
        rows, which = np.unique(places, return_inverse=True)
        records = batch.take(pa.array(first[rows])).to_pylist()
        own = set(batch.column("channel").unique().to_pylist())
        for place, number in zip(which.tolist(), numbers.tolist(), strict=True):
            listener = listeners[number]
            assert isinstance(listener, ChannelListener)
            # A row on a subscription's own channel: it is subscribed again.
            listener.left = listener.left and ~number not in own
            if not listener.left:
                row = int(first[rows[place]])
                yield listener, Extracted(row, int(step[row]), records[place])

    def _index_of(self, listeners: Mapping[int, Listener]) -> RangeSelection:
        """Return an index of the listeners' ranges; it is kept, as the listeners are mostly the same."""
        if len(listeners) == 1 and self._indexed != listeners.keys():
            return self._with(RangeSelection(self._ranges), listeners)
        new, gone = listeners.keys() - self._indexed, self._indexed - listeners.keys()
        if gone:
            self._index.remove_many(np.fromiter(gone, np.int64, len(gone)))
        if new:
            self._with(self._index, {number: listeners[number] for number in new})
        self._indexed = set(listeners) if new or gone else self._indexed
        return self._index

    def _with(self, index: RangeSelection, listeners: Mapping[int, Listener]) -> RangeSelection:
        bound = [listener.parameters for listener in listeners.values() if isinstance(listener, ChannelListener)]
        names = bound[0] if bound else ()
        given = {name: np.array([parameters[name] for parameters in bound]) for name in names}
        index.add_many(np.fromiter(listeners, np.int64, len(listeners)), given)
        return index


def _mark_unsubscribed(batch: pa.RecordBatch, listeners: Mapping[int, Listener]) -> None:
    """Mark the listeners that leave a channel and join no other: their subscriptions have ended."""
    joined, left = (batch.column(name).flatten().to_numpy() for name in ("joined", "left"))
    step = batch.column("step")[0].as_py() if len(batch) else 0
    for number in np.setdiff1d(left, joined).tolist():
        listener = listeners.get(number)
        if isinstance(listener, ChannelListener) and step >= listener.position.mark:
            listener.left = True
    for number in joined.tolist():
        listener = listeners.get(number)
        if isinstance(listener, ChannelListener):
            listener.left = False


def row_change(record: Mapping[str, Any], position: Position) -> RowChange:
    """Return the change that an application sees for a row on a channel."""
    return RowChange(record["kind"], row_of(record), record["at"], position)


def current_changes(rows: Sequence[dict[str, Any]], position: Position) -> list[RowChange]:
    """Return the changes for the rows that are in a range when a subscription begins."""
    last = len(rows) - 1
    return [RowChange("insert", row, None, position if index == last else None, True) for index, row in enumerate(rows)]


def table_rows(log: Log, table: CreateTable) -> tuple[list[dict[str, Any]], int]:
    """Return the current rows of a table, by key, and the step of the table that they are of."""
    records: dict[str, tuple[int, bytes | None]] = {}
    for key, version, body in records_of(log, rows_topic(table.name)):
        records[key] = version, body
    step = max((version for version, _ in records.values()), default=0)
    return read_rows(table.columns, [(key, body) for key, (_, body) in sorted(records.items())]), step


def current_rows(
    log: Log, query: CreateQuery, table: CreateTable, ids: Sequence[int], parameters: Mapping[str, Any]
) -> tuple[dict[int, list[dict[str, Any]]], int]:
    """Return subscription → the rows that are in its range now, by key; and the step of the table that they are of."""
    rows, step = table_rows(log, table)
    index = RangeSelection(column_ranges(query, table))
    index.add_many(np.array(ids, np.int64), parameters)
    arrays = {c.name: np.array([row[c.name] for row in rows], DTYPES[c.type]) for c in table.columns}
    places, owners = index.matching(arrays) if rows else (np.zeros(0, np.int64), np.zeros(0, np.int64))
    by_subscription: dict[int, list[dict[str, Any]]] = {number: [] for number in ids}
    for place, owner in zip(places.tolist(), owners.tolist(), strict=True):
        by_subscription[owner].append(rows[place])
    return by_subscription, step


class RowListenerFactory:
    """Creates listeners to a query for all rows in a range."""

    def __init__(self, query: CreateQuery, table: CreateTable) -> None:
        self._query, self._table = query, table
        self.extractor = ChannelExtractor(query, table)

    def begin(
        self, log: Log, numbers: Sequence[int], parameters: Mapping[str, Any]
    ) -> list[tuple[Listener, list[Any]]]:
        """See `ListenerFactory.begin`."""
        # The end first: what is published between the two reads is in the rows already, and recognised by its step.
        end = log.end()
        current, step = current_rows(log, self._query, self._table, numbers, parameters)
        start = Position(end, mark=step)
        listeners = self.resume(log, numbers, parameters, [start] * len(numbers))
        return [
            (listener, [*current_changes(current[number], start)])
            for number, listener in zip(numbers, listeners, strict=True)
        ]

    def resume(
        self, log: Log, numbers: Sequence[int], parameters: Mapping[str, Any], positions: Sequence[Position]
    ) -> list[Listener]:
        """See `ListenerFactory.resume`."""
        columns = {name: np.asarray(values).tolist() for name, values in parameters.items()}
        given = ({name: values[at] for name, values in columns.items()} for at in range(len(numbers)))
        return [ChannelListener(position, own) for position, own in zip(positions, given, strict=True)]

    def change(self, content: Mapping[str, Any], position: Position) -> RowChange:
        """See `ListenerFactory.change`."""
        return row_change(content, position)
