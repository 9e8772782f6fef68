"""`tolerant plan QUERY`: who answers which part of a query over a network, and how precisely; printed and drawn."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table

from tolerant.cli.options import DEFAULT_LOG, Json, LogUri, existing_log
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
    picture: Annotated[
        Path | None, typer.Option(metavar="FILE", help="The PNG file to draw it into; default: QUERY.plan.png.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Print and draw a query's plan, beside the naive plan: aggregators, items, bounds, expected refreshes."""
    with_log = existing_log(log)
    try:
        _, groups = planned(with_log, query)
    finally:
        with_log.close()
    if as_json:
        typer.echo(json.dumps([one.record() for one in groups]))
    else:
        for one in groups:
            show_plan(Screen(), one)
    if picture is not None or not as_json:
        file = picture or Path(f"{query}.plan.png")
        draw(groups, file)
        Screen(stderr=True).print(f"Drawn in {shown(file)}.")


def show_plan(console: Screen, one: Planned) -> None:
    """A group's plan as a table."""
    name = shown(one.query.name.partition("\x00")[0] + (f" {one.group}" if one.group else ""))
    if one.plan is None:
        console.print(f"[bold]{name}[/bold]: WITHIN {one.query.within:g} cannot be planned: {shown(one.refused)}")
        return
    table = Table(
        "aggregator", "items", "within", "copies alone", "sent after", "refreshes/h", "cancels",
        title=f"{name}: WITHIN {one.query.within:g}",
    )  # fmt: skip
    told, apart = one.explained(), one.explained_naive()
    for part in told:
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
    ours, theirs = total(told), total(apart)
    if ours is None or theirs is None:
        console.print("Nothing is known yet of how the items move: expected refreshes come with the first reports.")
    else:
        saved = f": {1 - ours / theirs:.0%} fewer" if theirs > 0 and ours < theirs else ""
        console.print(
            f"{len(told)} parts, about {ours:.3g} refreshes an hour; "
            f"naive, an item each: {len(apart)} parts, about {theirs:.3g}{saved}."
        )


def _rate(refreshes: float | None) -> str:
    return "–" if refreshes is None else f"{refreshes:.3g}"


def draw(groups: list[Planned], file: Path) -> None:
    """Draw the plans, each beside the naive one: a bar a part, its bound, and how much of it is its copies' alone."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    shown = [one for one in groups if one.plan is not None][:_DRAWN] or groups[:1]
    tallest = max(max(len(one.explained()), len(one.explained_naive()), 1) for one in shown)
    figure, panels = plt.subplots(
        len(shown), 2, figsize=(11, len(shown) * (1.2 + 0.4 * tallest)), squeeze=False, sharex="row"
    )
    for (left, right), one in zip(panels, shown, strict=True):
        name = one.query.name.partition("\x00")[0] + (f" {one.group}" if one.group else "")
        _draw(left, one.explained(), f"{name} WITHIN {one.query.within:g}: the plan")
        _draw(right, one.explained_naive(), "naive: every item apart")
    figure.tight_layout()
    figure.savefig(file, dpi=110)
    plt.close(figure)


def _draw(panel: Axes, told: tuple[PartExplanation, ...], title: str) -> None:
    rows = range(len(told))
    panel.barh(rows, [one.bound for one in told], color="#9ecae1", label="within")
    panel.barh(rows, [one.floor for one in told], color="#3182bd", label="its copies alone")
    panel.set_yticks(
        list(rows), [f"{one.aggregator}: {_short(one.items)}" for one in told], fontsize=8, parse_math=False
    )
    for row, one in enumerate(told):
        panel.text(one.bound, row, f" {_rate(one.refreshes)}/h", va="center", fontsize=8)
    hourly = total(told)
    panel.set_title(
        title if hourly is None else f"{title}, about {hourly:.3g} refreshes an hour", fontsize=9, parse_math=False
    )
    panel.margins(x=0.25)
    panel.invert_yaxis()
    if told:
        panel.legend(loc="lower right", fontsize=7)


def _short(items: tuple[str, ...]) -> str:
    return ", ".join(items[:5]) + (f", … ({len(items)})" if len(items) > 5 else "")
