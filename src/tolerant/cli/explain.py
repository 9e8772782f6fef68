"""`tolerant explain QUERY`: where the tolerance goes, and what more or less of it would cost."""

from __future__ import annotations

import json
import math
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from tolerant.cli.explain_channels import explain_channels
from tolerant.cli.explain_joins import explain_join, explain_planned
from tolerant.cli.explain_network import NetworkExplanation, explain_network
from tolerant.cli.explain_polled import PolledExplanation, explain_polled, show_polled
from tolerant.cli.explain_view import explain_view, show_view
from tolerant.cli.figures import StreamFigures, rate_of, stream_figures
from tolerant.cli.options import DEFAULT_LOG, Json, LogUri, existing_log
from tolerant.cli.reporting import CommandError
from tolerant.cli.text import Screen, shown
from tolerant.client import load_catalogue
from tolerant.filters.status_view import FACTORS
from tolerant.sql import AggregateSelect, Catalogue
from tolerant.sql.membership import Keys, members
from tolerant.sql.refusals import no_such
from tolerant.streams import SECOND, Stream
from tolerant.transport import Log

SHOWN = 20
"""Items in the table: those that send most. JSON has all."""


@dataclass(frozen=True)
class Share:
    """The part of a query's tolerance that an item has, or a sum of items that its source sends in their place; `width`
    is that of its filter, None where it has none.
    """

    item: str
    group: str
    weight: float
    width: float | None
    updates_per_second: float
    burden: float
    source: str
    stale: bool
    elsewhere: tuple[float, ...]
    """By how much it would send more or less at FACTORS times its width."""


@dataclass(frozen=True)
class Estimate:
    """What another tolerance would cost: an estimate, from what the items would have sent at other widths."""

    within: float
    updates_per_second: float
    saved_per_second: float


@dataclass(frozen=True)
class Explanation:
    """Where a query's tolerance goes; items in the order of what they send."""

    query: str
    stream: str
    fn: str
    within: float
    updates_per_second: float
    items: tuple[Share, ...]
    estimates: tuple[Estimate, ...]
    tick: int = SECOND
    """Microseconds."""


def explain(
    query: Annotated[str, typer.Argument(help="The query; or a join that is not started yet, as a statement.")],
    log: LogUri = DEFAULT_LOG,
    as_json: Json = False,
    picture: Annotated[
        Path | None, typer.Option("--picture", help="A PNG file to draw ranges and channels into.", dir_okay=False)
    ] = None,
) -> None:
    """Show where a query's tolerance goes: each item's width, rate and burden, and what ± more would change.

    Of a query for everything in a range: who shares a channel, and what that saves. Of a join: what it keeps, and which
    state would grow without bound. Of a view: what bringing it up to date would take.
    """
    if explain_planned(query, as_json):
        return
    with_log = existing_log(log)
    try:
        if explain_channels(with_log, query, as_json, picture) or explain_join(with_log, query, as_json):
            return
        view = explain_view(with_log, query)
        if view is not None:
            typer.echo(json.dumps(view)) if as_json else show_view(view)
            return
        explanation = explained(with_log, query)
    finally:
        with_log.close()
    if isinstance(explanation, PolledExplanation):
        typer.echo(json.dumps(asdict(explanation))) if as_json else show_polled(explanation)
        return
    if isinstance(explanation, NetworkExplanation):
        typer.echo(json.dumps(explanation.record())) if as_json else explanation.show()
        return
    if as_json:
        typer.echo(json.dumps(asdict(explanation)))
    else:
        _show(explanation)


def explained(log: Log, name: str) -> Explanation | PolledExplanation | NetworkExplanation:
    """The explanation of a query, from what its pipeline last said about itself."""
    stream, select = _find(load_catalogue(log), name)
    if stream.networked:
        return explain_network(log, name)
    figures = stream_figures(log, stream.name)
    if figures is None:
        raise CommandError(f"no pipeline has said anything about stream {stream.name} yet; is `tolerant run` running?")
    if stream.polled:
        return explain_polled(name, stream, select, figures)
    shares = sorted(_shares(figures, stream, name, select), key=lambda share: (-share.updates_per_second, share.item))
    return Explanation(
        query=name,
        stream=stream.name,
        fn=select.fn,
        within=select.within,
        updates_per_second=sum(share.updates_per_second for share in shares),
        items=tuple(shares),
        estimates=estimates(shares, select.within, stream.options.tick),
        tick=stream.options.tick,
    )


