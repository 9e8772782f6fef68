"""Statements on their way into the log, with what they bring along: rows of files, subscriptions by the file."""

from __future__ import annotations

from pathlib import Path

from rich.console import Console

from tolerant.cli.reporting import CommandError
from tolerant.client import Sent, send, send_subscription, standing
from tolerant.edge import load_table
from tolerant.sql import Catalogue, CreateQuery, CreateTable, Statement, Subscribe, Unsubscribe, relations
from tolerant.sql.statements import AggregateSelect
from tolerant.transport import Log


def submit(log: Log, statement: Statement, folder: Path | str = ".") -> Sent:
    """Append a statement that has been checked. Paths of files start at `folder`; rows of theirs that cannot be used
    are told on standard error, the others count.
    """
    if isinstance(statement, Subscribe | Unsubscribe):
        done = send_subscription(log, statement, folder)
        if statement.uri is not None:
            _tell(f"{statement.kind} {statement.name}: {done.rows:,} from {statement.uri}", done.refused, done.reasons)
        if done.refused and not done.rows:
            raise CommandError(f"no row of {statement.uri} could be used")
        return done.sent
    for table in _tables_to_load(log, statement):
        loaded = load_table(log, table, Path(folder) / str(table.uri))
        _tell(f"table {table.name}: {loaded.inserted:,} rows from {table.uri}", loaded.refused, loaded.reasons)
    return send(log, statement)


def _tables_to_load(log: Log, statement: Statement) -> list[CreateTable]:
    """The tables of files that a query for rows is the first to need. A table of weights alone is never loaded."""
    if not isinstance(statement, CreateQuery) or isinstance(statement.select, AggregateSelect):
        return []
    catalogue = standing(log)
    tables = [catalogue.tables[name] for name in relations(statement.select) if name in catalogue.tables]
    return [table for table in tables if table.uri is not None and not _is_needed(table.name, catalogue)]


def _is_needed(table: str, catalogue: Catalogue) -> bool:
    return any(not isinstance(query.select, AggregateSelect) for query in catalogue.queries_over(table))


def _tell(done: str, refused: int, reasons: tuple[tuple[int, str], ...]) -> None:
    console = Console(stderr=True)
    console.print(done + (f", {refused:,} refused:" if refused else ""))
    for row, reason in reasons:
        console.print(f"  row {row}: {reason}")
    if refused > len(reasons) > 0:
        console.print(f"  and {refused - len(reasons):,} more")
