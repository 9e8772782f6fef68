"""Names may hold anything: no command breaks on them, and none sends them to the terminal as they are."""

import ast
import io
import unicodedata
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
import typer
from hypothesis import example, given, settings
from hypothesis import strategies as st
from rich.table import Table
from typer.testing import CliRunner

import tolerant.cli
from tolerant.cli import (
    agent,
    app,
    dead,
    explain_bounded,
    explain_channels,
    explain_joins,
    explain_polled,
    figures,
    local,
    plan,
    refresh,
    reporting,
    statement_output,
    status,
    watch,
)
from tolerant.cli.text import Screen, visible
from tolerant.client import ConditionMet, Outage, Refreshed, ViewRows
from tolerant.kinds.ranges.listener import RowChange
from tolerant.queries import Answer
from tolerant.sql import Catalogue, Show, parse
from tolerant.transport import MemoryLog, rows
from tolerant.transport.conflicts import Conflict

PIECES = ["[red]", "[/red]", "[/]", "[bold", "[", "]", "\\", "\x1b[2J", "\x07", "\r", "\n", "\x9b", "\u202e", "\u2028"]
NAMES = st.lists(
    st.one_of(st.sampled_from([*PIECES, ":smile:", "$x^$", "a"]), st.characters()), min_size=1, max_size=8
).map("".join)
HIDDEN = {"Cc", "Cf", "Cs", "Zl", "Zp"}


def console() -> Screen:
    return Screen(file=io.StringIO(), width=10_000)


def check(text: str, name: str, whole: bool = True) -> None:
    """The text is drawn as it stands, and the name can be read in it."""
    assert not [c for c in text if c != "\n" and unicodedata.category(c) in HIDDEN]
    assert not whole or visible(name, keep="") in text


def printed(screen: Screen) -> str:
    return screen.file.getvalue()


def answer(name: str) -> Answer:
    return Answer(name, 1, 1.0, 2.0, 3.0, name)


def empty_items(name: str) -> figures.Items:
    one = np.ones(1)
    return figures.Items([name], one, one, one, one, [name], [True], np.ones((1, 2)))


def of_status(name: str) -> str:
    screen = console()
    source = {"items": 1, "heard": 1, "epoch": 1, "skew": 0, "stale": False}
    query = {"within": 1.0, "groups": 1, "items": 1, "stale": 0, "settling": 0, "late_us": 0}
    summary = {"watermark": 1, "sources": {name: source}, "queries": {name: query}, "late": 1, "dead": 1}
    summary["late_sources"] = {name: [1, 1]}
    conflicts = [Conflict(name, name, name, 1)]
    found = figures.StreamFigures(name, (summary,), empty_items(name))
    group = dead.DeadGroup(name, 1, name, name, name, 1)
    for outage in (None, Outage(name, 1)):
        status._show(screen, status.StreamReport(name, None, found, outage, 1, [group], {}, {name: name}, conflicts))
        status._show(screen, status.StreamReport(name, None, None, outage, None, [], {}, {}, []))
    status._show_table(screen, name, None)
    table = {"watermark": 1, "subscriptions": {name: 2}, "figures": {name: {"rows": 1}}}
    table |= {"late_sources": {name: {"rows": 1, "longest_delay": 1}}, "dead_reasons": [{"count": 1, "example": name}]}
    status._show_table(screen, name, table)
    status._show_table(screen, name, {"watermark": 1, "subscriptions": {}, "views": {name: view(name)}})
    status._show_table(screen, name, {"watermark": 1, "subscriptions": {}, "views": {}, "refused_views": {name: name}})
    return printed(screen)


def view(name: str) -> dict[str, object]:
    table = {"table": name, "pending": 1, "setup": 0.1, "slope": 0.1, "outgrown": True}
    counts = dict.fromkeys(("groups", "pushes", "refreshes", "misses", "notices"), 1)
    limits = {
        "slowest": 0.1,
        "needs": 2.0,
        "shared_by": 2,
        "work": 0.1,
        "within": 1.0,
        "limit": 1.0,
        "working_limit": 1.0,
        "lead": True,
    }
    return {"view": name, "tables": [table], "when": name, "holds": True, **counts, **limits}


def of_watch(name: str) -> str:
    screen, held = console(), watch._Screen()
    held.take_all(iter([answer(name)]))
    screen.print(held.picture(name, None, name))
    row = {name: name}
    for change in (RowChange("insert", row, 1, None), ConditionMet(name, 1, None)):
        screen.print(*watch._line(change), highlight=True)
    return printed(screen)


def of_plan(name: str) -> str:
    from tolerant.planning import Dynamics, Network
    from tolerant.planning import plan as make
    from tolerant.queries import Aggregate

    screen, query = console(), Aggregate(f"q\x00{name}", "sum", {name: 1.0}, 5.0)
    made = make(query, Network({name: {name: 1.0}}), Dynamics((name,), np.ones(1), np.eye(1), 10), "naive")
    plan.show_plan(screen, plan.Planned(name, query, 1, made, made, "", 1.0))
    plan.show_plan(screen, plan.Planned(name, query, 1, None, None, name, 1.0))
    return printed(screen)


RENDERED = {"status": of_status, "watch": of_watch, "plan": of_plan}


@pytest.mark.parametrize("command", RENDERED)
@settings(max_examples=60)
@given(name=NAMES)
@example(name="[/bold]\x1b]0;owned\x07")
def test_rendering_of_any_name(command: str, name: str) -> None:
    check(RENDERED[command](name), name)


