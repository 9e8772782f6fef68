"""A SELECT over a table's rows, asked once: the rows are read from the log, and judged here."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from tolerant.client.deliveries import table_rows
from tolerant.client.statements import standing
from tolerant.sql import Catalogue, CreateTable, Drop, SelectRows, StatementError, home_of, parse
from tolerant.sql.wire import statements_in
from tolerant.transport import Log, rows
from tolerant.transport.changes import read_changes, topic_of
from tolerant.transport.log import QUERIES, START

Row = dict[str, Any]

_ENTRIES = 100  # that are read at a time


@dataclass(frozen=True)
class SelectedRows:
    """What a SELECT gave. `at`: the event time up to which the pipeline had applied changes, microseconds; None: no
    pipeline keeps the table's rows, and every change in the log has been counted in.
    """

    columns: tuple[str, ...]
    rows: tuple[Row, ...]
    at: int | None


def select_rows(log: Log, text: str) -> SelectedRows:
    """What a SELECT over a table gives now.

    Raises:
        StatementError: it is none, there is no such table, or it asks for more than a SELECT over rows can.
    """
    catalogue = standing(log)
    statement = parse(text, catalogue)
    if not isinstance(statement, SelectRows):
        raise StatementError("expected a SELECT over a table", expected="SELECT", found=statement.kind.upper())
    return run_select(log, statement, catalogue)


def run_select(log: Log, statement: SelectRows, catalogue: Catalogue) -> SelectedRows:
    """Carry out a SELECT that has been checked against the catalogue."""
    from tolerant.sql.row_selects import read_select  # it needs sqlglot, which those who only listen do not

    table = catalogue.tables[statement.name]
    select = read_select(statement.sql, table)
    found, at = current_table_rows(log, table, catalogue)
    return SelectedRows(select.columns, tuple(select.run(found)), at)


def current_table_rows(log: Log, table: CreateTable, catalogue: Catalogue) -> tuple[list[Row], int | None]:
    """The rows of a table, by key: as its pipeline has them and up to when, or all changes of the log, and None."""
    kept = any(home_of(query.select) == table.name for query in catalogue.queries.values())
    said = log.latest(f"status.{table.name}", "summary/0") if kept else None
    if said is None:
        return _folded(log, table), None
    horizon = json.loads(said.body)["horizon"]  # first: the rows are at least of then
    return table_rows(log, table)[0], horizon


def _folded(log: Log, table: CreateTable) -> list[Row]:
    """The last change of each key, in the order (event time, sequence) in which a pipeline applies them."""
    newest: dict[str, tuple[int, int, Row | None]] = {}
    position = _begin(log, table.name)
    while entries := log.read(topic_of(table.name), position, limit=_ENTRIES):
        position = entries[-1].position
        for entry in entries:
            try:
                changes = read_changes(rows.unpack(entry.payload), table.columns).changes
            except ValueError:
                continue  # a dead letter to a pipeline
            columns = (changes.columns[column.name].tolist() for column in table.columns)
            parts = (changes.keys.tolist(), changes.at.tolist(), changes.sequence.tolist(), changes.insert.tolist())
            for key, at, sequence, insert, *values in zip(*parts, *columns, strict=True):
                if key not in newest or (at, sequence) >= newest[key][:2]:
                    row = {column.name: value for column, value in zip(table.columns, values, strict=True)}
                    newest[key] = (at, sequence, row if insert else None)
    return [row for _, (_, _, row) in sorted(newest.items()) if row is not None]


def _begin(log: Log, table: str) -> int:
    """Where the changes of the table that there is now begin: behind the DROP of the one before it."""
    catalogue, position = Catalogue(), START
    for entry in log.read(QUERIES):
        for statement in statements_in(entry.payload):
            changed = catalogue.apply(statement).changed
            if changed and isinstance(statement, Drop) and statement.what == "table" and statement.name == table:
                position = entry.position
    return position
