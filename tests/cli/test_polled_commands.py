"""What people see of a polled stream: poll, watch, status and explain."""

import json

import pytest
from typer.testing import CliRunner

from tolerant.cli import app
from tolerant.cli.unsettled import unsettled_reason
from tolerant.client import StatementClient
from tolerant.edge import find_stream
from tolerant.kinds.polled.shard import PolledShard
from tolerant.streams import SECOND
from tolerant.transport import open_log
from tolerant.transport.pulls import Pull, pulls_batch
from tolerant.transport.rows import clock_batch, unpack

STREAM = "CREATE STREAM quotes (symbol STRING, price DOUBLE) KEY (symbol) FROM 'http://127.0.0.1:9/{symbol}'"
OPTIONS = " WITH (path = '$.price', tick = '100 ms', timeout = '1 s', max_interval = 5);"
QUERY = "CREATE QUERY total AS SELECT SUM(price) FROM quotes WHERE symbol IN ('A', 'B') WITHIN 2 FIDELITY 0.9;"


def call(*arguments):
    return CliRunner(env={"COLUMNS": "160"}).invoke(app, [str(argument) for argument in arguments])


@pytest.fixture
def log(tmp_path):
    opened = open_log(f"sqlite:///{tmp_path}/log.db", create=True)
    StatementClient(opened).register(STREAM + OPTIONS + QUERY)
    yield opened
    opened.close()


@pytest.fixture
def answered(log):
    """A is well, B fails since its first pull; the pipeline has said how it is."""
    shard = PolledShard(StatementClient(log).parse(STREAM + OPTIONS)[0].stream)
    for tick in range(1_000, 1_016):
        at = tick * SECOND // 10 + 1
        second = (
            Pull("B", tick, at, "value", 2.0) if tick == 1_000 else Pull("B", tick, at, "failed", None, "status 500")
        )
        log.append("pulls.quotes", pulls_batch([Pull("A", tick, at, "value", float(tick)), second]))
        log.append("updates.quotes", clock_batch((tick + 1) * SECOND // 10 + SECOND // 2))
    outputs = shard.apply(log.read(["queries", "updates.quotes", "pulls.quotes"]))
    log.append_packed([(output.topic, output.payload) for output in outputs])
    return log


def test_poll_asks_and_ends(log):
    pytest.importorskip("aiohttp")
    result = call("poll", "--log", log.uri, "--for", "0.3")  # nobody listens at that port
    assert result.exit_code == 0, result.output
    kinds = {kind for entry in log.read("pulls.quotes") for kind in unpack_kinds(entry)}
    assert kinds == {"failed"}


def unpack_kinds(entry):
    return unpack(entry.payload).column("kind").to_pylist()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [(("--part", "3/2"), "--part"), (("nothing",), "no stream nothing"), (("plain",), "not polled")],
)
def test_poll_says_what_is_wrong(log, arguments, said, monkeypatch):
    pytest.importorskip("aiohttp")
    StatementClient(log).register("CREATE STREAM plain (k STRING, v DOUBLE) KEY (k)")
    monkeypatch.setattr(
        "tolerant.edge.polling.stream_poller.find_stream", lambda log, name, _: find_stream(log, name, 0.0)
    )
    result = call("poll", *arguments, "--log", log.uri)
    assert result.exit_code == 2
    assert said in result.output


def test_an_item_that_cannot_be_had_is_the_reason(answered):
    assert unsettled_reason(answered, "total") == "B cannot be had: status 500"


def test_watch_shows_the_fidelity(answered):
    result = call("watch", "total", "--log", answered.uri, "--json", "--for", "0.2", "--from-start")
    first, *_, last = [json.loads(line) for line in result.stdout.splitlines()]
    assert (first["settling"], first["fidelity"], first["delivered"]) == (True, 0.9, None)
    assert (last["stale"], last["low"], last["value"]) == (True, None, 1017.0)
    assert last["fidelity"] < first["fidelity"]
    assert (first["learning"], last["learning"]) == (True, True)  # B was had once only
    assert "of the time" in call("watch", "total", "--log", answered.uri, "--for", "0.2").output


def test_status_and_explain_show_pulls_and_trouble(answered):
    summary = json.loads(call("status", "--log", answered.uri, "--json").stdout)["quotes"]["shards"][0]
    assert (summary["values"], summary["failed"]) == (17, 15)
    assert summary["queries"]["total"]["stale"] == 1
    shown = call("status", "--log", answered.uri).output
    assert "pulls: 17 values, 0 unchanged, 15 failed" in shown
    assert "delivered" in shown
    explained = json.loads(call("explain", "total", "--log", answered.uri, "--json").stdout)
    by_item = {one["item"]: one for one in explained["items"]}
    assert (explained["within"], explained["fidelity"]) == (2.0, 0.9)
    assert (by_item["B"]["stale"], by_item["B"]["reason"], by_item["A"]["failures"]) == (True, "status 500", 0)
    assert by_item["A"]["updates_per_second"] == pytest.approx(10.0, rel=0.1)
    assert "status 500" in call("explain", "total", "--log", answered.uri).output