def explained(name: str) -> None:
    share = explain_bounded.Share(name, name, 1.0, 1.0, 1.0, 1.0, name, True, (1.0, 1.0))
    explain_bounded.BoundedExplanation(name, name, "sum", 1.0, 1.0, (share,), ()).show()


def explained_polled(name: str) -> None:
    asked = explain_polled.Asked(name, name, 1.0, None, 1.0, 1.0, 1.0, 1.0, 1.0, True, 3, name)
    explain_polled.PolledExplanation(name, name, "sum", 1.0, 0.9, None, 1.0, (asked,)).show()


def explained_join(name: str) -> None:
    for keep, looked_up in ((None, None), (5, None), (5, name)):
        explain_joins._show(
            explain_joins.JoinExplanation(name, (name, "other"), True, keep, (), 1, 1, 0.5, 0.1, looked_up)
        )


def explained_channels(name: str) -> None:
    prices = {"channel": 1.0, "transfer": 1.0, "waste": 1.0, "procedure": name}
    largest = {"channel": 1, "channels": 1, "members": 2, "regions": [[0.0, 1.0]], "rows": 1, "in_vain": 1, "saves": 1}
    counts = ("subscriptions", "channels", "shared", "rows_sent", "rows_apart", "rows_in_vain", "cost_apart", "cost")
    bill = dict.fromkeys(("channels", "transfer", "waste"), 1.0)
    told = {"prices": prices, "columns": [name], "largest": [largest], "bill": bill, "lower_bound": None}
    explain_channels._show(name, {**told, **dict.fromkeys(counts, 1)}, Screen())


def refreshed(name: str) -> None:
    rows_of_view = ViewRows((name,), ({name: name},), 1)
    refresh._show(name, Refreshed(rows_of_view, 1.0, 2.0, 0.5, 0.1, {name: 1}))


def submitted(name: str) -> None:
    statement_output._tell(name, 1, ((1, name),))


def metrics(name: str) -> None:
    Screen().print(agent._table(name, {name: 1.0}))


PRINTED = (explained, explained_polled, explained_join, explained_channels, refreshed, submitted, metrics)


@pytest.mark.parametrize("show", PRINTED)
def test_printing_of_any_name(show, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "10000")

    @settings(max_examples=40)
    @given(name=NAMES)
    @example(name="[/bold]\x1b]0;owned\x07")
    def every(name: str) -> None:
        show(name)
        output = capsys.readouterr()
        check(output.out + output.err, name)

    every()


@given(name=NAMES.filter(lambda name: not any(unicodedata.category(c) == "Cs" for c in name)))
@settings(max_examples=30)
@example(name="[/bold]\x1b]0;owned\x07")
def test_dead_letters_of_any_name(name: str) -> None:
    log = MemoryLog()
    row = dict.fromkeys(rows.DEAD.names) | {"source": name, "kind": "update", "key": name, "reason": name, "at": 1}
    log.append("dead_letters.s", pa.RecordBatch.from_pylist([row], schema=rows.DEAD))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(dead, "existing_log", lambda uri: log)
        result = CliRunner().invoke(app, ["dead", "s"], env={"COLUMNS": "10000"})
        check(result.output, name)
        assert result.exit_code == 0, result.exception
        unknown = CliRunner().invoke(app, ["dead", "--", f"x{name}"])
    assert unknown.exit_code == 1
    check(unknown.output, "", whole=False)


def test_statements_and_errors(capsys: pytest.CaptureFixture[str]) -> None:
    stream = "CREATE STREAM s (k STRING, v DOUBLE) KEY (k)"
    query = "CREATE QUERY q AS SELECT SUM(v) FROM s WHERE k = '[/b]\x1b' WITHIN 1"
    local._show(Catalogue(map(parse, (stream, query))), Show("queries"), as_json=False)
    assert "'[/b]\\x1b'" in capsys.readouterr().out
    with pytest.raises(typer.Exit):
        reporting._leave("no item \x1b[2J", 1)
    assert capsys.readouterr().err == "tolerant: no item \\x1b[2J\n"


def test_pictures_of_names_that_look_like_formulas(tmp_path: Path) -> None:
    from tolerant.planning import Dynamics, Network
    from tolerant.planning import plan as make
    from tolerant.queries import Aggregate

    name = r"$\\frac{$ a$"
    query = Aggregate(name, "sum", {name: 1.0}, 5.0)
    made = make(query, Network({name: {name: 1.0}}), Dynamics((name,), np.ones(1), np.eye(1), 10), "naive")
    plan.draw([plan.Planned(name, query, 1, made, made, "", 1.0)], tmp_path / "plan.png")
    told = {
        "rectangles": [[0, 0.0, 1.0]],
        "largest": [],
        "columns": [name],
        **dict.fromkeys(("subscriptions", "channels", "shared"), 1),
    }
    explain_channels.ChannelExplanation(name, told).draw(tmp_path / "channels.png")
    assert {path.name for path in tmp_path.iterdir()} == {"plan.png", "channels.png"}


def test_a_console_survives_what_was_forgotten() -> None:
    screen = console()
    table = Table("name", title="[/red]")
    table.add_row("[/bold]\x1b[2J")
    screen.print(table)
    screen.print("[/nonsense]\u202e")
    assert "[/bold]\\x1b[2J" in printed(screen)
    assert "[/nonsense]\\u202e" in printed(screen)


def test_every_command_prints_on_a_screen() -> None:
    """No module of commands makes a console of its own, which would send what it is given."""
    for file in Path(tolerant.cli.__file__).parent.glob("*.py"):
        if file.name != "text.py":
            tree = ast.parse(file.read_text())
            names = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
            assert "Console" not in names, f"{file.name}: use tolerant.cli.text.Screen"
