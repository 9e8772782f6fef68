"""`tolerant explain` of a query for everything in a range: who shares a channel, what that saves, and a picture."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.table import Table

from tolerant.cli.reporting import CommandError
from tolerant.cli.text import Screen, shown
from tolerant.kinds.ranges.select import RangeSelect
from tolerant.sql import Catalogue, CreateQuery
from tolerant.transport import Log
from tolerant.transport.records import read_json
from tolerant.transport.topics import status_topic

SHOWN = 15
"""Channels in the table: those with most members. JSON has more."""


@dataclass(frozen=True)
class ChannelExplanation:
    """What its pipeline last said of a query's channels."""

    query: str
    told: dict[str, Any]

    def record(self) -> dict[str, Any]:
        """For programs."""
        return {"query": self.query, **self.told}

    def show(self) -> None:
        """For people."""
        _show(self.query, self.told, Screen())

    def draw(self, path: Path) -> None:
        """Draws the ranges, in the colour of their channels, and what the channels carry."""
        _draw(self.told, self.query, path)


def explained(log: Log, query: CreateQuery, catalogue: Catalogue) -> ChannelExplanation:
    """The explanation of a query's channels."""
    name, select = query.name, RangeSelect.of(query)
    record = log.latest(status_topic(select.relation), f"channels/{name}/0")
    if record is None:
        raise CommandError(f"no pipeline has said anything about query {name} yet; is `tolerant run` running?")
    figures = read_json(record.body, f"what is known of the channels of {name}")
    if figures is None:
        raise CommandError(f"what the pipeline said about query {name} cannot be read")
    return ChannelExplanation(name, figures)


def _show(name: str, figures: dict[str, Any], console: Screen) -> None:
    prices = figures["prices"]
    title = f"{shown(name)}: channel {prices['channel']:g}, transfer {prices['transfer']:g}, waste {prices['waste']:g}"
    columns = shown(" × ".join(figures["columns"]))
    table = Table("channel", "members", f"region ({columns})", "rows per period", "wasted", "saves", title=title)
    for group in [group for group in figures["largest"] if group["members"] > 1][:SHOWN]:
        table.add_row(
            str(group["channel"]) if group["channels"] == 1 else f"{group['channels']} pieces",
            f"{group['members']:,}",
            _region(group["regions"]),
            f"{group['rows']:,.1f}",
            f"{group['in_vain']:,.1f}",
            f"{group['saves']:,.1f}",
        )
    if table.row_count:
        console.print(table)
    console.print(
        f"{figures['subscriptions']:,} subscriptions on {figures['channels']:,} channels, "
        f"{figures['shared']:,} of them shared "
        f"(procedure {shown(prices['procedure'])})."
    )
    console.print(
        f"A period brings {figures['rows_sent']:,.1f} rows on channels instead of {figures['rows_apart']:,.1f} to each "
        f"subscriber apart; subscribers get {figures['rows_in_vain']:,.1f} for nothing."
    )
    apart, cost = figures["cost_apart"], figures["cost"]
    share = f", {100 * (apart - cost) / apart:.1f} %" if apart else ""
    console.print(f"It costs {cost:,.1f} instead of {apart:,.1f}: sharing saves {apart - cost:,.1f}{share}.")
    bill = figures["bill"]
    console.print(
        f"Of that {bill['channels']:,.1f} are for channels, {bill['transfer']:,.1f} for rows sent, "
        f"{bill['waste']:,.1f} for wasted rows."
    )
    if figures["lower_bound"] is not None:
        console.print(f"No grouping can cost less than {figures['lower_bound']:,.1f}.")
    console.print("(Estimates, from the rows seen so far.)")


def _region(regions: list[list[float]]) -> str:
    half = len(regions[0]) // 2
    low = [min(region[axis] for region in regions) for axis in range(half)]
    high = [max(region[half + axis] for region in regions) for axis in range(half)]
    text = " × ".join(f"{a:.6g}…{b:.6g}" for a, b in zip(low, high, strict=True))
    return text if len(regions) == 1 else f"{text} in {len(regions)} parts"


def _draw(figures: dict[str, Any], name: str, path: Path) -> None:
    from matplotlib import colormaps
    from matplotlib.figure import Figure  # slow to import
    from matplotlib.patches import Rectangle

    figure = Figure(figsize=(8, 6.5), layout="constrained")
    axes = figure.add_subplot()
    colours = colormaps["tab20"]
    for channel, *ends in figures["rectangles"]:
        x, y, width, height = _placed(ends)
        colour = "0.7" if channel < 0 else colours(channel % 20)
        axes.add_patch(Rectangle((x, y), width, height, fill=False, edgecolor=colour, linewidth=0.6, alpha=0.7))
    for group in figures["largest"]:
        if group["members"] > 1:
            for ends in group["regions"]:
                x, y, width, height = _placed(ends)
                colour = colours(group["channel"] % 20)
                axes.add_patch(Rectangle((x, y), width, height, facecolor=colour, edgecolor=colour, alpha=0.12))
                axes.add_patch(Rectangle((x, y), width, height, fill=False, edgecolor=colour, linewidth=1.4))
    axes.autoscale_view()
    # A name may hold a dollar sign.
    axes.set_xlabel(figures["columns"][0], parse_math=False)
    axes.set_ylabel(figures["columns"][1] if len(figures["columns"]) > 1 else "", parse_math=False)
    axes.set_title(
        f"{name}: {figures['subscriptions']:,} subscriptions on {figures['channels']:,} channels, "
        f"{figures['shared']:,} shared (filled); grey: a channel of its own",
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
