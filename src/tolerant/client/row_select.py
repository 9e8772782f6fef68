"""Runs a SELECT once over a table's rows: reads them from the log, and evaluates the SELECT here."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tolerant.kinds.ranges.listener import table_rows
from tolerant.sql import Catalogue, CreateTable, Drop, PipelineId, SelectRows, StatementError, parse
from tolerant.sql.catalogue_reader import CatalogueReader, load_catalogue
from tolerant.transport import Log, rows
from tolerant.transport.changes import read_changes
from tolerant.transport.log import START
from tolerant.transport.records import read_json
from tolerant.transport.topics import changes_topic, status_topic

Row = dict[str, Any]

_ENTRIES = 100  # that are read at a time


@dataclass(frozen=True)
class SelectedRows:
    """The result of a SELECT. `at`: the event time up to which the pipeline had applied changes, microseconds; None: no
    pipeline keeps the table's rows, and every change in the log has been applied.
    """

    columns: tuple[str, ...]
    rows: tuple[Row, ...]
    at: int | None


def select_rows(log: Log, text: str) -> SelectedRows:
    """Run a SELECT over a table's current rows.

    Raises:
        StatementError: it is no SELECT, there is no such table, or it needs more than a SELECT over rows can do.
    """
    catalogue = load_catalogue(log)
    statement = parse(text, catalogue)
    if not isinstance(statement, SelectRows):
        raise StatementError("expected a SELECT over a table", expected="SELECT", found=statement.kind.upper())
    return run_select(log, statement, catalogue)


def run_select(log: Log, statement: SelectRows, catalogue: Catalogue) -> SelectedRows:
    """Run a SELECT that has been checked with the catalogue."""
    from tolerant.sql.row_selects import read_select  # imports sqlglot, which mere listeners do not need

    table = catalogue.tables[statement.name]
    select = read_select(statement.sql, table)
    current, at = current_table_rows(log, table, catalogue)
    return SelectedRows(select.columns, tuple(select.run(current)), at)


def current_table_rows(log: Log, table: CreateTable, catalogue: Catalogue) -> tuple[list[Row], int | None]:
    """Return the rows of a table, by key: those of its pipeline and its watermark, or else all changes of the log and
    None.
    """
    kept = any(str(PipelineId.of(query.select)) == table.name for query in catalogue.queries.values())
    record = log.latest(status_topic(table.name), "summary/0") if kept else None
    status = None if record is None else read_json(record.body, f"the status of {table.name}")
    watermark = status.get("watermark") if isinstance(status, dict) else None  # first: the rows are at least this new
    if not isinstance(watermark, int):
        return _folded(log, table), None
    return table_rows(log, table)[0], watermark


def _folded(log: Log, table: CreateTable) -> list[Row]:
    """Return the rows after all changes, in the order (event time, sequence) in which a pipeline applies them."""
    newest: dict[str, tuple[int, int, Row | None]] = {}
    position = _begin(log, table.name)
    while entries := log.read(changes_topic(table.name), position, limit=_ENTRIES):
        position = entries[-1].position
        for entry in entries:
            try:
                batch = rows.unpack(entry.payload, table.options.limits)
                changes = read_changes(batch, table.columns, table.options.max_key_length).changes
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
    """Return the position where the changes of the current table begin: after the DROP of an earlier one."""
    dropped = Drop("table", table)
    drops = (applied for applied in CatalogueReader(log).advance() if applied.outcome.changed)
    return max((applied.position for applied in drops if applied.statement == dropped), default=START)
