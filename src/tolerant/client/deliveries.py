"""Rows for subscriptions: how they are read from `answers.<query>` and `rows.<table>`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import pyarrow as pa

from tolerant.client.feeds import Found, Listener
from tolerant.client.positions import Position
from tolerant.relations import RangeSelection
from tolerant.relations.changes import DTYPES
from tolerant.sql import CreateQuery, CreateTable
from tolerant.sql.templates import column_ranges
from tolerant.transport import Log, rows
from tolerant.transport.deliveries import read_row, row_of, rows_topic


@dataclass(frozen=True)
class RowChange:
    """A row came into a subscription's range or left it; `at` microseconds.

    `current`: the row was there when the subscription began. The rows of one `at` are one transaction: a row that was
    replaced is deleted and inserted. `position`: to resume from once this and everything before has been dealt with;
    None before the last of the current rows: they are one answer.
    """

    kind: Literal["insert", "delete"]
    row: dict[str, Any]
    at: int | None
    position: Position | None
    current: bool = False


class DeliveryExtractor:
    """Each delivery names the subscription that it is for."""

    def __init__(self, query: str) -> None:
        self.topic = f"answers.{query}"

    def extract(self, batch: pa.RecordBatch, listeners: Mapping[int, Listener]) -> Iterator[tuple[Listener, Found]]:
        """The deliveries of a batch for the subscriptions that listen."""
        named = batch.column("subscription").to_numpy()
        wanted = [number for number in np.unique(named).tolist() if number in listeners]
        mine = np.flatnonzero(np.isin(named, wanted))
        steps = batch.column("step").to_numpy()
        chosen = batch.take(pa.array(mine)).to_pylist()
        for row, record in zip(mine.tolist(), chosen, strict=True):
            yield listeners[int(named[row])], Found(row, int(steps[row]), record)


def row_change(record: Mapping[str, Any], position: Position) -> RowChange:
    """A delivery as the application sees it."""
    return RowChange(record["kind"], row_of(record), record["at"], position)


def current_changes(found: Sequence[dict[str, Any]], position: Position) -> list[RowChange]:
    """The rows that are in a range as a subscription begins."""
    last = len(found) - 1
    return [
        RowChange("insert", row, None, position if index == last else None, True) for index, row in enumerate(found)
    ]


def table_rows(log: Log, table: CreateTable) -> tuple[list[dict[str, Any]], int]:
    """The current rows of a table, by key, and the step that this is."""
    held: dict[str, tuple[int, bytes | None]] = {}
    for entry in log.read(rows_topic(table.name)):
        batch = rows.unpack(entry.payload)
        columns = (batch.column(name).to_pylist() for name in ("key", "version", "body"))
        held.update({key: (version, body) for key, version, body in zip(*columns, strict=True)})
    step = max((version for version, _ in held.values()), default=0)
    return [read_row(table.columns, body) for _, (_, body) in sorted(held.items()) if body is not None], step


def current_rows(
    log: Log, query: CreateQuery, table: CreateTable, ids: Sequence[int], parameters: Mapping[str, Any]
) -> tuple[dict[int, list[dict[str, Any]]], int]:
    """Subscription → the rows that are in its range now, by key; and the step of the table that this is."""
    found, step = table_rows(log, table)
    index = RangeSelection(column_ranges(query, table))
    index.add_many(np.array(ids, np.int64), parameters)
    arrays = {c.name: np.array([row[c.name] for row in found], DTYPES[c.type]) for c in table.columns}
    places, owners = index.matching(arrays) if found else (np.zeros(0, np.int64), np.zeros(0, np.int64))
    by_subscription: dict[int, list[dict[str, Any]]] = {number: [] for number in ids}
    for place, owner in zip(places.tolist(), owners.tolist(), strict=True):
        by_subscription[owner].append(found[place])
    return by_subscription, step


class RowHearing:
    """How to listen to a query for everything in a range."""

    def __init__(self, query: CreateQuery, table: CreateTable) -> None:
        self._query, self._table = query, table
        self.extractor = DeliveryExtractor(query.name)

    def begin(
        self, log: Log, numbers: Sequence[int], parameters: Mapping[str, Any]
    ) -> list[tuple[Listener, list[Any]]]:
        """See `Hearing.begin`."""
        # The end first: what is published between the two reads has been counted in, and is known by its step.
        end = log.end()
        found, step = current_rows(log, self._query, self._table, numbers, parameters)
        start = Position(end, mark=step)
        return [(Listener(start), [*current_changes(found[number], start)]) for number in numbers]

    def resume(
        self, log: Log, numbers: Sequence[int], parameters: Mapping[str, Any], position: Position
    ) -> list[Listener]:
        """See `Hearing.resume`."""
        return [Listener(position) for _ in numbers]

    def change(self, what: Mapping[str, Any], position: Position) -> RowChange:
        """See `Hearing.change`."""
        return row_change(what, position)
