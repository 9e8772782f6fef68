"""`tolerant dead STREAM`: the rows that could not be used, and why."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from tolerant.cli.options import DEFAULT_LOG, Json, LogUri, existing_log
from tolerant.transport import rows

SHOWN = ("at", "source", "kind", "key", "value", "reason")


def dead(
    stream: Annotated[str, typer.Argument(help="The stream whose rows are meant.")],
    log: LogUri = DEFAULT_LOG,
    as_json: Json = False,
) -> None:
    """Show the rows that could not be used, with the reason."""
    with_log = existing_log(log)
    found = [row for entry in with_log.read(f"dead.{stream}") for row in rows.unpack(entry.payload).to_pylist()]
    if as_json:
        for row in found:
            typer.echo(json.dumps({**row, "payload": row["payload"].hex() if row["payload"] is not None else None}))
        return
    if not found:
        typer.echo(f"No row of {stream} was ever refused.")
        return
    table = Table(*SHOWN, title=f"{len(found)} rows of {stream} could not be used")
    for row in found:
        table.add_row(*(_text(name, row[name]) for name in SHOWN))
    Console().print(table)


def _text(name: str, value: object) -> str:
    if value is None:
        return "–"
    if name == "at" and isinstance(value, int):
        try:
            return datetime.fromtimestamp(value / 1e6, UTC).isoformat(sep=" ", timespec="milliseconds")
        except (ValueError, OverflowError, OSError):
            return f"{value} µs"  # a time that no calendar holds may well be why the row is here
    return str(value)
