"""Statements that `tolerant sql` carries out itself: SHOW, INSERT, DELETE, and a SELECT that is asked once."""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Any

import typer
from rich.table import Table
from rich.text import Text

from tolerant.cli.reporting import CommandError, wrong_call
from tolerant.cli.text import Screen, visible
from tolerant.client import list_subscriptions, load_catalogue
from tolerant.client.row_select import run_select
from tolerant.edge import SourceError
from tolerant.edge import Table as RowsTable
from tolerant.sql import Catalogue, DeleteRows, InsertRows, LocalStatement, SelectRows, Show
from tolerant.streams import SECOND
from tolerant.transport import Log

PAGE = 100
"""Subscriptions that are shown where no LIMIT is given."""


def carry_out(log: Log, statement: LocalStatement, as_json: bool) -> None:
    """Do what the statement says, and print what came of it."""
    match statement:
        case Show(what="subscriptions"):
            _show_subscriptions(log, statement, as_json)
        case Show():
            _show(load_catalogue(log), statement, as_json)
        case SelectRows():
            _select(log, statement, as_json)
        case InsertRows() | DeleteRows():
            _change(log, statement, as_json)


def _show(catalogue: Catalogue, show: Show, as_json: bool) -> None:
    texts = catalogue.show(show)
    names_of: dict[str, Iterable[str]] = {
        "streams": catalogue.streams,
        "tables": catalogue.tables,
        "queries": catalogue.queries,
    }
    names = sorted(names_of[show.what])  # as `show` sorts them
    if as_json:
        typer.echo(json.dumps([{"name": name, "statement": text} for name, text in zip(names, texts, strict=True)]))
    elif texts:
        _print(("name", "statement"), zip(names, texts, strict=True))
    else:
        typer.echo(f"There are no {show.what}.")


def _show_subscriptions(log: Log, show: Show, as_json: bool) -> None:
    limit = PAGE if show.limit is None else show.limit
    page = list_subscriptions(log, show.name, limit, show.offset)
    names, ids = [statement.name for _, statement in page.statements], [number for number, _ in page.statements]
    listed = list(zip(names, ids, page.texts(), strict=True))
    if as_json:
        typer.echo(json.dumps([{"name": name, "id": number, "statement": text} for name, number, text in listed]))
        return
    if not page.total:
        typer.echo("There are no subscriptions.")
        return
    _print(("name", "id", "statement"), listed)
    shown = f"{show.offset + 1:,} to {show.offset + len(listed):,}" if listed else "none"
    typer.echo(f"{shown} of {page.total:,} subscriptions", err=True)
    if show.offset + len(listed) < page.total and listed:
        to = f" TO {show.name}" if show.name else ""
        text = f"next: SHOW SUBSCRIPTIONS{to} LIMIT {limit} OFFSET {show.offset + len(listed)}"
        typer.echo(visible(text), err=True)


def _select(log: Log, statement: SelectRows, as_json: bool) -> None:
    selected = run_select(log, statement, load_catalogue(log))
    if as_json:
        typer.echo(json.dumps(list(selected.rows)))
    else:
        _print(selected.columns, (row.values() for row in selected.rows))
    if selected.at is not None:
        when = datetime.fromtimestamp(selected.at / SECOND, UTC)
        typer.echo(f"as the pipeline had it at {when:%Y-%m-%d %H:%M:%S.%f} UTC", err=True)


def _change(log: Log, statement: InsertRows | DeleteRows, as_json: bool) -> None:
    from tolerant.sql.local_statements import deleted_keys, inserted_rows

    # A name for each process: two that insert at one time must not take each other for a restart.
    feeder = f"{socket.gethostname()}/sql/{os.getpid()}"
    try:
        with RowsTable(statement.name, log, feeder, timeout=0.0) as table:
            if isinstance(statement, InsertRows):
                rows = inserted_rows(statement, table.definition)
                table.insert_many(rows)
                message = f"{len(rows):,} {_plural('row', rows)} inserted into {statement.name}"
            else:
                keys = deleted_keys(statement, table.definition)
                for key in keys:
                    table.delete(key)
                message = f"{len(keys):,} {_plural('key', keys)} deleted from {statement.name}"
    except (ValueError, LookupError) as error:
        wrong_call(str(error))
    except SourceError as error:
        raise CommandError(str(error)) from error
    if as_json:
        typer.echo(json.dumps({"name": statement.name, "accepted": True, "message": message}))
    else:
        typer.echo(visible(message))


def _plural(word: str, things: Sequence[Any]) -> str:
    return word if len(things) == 1 else f"{word}s"


def _print(columns: Sequence[str], rows: Iterable[Iterable[Any]]) -> None:
    """A table of plain text: nothing in it is markup."""
    table = Table()
    for name in columns:
        table.add_column(Text(visible(name, keep="")))
    for row in rows:
        table.add_row(*(Text("NULL" if value is None else visible(value, keep="")) for value in row))
    Screen().print(table)
