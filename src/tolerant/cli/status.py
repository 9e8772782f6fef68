"""`tolerant status`: streams, sources, lag, late rows, skew, staleness, messages sent and saved."""

from __future__ import annotations

import json
import time
from datetime import UTC, datetime
from typing import Any

import numpy as np
import typer
from rich.console import Console
from rich.table import Table

from tolerant.cli.explain_view import view_figures, view_line, views_of
from tolerant.cli.figures import (
    Messages,
    StreamFigures,
    messages,
    pull_figures,
    stream_figures,
    streams_with_figures,
    table_figures,
)
from tolerant.cli.options import DEFAULT_LOG, Json, LogUri, existing_log
from tolerant.client import standing
from tolerant.sql import home_of
from tolerant.sql.homes import is_of_views, tables_of
from tolerant.streams import SECOND, Stream

REPLAYED = 24 * 3600 * SECOND
"""A horizon further than this from the wall clock is one of trace time: no lag can be told from it."""


def status(log: LogUri = DEFAULT_LOG, as_json: Json = False) -> None:
    """Show how the streams and their sources are doing, and the tables."""
    with_log = existing_log(log)
    try:
        catalogue = standing(with_log)
        streams = catalogue.streams
        tables = {home_of(query.select) for query in catalogue.queries.values()} - set(streams)
        spoken = {name for name in streams_with_figures(with_log) if tables_of(name) == (name,)} - set(catalogue.tables)
        found = {name: stream_figures(with_log, name) for name in sorted({*streams, *spoken})}
        told = {name: table_figures(with_log, name) for name in sorted(tables)}
        for name, table in told.items():
            if table is not None and is_of_views(name):
                table["views"] = {view: view_figures(with_log, name, view) for view in views_of(catalogue, name)}
    finally:
        with_log.close()
    if as_json:
        record = {name: _record(figures, streams.get(name)) for name, figures in found.items()}
        typer.echo(json.dumps(record | {name: figures or {"running": False} for name, figures in told.items()}))
        return
    if not found and not told:
        typer.echo("There are no streams.")
        return
    console = Console()
    for name, table in told.items():
        _show_table(console, name, table)
    for name, figures in found.items():
        if figures is None:
            console.print(f"[bold]{name}[/bold]: no pipeline has run it yet")
        else:
            _show(console, figures, streams.get(name))


def _show_table(console: Console, name: str, figures: dict[str, Any] | None) -> None:
    if figures is None:
        console.print(f"[bold]{name}[/bold]: no pipeline has run it yet")
        return
    counts = [
        f"{figures.get(what, 0):,} {what}"
        for what in ("rows", "changes", "deliveries", "notices", "results", "late", "dead")
        if what in figures or what != "results"
    ]
    console.print(f"[bold]{name}[/bold] (table): reached {_moment(figures['horizon'])}, {', '.join(counts)}")
    for view, found in figures.get("views", {}).items():
        console.print(f"  {view}: {view_line(found) if found else 'being worked out'}")
    for query, count in figures["subscriptions"].items() if "views" not in figures else ():
        own = figures.get("figures", {}).get(query, {})
        more = "".join(f", {_figure(value)} {what}" for what, value in own.items())
        console.print(f"  {query}: {count:,} subscription{'s' if count != 1 else ''}{more}")


def _figure(value: float) -> str:
    """A count, or a share."""
    return f"{value:.1%}" if isinstance(value, float) else f"{value:,}"


def lag(figures: StreamFigures, now: int) -> float | None:
    """Seconds between the wall clock and the horizon; None in trace time, or before there is one."""
    horizon = figures.horizon
    if horizon is None or abs(now - horizon) > REPLAYED:
        return None
    return (now - horizon) / SECOND


def _record(figures: StreamFigures | None, stream: Stream | None) -> dict[str, object]:
    if figures is None:
        return {"running": False}
    rates = _rates(figures, stream)
    return {
        "horizon": figures.horizon,
        "lag": lag(figures, time.time_ns() // 1000),
        "messages": {"total": sum(figures.messages.values()), **figures.messages},
        "bytes": figures.total("bytes"),
        "late": figures.total("late"),
        "dead": figures.total("dead"),
        "updates_per_second": rates.per_second,
        "unfiltered_per_second": rates.unfiltered,
        "saved": rates.saved,
        "shards": list(figures.summaries),
    }


def _rates(figures: StreamFigures, stream: Stream | None) -> Messages:
    tick = stream.options.tick if stream else SECOND
    if figures.pulled is not None:
        return pull_figures(figures.pulled, tick)
    return messages(figures.items, np.ones(len(figures.items), bool), figures.sums, tick)


def _show(console: Console, figures: StreamFigures, stream: Stream | None) -> None:
    behind = lag(figures, time.time_ns() // 1000)
    reached = "–" if figures.horizon is None else _moment(figures.horizon)
    told = f"lag {behind:.1f} s" if behind is not None else "trace time"
    console.print(f"[bold]{figures.stream}[/bold]: reached {reached}, {told}")
    kinds = ", ".join(f"{count:,} {kind}" for kind, count in figures.messages.items())
    console.print(f"  {sum(figures.messages.values()):,} messages ({kinds}), {figures.total('bytes') / 1e6:,.2f} MB")
    console.print(f"  now {_rates(figures, stream).text()}")
    if figures.pulled is not None:
        kinds = ", ".join(f"{figures.total(kind):,} {kind}" for kind in ("values", "unchanged", "failed"))
        console.print(f"  pulls: {kinds}")
    console.print(
        f"  {figures.total('late'):,} late rows, {figures.total('dead'):,} dead (`tolerant dead {figures.stream}`)"
    )
    _show_sources(console, figures)
    _show_queries(console, figures)


def _show_sources(console: Console, figures: StreamFigures) -> None:
    table = Table("source", "items", "last heard", "epoch", "skew", "state")
    for summary in figures.summaries:
        for name, source in summary["sources"].items():
            table.add_row(
                name,
                f"{source['items']:,}",
                _moment(source["heard"]),
                str(source["epoch"]),
                f"{source['skew'] / SECOND:.1f} s",
                "stale" if source["stale"] else "live",
            )
    if table.row_count:
        console.print(table)


def _show_queries(console: Console, figures: StreamFigures) -> None:
    polled = figures.pulled is not None
    lost = ("fidelity", "delivered") if polled else ("fidelity lost",)
    table = Table("query", "within", "groups", "items", *lost, "state")
    for summary in figures.summaries:
        for name, query in summary["queries"].items():
            flags = [f"{query[flag]} {flag}" for flag in ("stale", "settling") if query[flag]]
            table.add_row(
                name,
                f"{query['within']:g}",
                f"{query['groups']:,}",
                f"{query['items']:,}",
                *(_fidelity(query) if polled else (f"{query['late_us'] / SECOND:.2f} s",)),
                ", ".join(flags) or "settled",
            )
    if table.row_count:
        console.print(table)


def _fidelity(query: dict[str, Any]) -> tuple[str, str]:
    """Asked for, and delivered so far by the worst group."""
    delivered = query["delivered"]
    return f"{query['fidelity']:.4g}", "–" if delivered is None else f"{delivered:.4f}"


def _moment(at: int) -> str:
    try:
        return datetime.fromtimestamp(at / SECOND, UTC).isoformat(sep=" ", timespec="milliseconds")
    except (ValueError, OverflowError, OSError):
        return "–"  # a source that was named and never heard
