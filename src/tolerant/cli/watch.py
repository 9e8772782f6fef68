"""`tolerant watch QUERY`: live answers, value ± bound, on the terminal or as lines of JSON."""

from __future__ import annotations

import json
import math
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from typing import Annotated, Any

import typer
from rich.console import Group
from rich.live import Live
from rich.table import Table

from tolerant.cli.figures import MessageRates, query_messages
from tolerant.cli.moments import age_text
from tolerant.cli.options import DEFAULT_LOG, ForSeconds, Json, LogUri, existing_log
from tolerant.cli.reporting import CommandError, wrong_call
from tolerant.cli.sql import TIMEOUT
from tolerant.cli.text import Screen, shown
from tolerant.cli.unsettled import flags_reason, unsettled_reason
from tolerant.client import (
    AnswerChange,
    Client,
    ConditionMet,
    KeptChange,
    KeptShare,
    NotAnswered,
    RowChange,
    StatementClient,
    kept_share,
    load_catalogue,
)
from tolerant.client.listeners import has_listener
from tolerant.client.liveness import OutageMonitor, outage_text
from tolerant.queries import Answer
from tolerant.sql import Subscribe, parse
from tolerant.streams import SECOND
from tolerant.transport import Log
from tolerant.transport.common import wall_clock
from tolerant.transport.log import START

FIELDS = ("query", "group", "at", "low", "value", "high", "stale", "settling")
OF_POLLED = ("fidelity", "delivered", "learning")
"""Further fields of answers over polled streams."""
REFRESH = 0.25
"""Seconds between two pictures on the terminal."""
REFRESH_FIGURES = 2.0
"""Seconds between two looks at the messages spent: a stream of many items has much to say about them."""


def watch(
    query: Annotated[str, typer.Argument(help="The query; of a template with its values: 'area(20, 60)'.")],
    log: LogUri = DEFAULT_LOG,
    as_json: Json = False,
    from_start: Annotated[bool, typer.Option("--from-start", help="Every answer the log still holds, first.")] = False,
    seconds: ForSeconds = None,
) -> None:
    """Show the answers of a query: the current one first, then every change. Ctrl-C ends."""
    end = math.inf if seconds is None else time.monotonic() + seconds
    reader = existing_log(log)

    def over() -> bool:
        return time.monotonic() >= end

    subscription = table_query(reader, query)
    if subscription is not None:
        _follow_table(reader, subscription, as_json, over)
        return
    StatementClient(reader).check_query(query, or_was=from_start)
    answers = (change.answer for change in Client(reader).answers(query, START if from_start else None, stop=over))
    try:
        if as_json:
            for answer in answers:
                typer.echo(as_line(answer))
        else:
            _show(query, reader, answers, over)
    except KeyboardInterrupt:
        pass
    finally:
        reader.close()


def table_query(log: Log, text: str) -> Subscribe | None:
    """The subscription that a query over a table is watched with; None: it is another kind of query, or none."""
    query = load_catalogue(log).queries.get(text.split("(")[0].strip())
    if query is None or not has_listener(query):
        return None
    if "(" not in text:
        return Subscribe(query.name)
    statement = parse(f"SUBSCRIBE {text}")
    assert isinstance(statement, Subscribe)
    return statement


def _follow_table(log: Log, statement: Subscribe, as_json: bool, over: Callable[[], bool]) -> None:
    """Rows as they come and go, or answers as they change, a line each."""
    console = Screen()
    names = load_catalogue(log).queries[statement.name].parameters
    try:
        if len(names) != len(statement.values):
            wrong_call(f"{statement.name} takes {', '.join(names)}: watch '{statement.name}({', '.join(names)})'")
        shards = load_catalogue(log).queries[statement.name].select.pipeline.shards
        share = kept_share(log, statement.name, shards) if not as_json else None
        if share is not None:
            console.print(_so_far(share))
        stop = _reporting_outages(log, statement.name, console, as_json, over)
        given: dict[str, Any] = dict(zip(names, statement.values, strict=True))
        for change in Client(log).subscribe(statement.name, position=None, timeout=TIMEOUT, **given).changes(stop):
            if as_json:
                kept = {"at": change.at, "current": change.current, **_said(change)}
                typer.echo(json.dumps({"query": statement.name, **kept, "position": str(change.position or "")}))
            else:
                console.print(*_line(change), highlight=True)
    except KeyboardInterrupt:
        pass
    except NotAnswered as error:
        raise CommandError(str(error)) from error
    finally:
        log.close()


def _reporting_outages(
    log: Log, query: str, console: Screen, as_json: bool, over: Callable[[], bool]
) -> Callable[[], bool]:
    """`over`, which also prints when the query's pipeline goes out of service and when it is back."""
    monitor = OutageMonitor(log, query)

    def report() -> None:
        if as_json:
            typer.echo(json.dumps({"query": query, "outage": asdict(monitor.state) if monitor.state else None}))
        else:
            text = outage_text(monitor.state) if monitor.state else "the pipeline is back"
            console.print(f"[red]{text}[/red]" if monitor.state else text)

    def stop() -> bool:
        if monitor.check():
            report()
        return over()

    if monitor.state is not None:
        report()
    return stop


def _so_far(kept: KeptShare) -> str:
    share = f"{kept.share:.1%} (± {kept.error:.1%})"
    if kept.fetched is not None:
        return f"{kept.found:,} results so far; {share} of the rows looked up were held, {kept.fetched:,} were fetched"
    return f"{kept.found:,} results so far, about {share} of all"


