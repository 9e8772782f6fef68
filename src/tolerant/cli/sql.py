"""`tolerant sql STATEMENT`: register, alter or drop while it runs; SHOW what there is."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from tolerant.cli.local import carry_out
from tolerant.cli.options import DEFAULT_LOG, Json, LogUri, Timeout, existing_log
from tolerant.cli.reporting import CommandError, wrong_call
from tolerant.cli.statement_output import submit
from tolerant.cli.text import Screen, visible
from tolerant.client import Reply, StatementClient
from tolerant.client.missing_replies import why_no_reply
from tolerant.sql import LocalStatement, Statement
from tolerant.sql.catalogue import UNCHANGED

TIMEOUT = 30.0
"""Seconds that a reply is waited for: a pipeline that has just been started needs some twenty to take its first row."""


def sql(
    text: Annotated[str, typer.Argument(metavar="STATEMENT", help="One or more statements, separated by semicolons.")],
    log: LogUri = DEFAULT_LOG,
    as_json: Json = False,
    timeout: Timeout = TIMEOUT,
) -> None:
    """Send a statement to the running pipeline and wait for its reply."""
    with_log = existing_log(log)
    try:
        client = StatementClient(with_log)
        statements = client.parse(text)
        if not statements:
            wrong_call('there is no statement in the text; try: tolerant sql "SHOW QUERIES"')
        for statement in statements:
            if isinstance(statement, LocalStatement):
                carry_out(with_log, statement, as_json)
            else:
                _tell(statement, _settle(client, statement, timeout), as_json)
    finally:
        with_log.close()


def _settle(client: StatementClient, statement: Statement, timeout: float) -> Reply:
    changed = client.missing([statement])
    if not changed:
        left = client.catalogue().apply(statement).message
        return Reply(True, left if left != UNCHANGED else f"{UNCHANGED}: the log holds it already")
    sent = submit(client, changed[0])
    with Screen(stderr=True).status("Waiting for the pipeline"):
        reply = client.reply_to(sent, timeout)
    if reply is None:
        raise CommandError(why_no_reply(client.log, sent.position, timeout))
    return reply


def _tell(statement: Statement, reply: Reply, as_json: bool) -> None:
    if as_json:
        typer.echo(json.dumps({"name": statement.about, "accepted": reply.accepted, "message": reply.message}))
    elif reply.accepted:
        typer.echo(visible(reply.message))
    if not reply.accepted:
        raise CommandError(f"refused: {reply.message}")
