"""`tolerant explain VIEW`: what bringing it up to date would take, table by table, against what it promises."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from rich.table import Table

from tolerant.cli.reporting import CommandError
from tolerant.cli.text import Screen, shown
from tolerant.sql import Catalogue, CreateQuery
from tolerant.transport import Log
from tolerant.transport.records import read_json, records_of
from tolerant.transport.topics import status_topic

Figures = dict[str, Any]
"""What the pipeline said of a view; see `spark.views.pipeline`."""

_VIEW = "view/"
_MOST_REFUSED = 10


@dataclass(frozen=True)
class ViewExplanation:
    """What its pipeline last said of a view."""

    figures: Figures

    def record(self) -> Figures:
        """For programs."""
        return self.figures

    def show(self) -> None:
        """For people."""
        _show(self.figures)


def explained(log: Log, query: CreateQuery, catalogue: Catalogue) -> ViewExplanation:
    """The explanation of a view.

    Raises:
        CommandError: nothing has been said of it yet.
    """
    figures = view_figures(log, str(query.select.pipeline), query.name)
    if figures is None:
        raise CommandError(f"no pipeline has said anything about the view {query.name} yet; is `tolerant run` running?")
    return ViewExplanation(figures)


def view_figures(log: Log, home: str, name: str) -> Figures | None:
    """What the pipeline `home` last said of a view."""
    record = log.latest(status_topic(home), f"{_VIEW}{name}")
    if record is None:
        return None
    figures = read_json(record.body, f"what is known of the view {name}")
    return figures if isinstance(figures, dict) and "refused" not in figures else None


def refused_views(log: Log, home: str, catalogue: Catalogue) -> dict[str, str]:
    """The views that the pipeline `home` has refused last and that nobody has created again, each with the reason."""
    refused: dict[str, str] = {}
    for key, _, body in records_of(log, status_topic(home)):
        if key.startswith(_VIEW):
            name = key.removeprefix(_VIEW)
            refused.pop(name, None)
            figures = read_json(body, f"what is known of the view {name}")
            if isinstance(figures, dict) and isinstance(figures.get("refused"), str) and name not in catalogue.queries:
                refused[name] = figures["refused"]
    return dict(list(refused.items())[-_MOST_REFUSED:])


def views_of(catalogue: Catalogue, home: str) -> list[str]:
    """The views that the pipeline `home` keeps."""
    pipelines = {name: query.select.pipeline for name, query in catalogue.queries.items()}
    return sorted(name for name, pipeline in pipelines.items() if pipeline.views and str(pipeline) == home)


def view_line(figures: Figures) -> str:
    """How a view is, in a line."""
    pending = ", ".join(f"{table['pending']:,} of {shown(table['table'])}" for table in figures["tables"])
    text = (
        f"{figures['groups']:,} groups; pending {pending}: {figures['work']:.2f} s of {figures['within']:g} s promised;"
        f" {figures['pushes']:,} pushes, {figures['refreshes']:,} refreshes, {figures['misses']:,} of them late"
    )
    if figures["refreshes"] or figures["notices"]:
        text += f", the slowest took {figures['slowest']:.2f} s"
    if figures.get("when"):
        text += f"; its condition became true {figures['notices']:,} times"
    if figures["needs"] is None or figures["needs"] > figures["within"]:
        least = "no time" if figures["needs"] is None else f"less than {figures['needs']:.2f} s"
        text += f"; [red]{least} can be promised for all of {figures['shared_by']:,} views at once any more[/red]"
    grown = [shown(table["table"]) for table in figures["tables"] if table["outgrown"]]
    return text + (f"; [red]pushing {', '.join(grown)} has come to take longer than is promised[/red]" if grown else "")


def _show(figures: Figures) -> None:
    console = Screen()
    table = Table(
        "table", "pending", "setup", "a row", "takes now", title=f"{shown(figures['view'])}: {figures['within']:g} s"
    )
    for entry in figures["tables"]:
        takes = entry["setup"] + entry["slope"] * entry["pending"] if entry["pending"] else 0.0
        table.add_row(
            shown(entry["table"]) + (" (outgrown)" if entry["outgrown"] else ""),
            f"{entry['pending']:,}",
            f"{entry['setup']:.3f} s",
            f"{1000 * entry['slope']:.3g} ms",
            f"{takes:.3f} s",
        )
    console.print(table)
    console.print(
        f"A refresh may take {figures['limit']:.2f} s, of which pushing {figures['working_limit']:.2f} s for now, so"
        f" that all {figures['shared_by']:,} views of this process can be asked for at once while something that takes"
        f" {figures['piece']:.2f} s is under way; with few changes it takes {figures['floor']:.2f} s."
    )
    if figures.get("when"):
        state = "holds" if figures["holds"] else "does not hold"
        console.print(f"Brought up to date when {shown(figures['when'])}, which {state} as of the last push.")
    console.print(view_line(figures))
