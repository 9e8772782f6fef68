"""`tolerant sql STATEMENT`: register, alter or drop while it runs; SHOW what there is."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from tolerant.cli.options import DEFAULT_LOG, Json, LogUri, any_log
from tolerant.cli.reporting import CommandError, wrong_call
from tolerant.cli.sending import submit
from tolerant.client import Reply, missing, read, reply_to, standing
from tolerant.sql import Catalogue, Show, Statement
from tolerant.transport import Log

TIMEOUT = 30.0
"""Seconds that a reply is waited for: a pipeline that has just been started needs some twenty to take its first row."""


def sql(
    text: Annotated[str, typer.Argument(metavar="STATEMENT", help="One or more statements, separated by semicolons.")],
    log: LogUri = DEFAULT_LOG,
    as_json: Json = False,
    timeout: Annotated[float, typer.Option(min=0.0, help="Seconds to wait for the reply.")] = TIMEOUT,
) -> None:
    """Send a statement to the running pipeline and wait for its reply."""
    with_log = any_log(log)
    try:
        statements = read(with_log, text)
        if not statements:
            wrong_call('there is no statement in the text; try: tolerant sql "SHOW QUERIES"')
        for statement in statements:
            if isinstance(statement, Show):
                _show(standing(with_log), statement, as_json)
            else:
                _tell(statement, _settle(with_log, statement, timeout), as_json)
    finally:
        with_log.close()


def _settle(log: Log, statement: Statement, timeout: float) -> Reply:
    changed = missing(log, [statement])
    if not changed:
        return Reply(True, "unchanged: the log holds it already")
    sent = submit(log, changed[0])
    with Console(stderr=True).status("Waiting for the pipeline"):
        reply = reply_to(log, sent, timeout)
    if reply is None:
        raise CommandError(
            f"no reply within {timeout:g} s: nobody runs this; the statement stands in the log and takes effect "
            "when `tolerant run` is started on it"
        )
    return reply


def _tell(statement: Statement, reply: Reply, as_json: bool) -> None:
    if as_json:
        typer.echo(json.dumps({"name": statement.about, "accepted": reply.accepted, "message": reply.message}))
    elif reply.accepted:
        typer.echo(reply.message)
    if not reply.accepted:
        raise CommandError(f"refused: {reply.message}")


def _show(catalogue: Catalogue, show: Show, as_json: bool) -> None:
    texts = catalogue.show(show)
    held: dict[str, Iterable[str]] = {
        "streams": catalogue.streams,
        "tables": catalogue.tables,
        "queries": catalogue.queries,
    }
    names = sorted(held[show.what])  # as `show` sorts them
    if as_json:
        typer.echo(json.dumps([{"name": name, "statement": text} for name, text in zip(names, texts, strict=True)]))
        return
    if not texts:
        typer.echo(f"There are no {show.what}.")
        return
    table = Table("name", "statement")
    for name, text in zip(names, texts, strict=True):
        table.add_row(name, text)
    Console().print(table)
