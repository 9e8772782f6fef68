"""`tolerant plan QUERY`: who answers which part of a query over a network, and how precisely; printed and drawn."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table

from tolerant.cli.extras import install_command, missing_modules, need_extra
from tolerant.cli.options import DEFAULT_LOG, Json, LogUri, Picture, existing_log
from tolerant.cli.plan_tables import Planned, planned, total
from tolerant.cli.text import Screen, shown

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from tolerant.planning import PartExplanation

_DRAWN = 6
"""Groups in the picture."""


def plan(
    query: Annotated[str, typer.Argument(help="The query, over a stream FROM 'network.toml'.")],
    log: LogUri = DEFAULT_LOG,
    picture: Picture = None,
    as_json: Json = False,
) -> None:
    """Print and draw a query's plan, beside the naive plan: aggregators, items, bounds, expected refreshes.

    The picture is QUERY.plan.png, unless --picture names another.
    """
    if picture is not None:
        need_extra("pictures", "a picture")
    with_log = existing_log(log)
    try:
        _, groups = planned(with_log, query)
    finally:
        with_log.close()
    if as_json:
        typer.echo(json.dumps([group.record() for group in groups]))
    else:
        for group in groups:
            show_plan(Screen(), group)
    if picture is None and as_json:
        return
    console = Screen(stderr=True)
    if picture is None and missing_modules("pictures"):
        console.print(f"Not drawn: a picture needs {install_command('pictures')}", markup=False)
        return
    file = picture or Path(f"{query}.plan.png")
    draw(groups, file)
    console.print(f"Drawn in {shown(file)}.")


def show_plan(console: Screen, planned: Planned) -> None:
    """A group's plan as a table."""
    name = shown(planned.query.name.partition("\x00")[0] + (f" {planned.group}" if planned.group else ""))
    if planned.plan is None:
        console.print(
            f"[bold]{name}[/bold]: WITHIN {planned.query.within:g} cannot be planned: {shown(planned.refused)}"
        )
        return
    table = Table(
        "aggregator", "items", "within", "copies alone", "sent after", "refreshes/h", "cancels",
        title=f"{name}: WITHIN {planned.query.within:g}",
    )  # fmt: skip
    explained, apart = planned.explained(), planned.explained_naive()
    for part in explained:
        table.add_row(
            shown(part.aggregator),
            shown(", ".join(part.items)),
            f"{part.bound:.4g}",
            f"{part.floor:.4g}",
            f"{part.push:.4g}",
            _rate(part.refreshes),
            f"{part.cancelled:.0%}",
        )
    console.print(table)
    ours, theirs = total(explained), total(apart)
    if ours is None or theirs is None:
        console.print("Nothing is known yet of how the items move: expected refreshes come with the first reports.")
    else:
        saved = f": {1 - ours / theirs:.0%} fewer" if theirs > 0 and ours < theirs else ""
        console.print(
            f"{len(explained)} parts, about {ours:.3g} refreshes an hour; "
            f"naive, an item each: {len(apart)} parts, about {theirs:.3g}{saved}."
        )


def _rate(refreshes: float | None) -> str:
    return "–" if refreshes is None else f"{refreshes:.3g}"


def draw(groups: list[Planned], file: Path) -> None:
    """Draw the plans, each beside the naive one: a bar a part, its bound, and how much of it is its copies' alone."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    shown = [group for group in groups if group.plan is not None][:_DRAWN] or groups[:1]
    tallest = max(max(len(group.explained()), len(group.explained_naive()), 1) for group in shown)
    figure, panels = plt.subplots(
        len(shown), 2, figsize=(11, len(shown) * (1.2 + 0.4 * tallest)), squeeze=False, sharex="row"
    )
    for (left, right), group in zip(panels, shown, strict=True):
        name = group.query.name.partition("\x00")[0] + (f" {group.group}" if group.group else "")
        _draw(left, group.explained(), f"{name} WITHIN {group.query.within:g}: the plan")
        _draw(right, group.explained_naive(), "naive: every item apart")
    figure.tight_layout()
    figure.savefig(file, dpi=110)
    plt.close(figure)


def _draw(panel: Axes, parts: tuple[PartExplanation, ...], title: str) -> None:
    rows = range(len(parts))
    panel.barh(rows, [part.bound for part in parts], color="#9ecae1", label="within")
    panel.barh(rows, [part.floor for part in parts], color="#3182bd", label="its copies alone")
    panel.set_yticks(
        list(rows), [f"{part.aggregator}: {_short(part.items)}" for part in parts], fontsize=8, parse_math=False
    )
    for row, part in enumerate(parts):
        panel.text(part.bound, row, f" {_rate(part.refreshes)}/h", va="center", fontsize=8)
    hourly = total(parts)
    panel.set_title(
        title if hourly is None else f"{title}, about {hourly:.3g} refreshes an hour", fontsize=9, parse_math=False
    )
    panel.margins(x=0.25)
    panel.invert_yaxis()
    if parts:
        panel.legend(loc="lower right", fontsize=7)


def _short(items: tuple[str, ...]) -> str:
    return ", ".join(items[:5]) + (f", … ({len(items)})" if len(items) > 5 else "")
