"""`tolerant status`: streams, sources, lag, late rows, skew, staleness, messages sent and saved."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import typer
from rich.table import Table

from tolerant.cli.dead import DeadGroup, dead_groups, dead_letters
from tolerant.cli.explain_view import refused_views, view_figures, view_line, views_of
from tolerant.cli.figures import (
    MessageRates,
    StreamFigures,
    late_sources,
    messages_of,
    query_messages,
    stream_figures,
    streams_with_figures,
    table_figures,
)
from tolerant.cli.moments import age, age_text, moment
from tolerant.cli.options import DEFAULT_LOG, Json, LogUri, existing_log
from tolerant.cli.text import Screen, shown
from tolerant.cli.unsettled import unsettled_reason
from tolerant.client import load_catalogue
from tolerant.client.liveness import Outage, outage_text, pipeline_outage
from tolerant.sql import Catalogue, PipelineId
from tolerant.sql.pipeline_ids import is_relation_name
from tolerant.streams import SECOND, Stream
from tolerant.transport import Log
from tolerant.transport.common import wall_clock
from tolerant.transport.conflicts import Conflict, open_conflicts
from tolerant.transport.heartbeats import latest_heartbeat
from tolerant.transport.quarantine import quarantined
from tolerant.transport.records import skipping

SHOWN = 5
"""Late sources, reasons of dead letters and conflicts that are listed; the rest is counted."""

WORDS = {
    "late": "late rows",
    "dead": "dead letters",
    "received": "rows received by subscriptions",
    "unheard": "changes that concerned no subscription",
    "versions": "regroupings into channels",
    "moves": "moves to another channel",
    "ignorable": "changes that left the answers as they were",
    "easy": "changes whose new answers were known at once",
    "difficult": "changes whose new answers were searched for",
    "rows": "rows",
    "appeared": "results that appeared",
    "retracted": "results that were retracted",
    "rebuilds": "rebuilds of an index",
    "groups": "groups of overlapping subscriptions",
    "hot": "of the subscriptions in large groups",
    "kept": "rows kept",
    "found": "results",
    "fetched": "rows fetched",
    "share": "of all results found",
    "error": "its error",
}
"""What the counts and shares of queries over tables are of."""

NO_MESSAGES = MessageRates(0, 0.0, 0.0)


@dataclass(frozen=True)
class StreamReport:
    """What there is to say of a stream; `figures` is None before its pipeline has reported. `reasons`: by query, why it
    is not settled. `rates`: what the items that queries use send now.
    """

    name: str
    stream: Stream | None
    figures: StreamFigures | None
    outage: Outage | None
    answers_at: int | None
    dead: list[DeadGroup]
    queries: dict[str, MessageRates]
    reasons: dict[str, str]
    conflicts: list[Conflict]
    rates: MessageRates = NO_MESSAGES


def status(log: LogUri = DEFAULT_LOG, as_json: Json = False) -> None:
    """Show how the streams and their sources are doing, and the tables."""
    with_log = existing_log(log)
    try:
        catalogue = load_catalogue(with_log)
        streams = catalogue.streams
        tables = {str(PipelineId.of(query.select)) for query in catalogue.queries.values()} - set(streams)
        reporting = {name for name in streams_with_figures(with_log) if is_relation_name(name)} - set(catalogue.tables)
        tables |= {name for name in streams_with_figures(with_log) if _has_refused_views(with_log, catalogue, name)}
        reports = [stream_report(with_log, catalogue, name) for name in sorted({*streams, *reporting})]
        table_reports = {name: _table_report(with_log, catalogue, name) for name in sorted(tables)}
        skipped = {name: quarantined(with_log, name) for name in (*table_reports, *(report.name for report in reports))}
    finally:
        with_log.close()
    if as_json:
        record: dict[str, dict[str, Any]] = {report.name: _record(report) for report in reports}
        record |= {name: figures or {"running": False} for name, figures in table_reports.items()}
        for name, entries in skipped.items():
            record[name]["quarantined"] = [
                {"position": e.position, "topic": e.topic, "reason": e.reason} for e in entries
            ]
        typer.echo(json.dumps(record))
        return
    if not reports and not table_reports:
        typer.echo("There are no streams.")
        return
    console = Screen()
    for name, table in table_reports.items():
        _show_table(console, name, table)
    for report in reports:
        _show(console, report)
    for name, entries in skipped.items():
        for entry in entries:
            text = f"{name}: QUARANTINED entry {entry.position} of {entry.topic}, skipped for ever: {entry.reason}"
            console.print(text, markup=False, style="red")


def stream_report(log: Log, catalogue: Catalogue, name: str) -> StreamReport:
    """Everything that `status` shows of a stream."""
    figures, outage = stream_figures(log, name), pipeline_outage(log, name)
    with skipping(f"the status of {name}"):
        return _stream_report(log, catalogue, name, figures, outage)
    return _stream_report(log, catalogue, name, None, outage)


def _stream_report(
    log: Log, catalogue: Catalogue, name: str, figures: StreamFigures | None, outage: Outage | None
) -> StreamReport:
    queries = [q.name for q in catalogue.queries.values() if str(PipelineId.of(q.select)) == name]
    spent = {query: query_messages(log, query) for query in queries} if figures else {}
    unsettled = _unsettled(figures) if figures and outage is None else []
    return StreamReport(
        name=name,
        stream=catalogue.streams.get(name),
        figures=figures,
        outage=outage,
        answers_at=_answers_at(log, catalogue.streams.get(name), figures),
        dead=dead_groups(dead_letters(log, name)),
        queries={query: messages for query, messages in spent.items() if messages is not None},
        reasons={query: reason for query in unsettled if (reason := unsettled_reason(log, query))},
        conflicts=open_conflicts(log, name),
        rates=_rates(figures, catalogue, name) if figures else NO_MESSAGES,
    )


def _unsettled(figures: StreamFigures) -> list[str]:
    queries = [item for summary in figures.summaries for item in summary["queries"].items()]
    return list(dict.fromkeys(name for name, query in queries if query["stale"] or query["settling"]))


def _answers_at(log: Log, stream: Stream | None, figures: StreamFigures | None) -> int | None:
    """The event time that answers are of now: by the heartbeat, which is newer than the last report."""
    reported = figures.watermark if figures else None
    heartbeat = latest_heartbeat(log, figures.stream) if figures else None
    if heartbeat is None or stream is None or reported is None or age(reported, wall_clock()) is None:
        return reported
    return max(reported, heartbeat.processed - stream.options.latency)


def _table_report(log: Log, catalogue: Catalogue, name: str) -> dict[str, Any] | None:
    figures = table_figures(log, name)
    if figures is None:
        return None
    outage = pipeline_outage(log, name)
    figures["outage"] = None if outage is None else asdict(outage)
    late: dict[str, tuple[int, int]] = {}
    with skipping(f"the late rows of {name}"):
        late = late_sources([figures])
    figures["late_sources"] = _late_record(late)
    figures["dead_reasons"] = [asdict(group) for group in dead_groups(dead_letters(log, name))]
    if PipelineId.parse(name).views:
        figures["views"] = {view: view_figures(log, name, view) for view in views_of(catalogue, name)}
        figures["refused_views"] = refused_views(log, name, catalogue)
    return figures


def _has_refused_views(log: Log, catalogue: Catalogue, name: str) -> bool:
    with contextlib.suppress(ValueError):
        return PipelineId.parse(name).views and bool(refused_views(log, name, catalogue))
    return False


def _show_table(console: Screen, name: str, figures: dict[str, Any] | None) -> None:
    if figures is None:
        console.print(f"[bold]{shown(name)}[/bold]: no pipeline has run it yet")
        return
    counts = [
        f"{figures.get(what, 0):,} {WORDS.get(what, what)}"
        for what in ("rows", "changes", "deliveries", "notices", "results", "late", "dead")
        if what in figures or what != "results"
    ]
    outage = figures.get("outage")
    state = f"[red]{outage_text(Outage(**outage))}[/red]" if outage else f"up to {moment(figures['watermark'])}"
    console.print(f"[bold]{shown(name)}[/bold] (table): {state}, {', '.join(counts)}")
    _list_late(
        console,
        [(source, own["rows"], own["longest_delay"]) for source, own in figures.get("late_sources", {}).items()],
    )
    _list_dead(console, [(group["count"], group["example"]) for group in figures.get("dead_reasons", ())])
    for view, refreshes in figures.get("views", {}).items():
        console.print(f"  {shown(view)}: {view_line(refreshes) if refreshes else 'being worked out'}")
    for view, reason in figures.get("refused_views", {}).items():
        console.print(f"  {shown(view)}: [red]REFUSED and dropped: {shown(reason)}[/red]")
    for query, count in figures["subscriptions"].items() if "views" not in figures else ():
        own = figures.get("figures", {}).get(query, {})
        more = "".join(f", {_figure(value)} {shown(WORDS.get(what, what))}" for what, value in own.items() if value)
        console.print(f"  {shown(query)}: {count:,} subscription{'s' if count != 1 else ''}{more}")


def _figure(value: float) -> str:
    """A count, or a share."""
    return f"{value:.1%}" if isinstance(value, float) else f"{value:,}"


def _record(report: StreamReport) -> dict[str, Any]:
    figures = report.figures
    outage = None if report.outage is None else asdict(report.outage)
    if figures is None:
        return {"running": False, "outage": outage}
    rates = report.rates
    return {
        "outage": outage,
        "watermark": figures.watermark,
        "lag": age(report.answers_at, wall_clock()),
        "messages": {"total": sum(figures.messages.values()), **figures.messages},
        "bytes": figures.total("bytes"),
        "late": figures.total("late"),
        "late_sources": _late_record(figures.late_sources),
        "dead": figures.total("dead"),
        "dead_reasons": [asdict(group) for group in report.dead],
        "conflicts": [conflict._asdict() for conflict in report.conflicts],
        "updates_per_second": rates.per_second,
        "unfiltered_per_second": rates.unfiltered,
        "saved": rates.saved,
        "saved_so_far": figures.saved,
        "queries": {name: {"saved": spent.saved} for name, spent in report.queries.items()},
        "shards": list(figures.summaries),
    }


def _late_record(sources: Mapping[str, tuple[int, int]]) -> dict[str, dict[str, int]]:
    return {name: {"rows": count, "longest_delay": delay} for name, (count, delay) in sources.items()}


def _rates(figures: StreamFigures, catalogue: Catalogue, name: str) -> MessageRates:
    """What is sent now by the items that some query uses."""
    stream = catalogue.streams.get(name)
    if stream is None:
        return NO_MESSAGES
    if stream.networked:
        items = figures.total("items")
        sent = sum(summary.get("updates_per_second", 0.0) for summary in figures.summaries)
        return MessageRates(items, sent, items * SECOND / stream.options.tick)
    return messages_of(figures, stream, catalogue.aggregates(name).values(), figures.sums)


def _show(console: Screen, report: StreamReport) -> None:
    figures = report.figures
    if figures is None:
        state = "no pipeline has run it yet" if report.outage is None else outage_text(report.outage)
        console.print(f"[bold]{shown(report.name)}[/bold]: {state}")
        return
    console.print(f"[bold]{shown(report.name)}[/bold]: {_currency(report)}")
    kinds = ", ".join(_counted(count, kind) for kind, count in figures.messages.items() if count)
    console.print(
        f"  {sum(figures.messages.values()):,} messages so far"
        f"{f' ({kinds})' if kinds else ''}, {figures.total('bytes') / 1e6:,.2f} MB"
        + ("" if figures.saved is None else f"; {figures.saved:.1%} of the readings that queries need were not sent")
    )
    console.print(f"  now {report.rates.text()}" if report.rates.items else "  no query uses an item that has sent")
    if figures.pulled is not None:
        kinds = ", ".join(f"{figures.total(kind):,} {kind}" for kind in ("values", "unchanged", "failed"))
        console.print(f"  pulls: {kinds}")
    _show_late(console, report)
    _show_dead(console, report)
    _show_conflicts(console, report)
    _show_sources(console, report)
    _show_queries(console, report)


def _counted(count: int, kind: str) -> str:
    """A count of messages of a kind.

    >>> _counted(1, "sum_offers"), _counted(2000, "hellos")
    ('1 sum offer', '2,000 hellos')
    """
    kinds = kind.replace("_", " ")
    return f"{count:,} {kinds.removesuffix('s') if count == 1 else kinds}"


def _currency(report: StreamReport) -> str:
    """Whether answers are current, and how old."""
    if report.outage is not None:
        return f"[red]{outage_text(report.outage)}[/red]; what follows was so then"
    seconds = age(report.answers_at, wall_clock())
    if seconds is None:
        return f"answers up to {moment(report.answers_at)} (trace time)"
    return f"answers are {age_text(report.answers_at, wall_clock())} old"


def _show_late(console: Screen, report: StreamReport) -> None:
    assert report.figures is not None
    late = report.figures.total("late")
    if not late:
        console.print("  no late rows")
        return
    allowed = (report.stream.options.latency if report.stream else 0) / SECOND
    console.print(
        f"  {late:,} late rows, which came more than {allowed:g} s (`latency`) after their event time. Check the clock"
        " and the network of their source, or allow more in WITH (latency = …):"
    )
    _list_late(console, [(name, *own) for name, own in report.figures.late_sources.items()])


def _list_late(console: Screen, sources: Sequence[tuple[str, int, int]]) -> None:
    """The late rows of each source, and the longest delay."""
    for name, count, delay in sources[:SHOWN]:
        console.print(f"    {shown(name) or 'other sources'}: {count:,}, up to {delay / SECOND:.1f} s late")
    if len(sources) > SHOWN:
        console.print(f"    and {len(sources) - SHOWN:,} more sources")


def _show_dead(console: Screen, report: StreamReport) -> None:
    assert report.figures is not None
    count = report.figures.total("dead")
    if not count:
        console.print("  no dead letters")
        return
    console.print(f"  {count:,} dead letters: rows that could not be used (`tolerant dead {shown(report.name)}`)")
    _list_dead(console, [(group.count, group.example) for group in report.dead])


def _list_dead(console: Screen, groups: Sequence[tuple[int, str]]) -> None:
    """How many rows could not be used for each reason."""
    for count, example in groups[:SHOWN]:
        console.print(f"    {count:,} × {shown(example)}")
    if len(groups) > SHOWN:
        console.print(f"    and {len(groups) - SHOWN:,} more reasons")


def _show_conflicts(console: Screen, report: StreamReport) -> None:
    for conflict in report.conflicts[:SHOWN]:
        console.print(
            f"  conflict: item {conflict.item!r} belongs to source {conflict.owner!r} since "
            f"{moment(conflict.since)}, but {conflict.other!r} sends it too",
            markup=False,
        )
    if len(report.conflicts) > SHOWN:
        console.print(f"  and {len(report.conflicts) - SHOWN:,} more items that two sources claim")


def _show_sources(console: Screen, report: StreamReport) -> None:
    assert report.figures is not None
    table = Table("source", "items", "last heard", "starts", "clock ahead", "state")
    for summary in report.figures.summaries:
        for name, source in summary["sources"].items():
            table.add_row(
                shown(name),
                f"{source['items']:,}",
                moment(source["heard"]),
                str(source["epoch"]),
                f"{source['skew'] / SECOND:.1f} s",
                "unknown" if report.outage else "silent" if source["stale"] else "live",
            )
    if table.row_count:
        console.print(table)


def _show_queries(console: Screen, report: StreamReport) -> None:
    assert report.figures is not None
    polled = report.figures.pulled is not None
    lost = ("fidelity", "delivered") if polled else ("time lost to late rows",)
    table = Table("query", "within", "groups", "items", "saved", *lost, "state")
    for summary in report.figures.summaries:
        for name, query in summary["queries"].items():
            flags = [f"{query[flag]} {flag}" for flag in ("stale", "settling") if query[flag]]
            spent = report.queries.get(name)
            table.add_row(
                shown(name),
                f"{query['within']:g}",
                f"{query['groups']:,}",
                f"{query['items']:,}",
                "–" if spent is None else f"{spent.saved:.1%}",
                *(_fidelity(query) if polled else (f"{query['late_us'] / SECOND:.2f} s",)),
                "not current" if report.outage else ", ".join(flags) or "settled",
            )
    if table.row_count:
        console.print(table)
    for name, reason in report.reasons.items():
        console.print(f"  {shown(name)}: {shown(reason)}")


def _fidelity(query: dict[str, Any]) -> tuple[str, str]:
    """Asked for, and delivered so far by the worst group."""
    delivered = query["delivered"]
    return f"{query['fidelity']:.4g}", "–" if delivered is None else f"{delivered:.4f}"