def estimates(shares: list[Share], within: float, tick: int) -> tuple[Estimate, ...]:
    """What the items would send under other tolerances, as measured where their sources measure it.

    No item sends more than once a tick. Other queries that hold the same items, and widths that move between items, are
    left out: it is an estimate.
    """
    if within == 0:
        return ()
    most, now = SECOND / tick, sum(share.updates_per_second for share in shares)
    found = []
    for place, factor in enumerate(FACTORS):
        then = sum(min(most, share.updates_per_second * share.elsewhere[place]) for share in shares)
        found.append(Estimate(within * factor, then, now - then))
    return tuple(found)


def _find(catalogue: Catalogue, name: str) -> tuple[Stream, AggregateSelect]:
    query = catalogue.queries.get(name)
    if query is None:
        raise CommandError(no_such("query", name, catalogue.queries))
    if not isinstance(query.select, AggregateSelect):
        raise CommandError(f"query {name} has no tolerance to explain")
    return catalogue.streams[query.select.stream], query.select


def _shares(figures: StreamFigures, stream: Stream, name: str, select: AggregateSelect) -> list[Share]:
    """The parts of a query: sums that sources send, and the items that are in none."""
    items, sums = figures.items, [one for one in figures.sums if one.query == name]
    folded = {(one.group, item) for one in sums for item in one.items}
    return [
        Share(
            item=f"sum of {len(one.items)} items at {one.source}",
            group=one.group,
            weight=1.0,
            width=one.width if math.isfinite(one.width) else None,
            updates_per_second=one.updates_per_second,
            burden=one.burden,
            source=one.source,
            stale=one.stale,
            elsewhere=one.elsewhere,
        )
        for one in sums
    ] + [
        Share(
            item=items.key[index],
            group=group,
            weight=weight,
            width=float(items.width[index]) if math.isfinite(items.width[index]) else None,
            updates_per_second=float(items.updates_per_second[index]),
            burden=float(items.burden[index]),
            source=items.source[index],
            stale=items.stale[index],
            elsewhere=tuple(items.elsewhere[index].tolist()),
        )
        for group, weights in members(select, Keys(stream, items.key)).items()
        for index, weight in weights.items()
        if (group, items.key[index]) not in folded
    ]


def _show(found: Explanation) -> None:
    console, rate = Screen(), rate_of(found.tick)
    per = "updates/s" if rate.unit == "second" else f"updates per {rate.unit}"
    title = f"{shown(found.query)}: WITHIN {found.within:g}"
    table = Table("item", "group", "weight", "width", per, "burden", title=title)
    for share in found.items[:SHOWN]:
        table.add_row(
            shown(share.item) + (" (stale)" if share.stale else ""),
            shown(share.group or "all"),
            f"{share.weight:g}",
            "none" if share.width is None else f"{share.width:.4g}",
            f"{share.updates_per_second * rate.seconds:.3f}",
            f"{share.burden:.4g}",
        )
    if len(found.items) > SHOWN:
        rest = found.items[SHOWN:]
        sent = sum(share.updates_per_second for share in rest)
        table.add_row(f"… {len(rest)} more", "", "", "", f"{sent * rate.seconds:.3f}", "")
    console.print(table)
    total = found.updates_per_second * rate.seconds
    console.print(f"{len(found.items):,} items send {total:.3f} updates per {rate.unit}.")
    for estimate in found.estimates:
        saved = estimate.saved_per_second * rate.seconds
        change = f"{abs(saved):.3f} {'fewer' if saved >= 0 else 'more'}"
        then = estimate.updates_per_second * rate.seconds
        console.print(f"WITHIN {estimate.within:g} would take about {then:.3f}, {change}.")
    if found.estimates:
        console.print("(An estimate, from what the items would have sent at other widths; other queries are left out.)")
