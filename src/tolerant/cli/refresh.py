"""`tolerant refresh VIEW`: bring a view up to date and show it, with the time that took and the time promised."""

from __future__ import annotations

import json
from typing import Annotated

import typer
from rich.table import Table

from tolerant.cli.options import DEFAULT_LOG, Json, LogUri, existing_log
from tolerant.cli.reporting import CommandError
from tolerant.cli.sql import TIMEOUT
from tolerant.cli.text import Screen, shown
from tolerant.client import Client, NotAnswered, Refreshed

SHOWN = 40
"""Rows in the table. JSON has all."""


def refresh(
    view: Annotated[str, typer.Argument(help="The view.")],
    log: LogUri = DEFAULT_LOG,
    as_json: Json = False,
    timeout: Annotated[float, typer.Option(min=0.0, help="Seconds to wait for it.")] = TIMEOUT,
) -> None:
    """Bring a view up to date, show it, and say how long that took against what is promised."""
    with_log = existing_log(log)
    try:
        found = Client(with_log).refresh(view, timeout=timeout)
    except NotAnswered as error:
        raise CommandError(str(error)) from error
    finally:
        with_log.close()
    if as_json:
        typer.echo(json.dumps(_record(view, found)))
    else:
        _show(view, found)


def _record(view: str, found: Refreshed) -> dict[str, object]:
    return {
        "view": view,
        "at": found.view.at,
        "seconds": found.seconds,
        "within": found.within,
        "took": found.took,
        "waited": found.waited,
        "kept": found.kept,
        "late": found.late,
        "changes": found.changes,
        "rows": list(found.view.rows),
    }


def _show(view: str, found: Refreshed) -> None:
    console = Screen()
    table = Table(*map(shown, found.view.columns), title=shown(view))
    for row in found.view.rows[:SHOWN]:
        table.add_row(*("NULL" if value is None else shown(value) for value in row.values()))
    if len(found.view.rows) > SHOWN:
        table.add_row(*([f"… {len(found.view.rows) - SHOWN:,} more"] + [""] * (len(found.view.columns) - 1)))
    console.print(table)
    pushed = ", ".join(f"{rows:,} changes of {shown(name)}" for name, rows in found.changes.items() if rows)
    kept = "in time" if found.kept else f"[red]late by {found.late:.2f} s[/red]"
    worked = f"{max(0.0, found.took - found.waited):.2f} s of work after {max(0.0, found.waited):.2f} s of waiting"
    console.print(f"{pushed or 'no changes'}; {found.seconds:.2f} s of {found.within:g} s promised, {kept} ({worked})")
