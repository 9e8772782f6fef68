"""The commands that read a log: watch, status, explain, dead."""

import json
import subprocess
import sys

import numpy as np
import pyarrow as pa
import pytest
from typer.testing import CliRunner

from tolerant.cli import app
from tolerant.cli.explain_bounded import BoundedExplanation, Share, estimates
from tolerant.cli.figures import MessageRates
from tolerant.filters.status_view import FACTORS
from tolerant.streams import SECOND
from tolerant.transport import rows


def call(*arguments):
    return CliRunner(env={"COLUMNS": "120"}).invoke(app, [str(argument) for argument in arguments])


def lines(result):
    assert result.exit_code == 0, result.output
    return [json.loads(line) for line in result.stdout.splitlines()]


def test_watch_gives_the_current_answer_as_json(traffic):
    found = lines(call("watch", "inbound", "--log", traffic.log.uri, "--json", "--for", 0))
    assert len(found) == 1
    assert list(found[0]) == ["query", "group", "at", "low", "value", "high", "stale", "settling"]
    assert found[0]["low"] <= found[0]["value"] <= found[0]["high"]
    assert isinstance(found[0]["at"], int)


def test_watch_from_the_start_gives_all_in_order(traffic):
    found = lines(call("watch", "inbound", "--log", traffic.log.uri, "--json", "--from-start", "--for", 0.5))
    times = [answer["at"] for answer in found]
    assert len(times) > 5
    assert times == sorted(times)


def test_watch_on_a_terminal_shows_value_and_bound(traffic):
    result = call("watch", "inbound", "--log", traffic.log.uri, "--for", 0.3)
    assert result.exit_code == 0
    assert "±" in result.stdout
    assert "settled" in result.stdout


def test_watch_into_a_pipe_prints_what_changes_as_it_changes(traffic):
    """Into a file or a pipe there is no picture to draw again: what is printed must not wait for the end."""
    command = [sys.executable, "-m", "tolerant", "watch", "inbound", "--log", traffic.log.uri]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as watching:
        try:
            first = [watching.stdout.readline() for _ in range(4)]
            assert any("inbound" in line for line in first)
            old = {"query": "inbound", "group": "new", "at": traffic.now, "low": 1.0, "value": 2.0, "high": 3.0}
            old |= {"stale": False, "settling": False}
            traffic.log.append("answers.inbound", pa.RecordBatch.from_pylist([old], rows.ANSWERS))
            assert any("new" in line for line in iter(watching.stdout.readline, ""))
        finally:
            watching.kill()


def test_status_counts_what_was_sent(traffic):
    found = json.loads(call("status", "--log", traffic.log.uri, "--json").stdout)["traffic"]
    assert found["messages"]["hellos"] == 3
    assert found["messages"]["updates"] > 0
    assert found["messages"]["total"] == sum(n for kind, n in found["messages"].items() if kind != "total")
    assert found["late"] == 0
    assert 0 <= found["saved"] <= 1


def test_status_reads_well(traffic):
    result = call("status", "--log", traffic.log.uri)
    assert result.exit_code == 0
    for word in ("traffic", "messages", "late rows", "test", "live", "inbound"):
        assert word in result.stdout


def test_explain_says_where_the_tolerance_goes(traffic):
    found = json.loads(call("explain", "inbound", "--log", traffic.log.uri, "--json").stdout)
    assert found["query"] == "inbound"
    assert found["within"] == 5
    assert {item["item"] for item in found["items"]} == {'["web-1","in"]', '["web-2","in"]'}
    assert {"item", "weight", "width", "updates_per_second", "burden"} <= set(found["items"][0])
    assert sum(item["width"] for item in found["items"]) <= 10 * (1 + 1e-9)
    assert found["items"][0]["updates_per_second"] >= found["items"][1]["updates_per_second"]


def test_explain_reads_well(traffic):
    result = call("explain", "inbound", "--log", traffic.log.uri)
    assert result.exit_code == 0
    assert "estimate" in result.stdout


def test_rates_of_long_ticks_are_per_tick():
    assert MessageRates(2, 1 / 600, 2 / 300).text().startswith("0.50 updates per tick (5 min) from 2 items")
    assert MessageRates(2, 0.5, 2.0).text().startswith("0.50 updates per second from 2 items")


def test_explain_tells_rates_per_tick_where_ticks_are_long(capsys):
    shares = (share(1 / 600), share(1 / 600))
    BoundedExplanation("q", "slow", "sum", 5.0, 1 / 300, shares, (), 300 * SECOND).show()
    assert "2 items send 1.000 updates per tick (5 min)." in capsys.readouterr().out


def share(rate):
    return Share("i", "", 1.0, 2.0, rate, 0.0, "s", False, tuple(factor**-2 for factor in FACTORS))


def test_estimates_follow_the_curves_and_stop_at_a_message_a_tick():
    tight, *_, wide = estimates([share(0.4), share(0.02)], 5.0, SECOND)
    assert (tight.within, wide.within) == (2.5, 10.0)
    assert tight.updates_per_second == pytest.approx(1.0 + 0.08)
    assert wide.updates_per_second == pytest.approx(0.42 / 4)
    assert wide.saved_per_second == pytest.approx(0.42 * 3 / 4)
    assert estimates([share(1.0)], 0.0, SECOND) == ()


def test_dead_rows_are_shown_with_the_reason(traffic):
    row = {"reason": "value must be finite", "kind": "update", "key": "k", "at": 2**62, "source": "s", "sequence": 1}
    batch = pa.RecordBatch.from_pylist([{**row, "value": np.nan, "payload": b"\x01"}], schema=rows.DEAD)
    traffic.log.append("dead_letters.traffic", batch)
    assert "value must be finite" in call("dead", "traffic", "--log", traffic.log.uri).stdout.replace("\n", " ")
    found = lines(call("dead", "traffic", "--log", traffic.log.uri, "--json"))
    assert found[0]["payload"] == "01"


def test_nothing_dead_is_said_so(traffic):
    assert "No row" in call("dead", "traffic", "--log", traffic.log.uri).stdout


@pytest.mark.parametrize("command", [["watch", "q"], ["status"], ["explain", "q"], ["dead", "s"]])
def test_a_log_that_is_not_there_is_said_without_a_traceback(command, tmp_path):
    result = call(*command, "--log", f"sqlite:///{tmp_path}/none.db")
    assert result.exit_code == 1
    assert "there is no log" in result.output
    assert "Traceback" not in result.output
    assert not (tmp_path / "none.db").exists()


def test_an_unknown_query_is_named_with_those_there_are(traffic):
    result = call("explain", "outbound", "--log", traffic.log.uri)
    assert result.exit_code == 1
    assert "inbound" in result.output


def test_a_wrong_uri_is_a_wrong_call(tmp_path):
    result = call("status", "--log", "ftp://nowhere")
    assert result.exit_code == 2
    assert "sqlite:///" in result.output