def _said(change: RowChange | AnswerChange | ConditionMet) -> dict[str, object]:
    """What a change says, for a program."""
    if isinstance(change, ConditionMet):
        return {"kind": "notice"}
    if isinstance(change, KeptChange):
        return {"kind": change.kind, "row": change.row, "share": change.share}
    if isinstance(change, RowChange):
        return {"kind": change.kind, "row": change.row}
    return {"value": sorted(change.value) if isinstance(change.value, frozenset) else change.value}


def _line(change: RowChange | AnswerChange | ConditionMet) -> tuple[str, ...]:
    """What a change says, for a person."""
    if isinstance(change, ConditionMet):
        when = datetime.fromtimestamp(change.at / SECOND, UTC)
        return (
            "[yellow]![/yellow]",
            f"the condition of {shown(change.view)} became true, {when:%Y-%m-%d %H:%M:%S.%f} UTC",
        )
    if isinstance(change, RowChange):
        sign = "[green]+[/green]" if change.kind == "insert" else "[red]-[/red]"
        row = "  ".join(f"{shown(name)} {shown(value)}" for name, value in change.row.items())
        if not isinstance(change, KeptChange):
            return sign, row
        what = "rows looked up were held" if change.looked_up else "all results so far"
        return sign, row, f"[dim]({change.share:.1%} of {what})[/dim]"
    if isinstance(change.value, frozenset):
        return (", ".join(map(shown, sorted(change.value))) or "nothing",)
    return ("nothing" if change.value is None else shown(change.value),)


def as_line(answer: Answer) -> str:
    """An answer as one line of JSON, the fields in their order."""
    fields = FIELDS if answer.fidelity is None else FIELDS + OF_POLLED
    outage = () if answer.no_pipeline_since is None else ("no_pipeline_since",)
    return json.dumps({name: getattr(answer, name) for name in (*fields, *outage)})


@dataclass
class _Screen:
    """The newest answer of each group."""

    newest: dict[str, Answer] = field(default_factory=dict)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def take_all(self, answers: Iterator[Answer]) -> None:
        for answer in answers:
            with self.lock:
                self.newest[answer.group] = answer

    def current(self) -> list[Answer]:
        """The answers as they stand, by group."""
        with self.lock:
            return [answer for _, answer in sorted(self.newest.items())]

    @property
    def unsettled(self) -> bool:
        """Whether some group is not settled, or nothing was published yet."""
        with self.lock:
            return not self.newest or not all(answer.settled for answer in self.newest.values())

    def picture(self, title: str, messages: MessageRates | None, reason: str) -> Group:
        """The answers, and in a line of its own, which the table's width does not break, why they are not settled."""
        with self.lock:
            newest = sorted(self.newest.items())
        caption = messages.text() if messages else "no figures about messages yet"
        table = Table("group", "value", "±", "low", "high", "age", "state", title=shown(title), caption=caption)
        now = wall_clock()
        for group, answer in newest:
            table.add_row(shown(group or "all"), *numbers(answer), age_text(answer.at, now), state(answer))
        answers = [answer for _, answer in newest]
        if answers and all(answer.settled for answer in answers):
            return Group(table)
        return Group(table, f"not settled: {shown(reason or flags_reason(answers))}")


def numbers(answer: Answer) -> tuple[str, str, str, str]:
    """Value, half-width, low and high as text; what is not known is a dash."""
    half = None if answer.low is None or answer.high is None else (answer.high - answer.low) / 2
    return tuple("–" if x is None else f"{x:,.4g}" for x in (answer.value, half, answer.low, answer.high))  # type: ignore[return-value]


def state(answer: Answer) -> str:
    """Whether the promise holds for an answer, in a word; over a polled stream with its fidelity."""
    if answer.no_pipeline_since is not None:
        return "not current"
    word = "settled" if answer.settled else "stale" if answer.stale else "learning" if answer.learning else "settling"
    if answer.fidelity is None:
        return word
    delivered = "–" if answer.delivered is None else f"{answer.delivered:.1%}"
    return f"{word}, {answer.fidelity:.4g} of the time (so far {delivered})"


def _show(query: str, log: Log, answers: Iterator[Answer], over: Callable[[], bool]) -> None:
    screen = _Screen()
    # The reader has its own thread: it waits for answers while the ages on the screen are updated.
    reader = threading.Thread(target=screen.take_all, args=(answers,), name="answers", daemon=True)
    reader.start()
    spent, reason, looked = query_messages(log, query), unsettled_reason(log, query), time.monotonic()
    console, begun, printed = Screen(), time.monotonic(), None
    with Live(console=console, auto_refresh=False) if console.is_terminal else nullcontext() as live:
        while True:
            ended = over()
            if time.monotonic() - looked > REFRESH_FIGURES:
                spent, looked = query_messages(log, query), time.monotonic()
                reason = unsettled_reason(log, query) if screen.unsettled else ""
            answers_now, waited = screen.current(), ended or time.monotonic() - begun > REFRESH_FIGURES
            if live is not None:
                live.update(screen.picture(query, spent, reason), refresh=True)
            elif (answers_now, reason) != printed and (answers_now or waited):  # into a file or a pipe: what is new
                console.print(screen.picture(query, spent, reason))
                printed = answers_now, reason
            if ended:
                break
            time.sleep(REFRESH)
    reader.join(timeout=1.0)
