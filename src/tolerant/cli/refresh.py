"""`tolerant refresh VIEW`: bring a view up to date and show it, with the time that took and the time promised."""

from __future__ import annotations

import json
from typing import Annotated

import typer
from rich.table import Table

from tolerant.cli.options import DEFAULT_LOG, Json, LogUri, Timeout, existing_log
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
    timeout: Timeout = TIMEOUT,
) -> None:
    """Bring a view up to date, show it, and say how long that took against what is promised."""
    with_log = existing_log(log)
    try:
        refreshed = Client(with_log).refresh(view, timeout=timeout)
    except NotAnswered as error:
        raise CommandError(str(error)) from error
    finally:
        with_log.close()
    if as_json:
        typer.echo(json.dumps(_record(view, refreshed)))
    else:
        _show(view, refreshed)


def _record(view: str, refreshed: Refreshed) -> dict[str, object]:
    return {
        "view": view,
        "at": refreshed.view.at,
        "seconds": refreshed.seconds,
        "within": refreshed.within,
        "took": refreshed.took,
        "waited": refreshed.waited,
        "kept": refreshed.kept,
        "late": refreshed.late,
        "changes": refreshed.changes,
        "rows": list(refreshed.view.rows),
    }


def _show(view: str, refreshed: Refreshed) -> None:
    console = Screen()
    table = Table(*map(shown, refreshed.view.columns), title=shown(view))
    for row in refreshed.view.rows[:SHOWN]:
        table.add_row(*("NULL" if value is None else shown(value) for value in row.values()))
    if len(refreshed.view.rows) > SHOWN:
        table.add_row(*([f"… {len(refreshed.view.rows) - SHOWN:,} more"] + [""] * (len(refreshed.view.columns) - 1)))
    console.print(table)
    pushed = ", ".join(f"{rows:,} changes of {shown(name)}" for name, rows in refreshed.changes.items() if rows)
    kept = "in time" if refreshed.kept else f"[red]late by {refreshed.late:.2f} s[/red]"
    waited = max(0.0, refreshed.waited)
    worked = f"{max(0.0, refreshed.took - refreshed.waited):.2f} s of work after {waited:.2f} s of waiting"
    console.print(
        f"{pushed or 'no changes'}; {refreshed.seconds:.2f} s of {refreshed.within:g} s promised, {kept} ({worked})"
    )
