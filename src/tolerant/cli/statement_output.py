"""Statements on their way into the log, with what they bring along: rows of files, subscriptions by the file."""

from __future__ import annotations

from pathlib import Path

from tolerant.cli.reporting import CommandError
from tolerant.cli.text import Screen, shown
from tolerant.client import Sent, StatementClient
from tolerant.edge import Loaded, load_lookup, load_table
from tolerant.sql import Catalogue, CreateQuery, CreateTable, Statement, Subscribe, Unsubscribe
from tolerant.transport import Log


def submit(client: StatementClient, statement: Statement, folder: Path | str = ".") -> Sent:
    """Append a statement that has been checked. Paths of files start at `folder`; rows of theirs that cannot be used
    are told on standard error, the others count.
    """
    if isinstance(statement, Subscribe | Unsubscribe):
        done = client.send_subscription(statement, folder)
        if statement.uri is not None:
            _tell(f"{statement.kind} {statement.name}: {done.rows:,} from {statement.uri}", done.refused, done.reasons)
        if done.refused and not done.rows:
            raise CommandError(f"no row of {statement.uri} could be used")
        return done.sent
    for table in _tables_to_load(client.catalogue(), statement):
        loaded = _load(client.log, statement, table, Path(folder) / str(table.uri))
        _tell(f"table {table.name}: {loaded.inserted:,} rows from {table.uri}", loaded.refused, loaded.reasons)
    return client.send(statement)


def _load(log: Log, statement: Statement, table: CreateTable, path: Path) -> Loaded:
    digest = _digest(statement)
    return load_table(log, table, path) if digest is None else load_lookup(log, table, path, digest)


def _digest(statement: Statement) -> str | None:
    """Of a query that looks rows up the digest of its file."""
    return statement.select.file_digest if isinstance(statement, CreateQuery) else None


def _tables_to_load(catalogue: Catalogue, statement: Statement) -> list[CreateTable]:
    """The tables of files that a query for rows is the first to need. A table of weights alone is never loaded; one in
    which rows are looked up is for each query, as its file may have changed.
    """
    if not isinstance(statement, CreateQuery) or statement.select.aggregate is not None:
        return []
    tables = [catalogue.tables[name] for name in statement.select.relations if name in catalogue.tables]
    if _digest(statement) is not None:
        return [table for table in tables if table.uri is not None]
    return [table for table in tables if table.uri is not None and not _is_needed(table.name, catalogue)]


def _is_needed(table: str, catalogue: Catalogue) -> bool:
    over = catalogue.queries_over(table)
    return any(query.select.aggregate is None and _digest(query) is None for query in over)


def _tell(done: str, refused: int, reasons: tuple[tuple[int, str], ...]) -> None:
    console = Screen(stderr=True)
    console.print(shown(done) + (f", {refused:,} refused:" if refused else ""))
    for row, reason in reasons:
        console.print(f"  row {row}: {shown(reason)}")
    if refused > len(reasons) > 0:
        console.print(f"  and {refused - len(reasons):,} more")
