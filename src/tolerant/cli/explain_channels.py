"""`tolerant explain` of a query for everything in a range: who shares a channel, what that saves, and a picture."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import typer
from rich.table import Table

from tolerant.cli.reporting import CommandError
from tolerant.cli.text import Screen, shown, visible
from tolerant.client import load_catalogue
from tolerant.sql.statements import RangeSelect
from tolerant.transport import Log
from tolerant.transport.records import read_json
from tolerant.transport.topics import status_topic

SHOWN = 15
"""Channels in the table: those with most members. JSON has more."""


def explain_channels(log: Log, name: str, as_json: bool, picture: Path | None) -> bool:
    """Explain the query's channels, if it has any; whether it does."""
    query = load_catalogue(log).queries.get(name)
    if query is None or not isinstance(query.select, RangeSelect):
        if query is not None and picture is not None:
            raise CommandError(f"there is no picture of query {name}: it has no channels")
        return False
    found = log.latest(status_topic(query.select.relation), f"channels/{name}/0")
    if found is None:
        raise CommandError(f"no pipeline has said anything about query {name} yet; is `tolerant run` running?")
    told = read_json(found.body, f"what is known of the channels of {name}")
    if told is None:
        raise CommandError(f"what the pipeline said about query {name} cannot be read")
    if picture is not None:
        draw(told, name, picture)
    if as_json:
        typer.echo(json.dumps({"query": name, **told}))
    else:
        _show(name, told, Screen())
        if picture is not None:
            typer.echo(visible(f"Ranges and channels are drawn in {picture}."))
    return True


def _show(name: str, told: dict[str, Any], console: Screen) -> None:
    prices = told["prices"]
    title = f"{shown(name)}: channel {prices['channel']:g}, transfer {prices['transfer']:g}, waste {prices['waste']:g}"
    columns = shown(" × ".join(told["columns"]))
    table = Table("channel", "members", f"region ({columns})", "rows per period", "wasted", "saves", title=title)
    for one in [one for one in told["largest"] if one["members"] > 1][:SHOWN]:
        table.add_row(
            str(one["channel"]) if one["channels"] == 1 else f"{one['channels']} pieces",
            f"{one['members']:,}",
            _region(one["regions"]),
            f"{one['rows']:,.1f}",
            f"{one['in_vain']:,.1f}",
            f"{one['saves']:,.1f}",
        )
    if table.row_count:
        console.print(table)
    console.print(
        f"{told['subscriptions']:,} subscriptions on {told['channels']:,} channels, {told['shared']:,} of them shared "
        f"(procedure {shown(prices['procedure'])})."
    )
    console.print(
        f"A period brings {told['rows_sent']:,.1f} rows on channels instead of {told['rows_apart']:,.1f} to each "
        f"subscriber apart; subscribers get {told['rows_in_vain']:,.1f} for nothing."
    )
    apart, cost = told["cost_apart"], told["cost"]
    share = f", {100 * (apart - cost) / apart:.1f} %" if apart else ""
    console.print(f"It costs {cost:,.1f} instead of {apart:,.1f}: sharing saves {apart - cost:,.1f}{share}.")
    bill = told["bill"]
    console.print(
        f"Of that {bill['channels']:,.1f} are for channels, {bill['transfer']:,.1f} for rows sent, "
        f"{bill['waste']:,.1f} for wasted rows."
    )
    if told["lower_bound"] is not None:
        console.print(f"No grouping can cost less than {told['lower_bound']:,.1f}.")
    console.print("(Estimates, from the rows seen so far.)")


def _region(regions: list[list[float]]) -> str:
    half = len(regions[0]) // 2
    low = [min(region[axis] for region in regions) for axis in range(half)]
    high = [max(region[half + axis] for region in regions) for axis in range(half)]
    text = " × ".join(f"{a:.6g}…{b:.6g}" for a, b in zip(low, high, strict=True))
    return text if len(regions) == 1 else f"{text} in {len(regions)} parts"


def draw(told: dict[str, Any], name: str, path: Path) -> None:
    """A picture of the ranges, in the colour of their channels, and of what the channels carry."""
    from matplotlib import colormaps
    from matplotlib.figure import Figure  # slow to import
    from matplotlib.patches import Rectangle

    figure = Figure(figsize=(8, 6.5), layout="constrained")
    axes = figure.add_subplot()
    colours = colormaps["tab20"]
    for channel, *ends in told["rectangles"]:
        x, y, width, height = _placed(ends)
        colour = "0.7" if channel < 0 else colours(channel % 20)
        axes.add_patch(Rectangle((x, y), width, height, fill=False, edgecolor=colour, linewidth=0.6, alpha=0.7))
    for one in told["largest"]:
        if one["members"] > 1:
            for ends in one["regions"]:
                x, y, width, height = _placed(ends)
                colour = colours(one["channel"] % 20)
                axes.add_patch(Rectangle((x, y), width, height, facecolor=colour, edgecolor=colour, alpha=0.12))
                axes.add_patch(Rectangle((x, y), width, height, fill=False, edgecolor=colour, linewidth=1.4))
    axes.autoscale_view()
    # A name may hold a dollar sign.
    axes.set_xlabel(told["columns"][0], parse_math=False)
    axes.set_ylabel(told["columns"][1] if len(told["columns"]) > 1 else "", parse_math=False)
    axes.set_title(
        f"{name}: {told['subscriptions']:,} subscriptions on {told['channels']:,} channels, "
        f"{told['shared']:,} shared (filled); grey: a channel of its own",
        fontsize=10,
        parse_math=False,
    )
    figure.savefig(path, dpi=150)


def _placed(ends: list[float]) -> tuple[float, float, float, float]:
    """Corner, width and height; a range of one column is as high as 1."""
    if len(ends) == 2:
        return ends[0], 0.0, ends[1] - ends[0], 1.0
    x1, y1, x2, y2 = ends
    return x1, y1, x2 - x1, y2 - y1
