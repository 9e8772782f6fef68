"""Rows of the topic `queries` that hold no statement stop nobody who reads it: each is told of, and what comes behind
counts.
"""

import json
import sys
from pathlib import Path

import pyarrow as pa
import pytest
from test_view_pushes import DEMAND, SUPPLY

from tolerant.client import StatementClient, load_catalogue
from tolerant.edge.definition import find_stream, find_table
from tolerant.edge.polling.stream_poller import StreamPoller
from tolerant.kinds import shard_factory
from tolerant.spark.runner import Runner
from tolerant.spark.views.shard import ViewShard
from tolerant.sql import CreateStream, JoinInput, encode, parse
from tolerant.sql.pipeline_inputs import AppendOnlyJoinInput, Views
from tolerant.testing.networks import SimulatedNetwork
from tolerant.transport import MemoryLog
from tolerant.transport.changes import clock_row
from tolerant.transport.rows import STATEMENTS, clock_batch, pack, unpack
from tolerant.transport.topics import changes_topic

sys.path.insert(0, str(Path(__file__).parents[1] / "fuzz"))
from encoded_statements import EVIL_EXPRESSIONS, EVIL_SELECTS, crafted

TRAFFIC = parse("CREATE STREAM traffic (host STRING, rate DOUBLE) KEY (host)")
QUOTES = parse("CREATE STREAM quotes (symbol STRING, price DOUBLE) KEY (symbol) FROM 'http://h/{key}'")
PRICES = CreateStream(SimulatedNetwork(1).stream)
GOOD = {
    "traffic": "CREATE QUERY good AS SELECT SUM(rate) FROM traffic WITHIN 5",
    "quotes": "CREATE QUERY good AS SELECT SUM(price) FROM quotes WHERE symbol = 'A' WITHIN 5 FIDELITY 0.9",
    "prices": "CREATE QUERY good AS SELECT SUM(price) FROM prices WITHIN 100",
    "table": "CREATE QUERY good(low) AS SELECT * FROM supply WHERE a BETWEEN low AND 5",
    "pair": "CREATE QUERY good(low) AS SELECT * FROM supply JOIN demand ON demand.c - supply.a BETWEEN low AND 5",
    "growing": "CREATE QUERY good AS SELECT * FROM supply JOIN demand ON supply.product = demand.product KEEP 5 ROWS",
    "views": "CREATE QUERY good AS SELECT SUM(a) AS t FROM supply JOIN demand ON supply.id = demand.id"
    " REFRESH WITHIN '5 s'",
}
SHARDS = {
    "traffic": lambda: shard_factory(TRAFFIC.stream, 1, "x")(0),
    "quotes": lambda: shard_factory(QUOTES.stream, 1, "x")(0),
    "prices": lambda: shard_factory(PRICES.stream, 1, "x")(0),
    "table": lambda: shard_factory(SUPPLY, 1, "x")(0),
    "pair": lambda: shard_factory(JoinInput.of(SUPPLY, DEMAND), 1, "x")(0),
    "growing": lambda: shard_factory(AppendOnlyJoinInput.of(SUPPLY, DEMAND), 1, "x")(0),
    "views": lambda: ViewShard(Views((DEMAND, SUPPLY))),
}


def statement_row(body):
    return {"kind": "query", "key": "q", "request": "r", "text": "", "body": body}


def packed(column, values, name="body"):
    rows = {"kind": pa.array(["query"] * len(values)), "key": pa.array(["q"] * len(values))}
    rows |= {
        "request": pa.array(["r"] * len(values)),
        "text": pa.array([""] * len(values)),
        name: pa.array(values, column),
    }
    return pack(pa.record_batch(rows))


def bad_entries():
    views = [f"SELECT {expression} AS v FROM supply" for expression in EVIL_EXPRESSIONS[:5]] + EVIL_SELECTS[:20]
    view = {"is": "ViewSelect", "tables": ["supply"], "refresh": 5_000_000, "when": None}
    query = {"is": "CreateQuery", "name": "q", "parameters": []}
    bodies = [json.dumps(query | {"select": view | {"sql": sql}}) for sql in views]
    bodies += [text for text in crafted() if len(text) < 5000 and "\ud800" not in text][:60]
    return {
        "null": packed(pa.string(), [None, None]),
        "integers": packed(pa.int64(), [1, 2]),
        "bytes": packed(pa.binary(), [b"\xff\x00", b"{}"]),
        "nulls": packed(pa.null(), [None]),
        "lists": packed(pa.list_(pa.string()), [["a"]]),
        "another column": packed(pa.string(), ["a"], "bodies"),
        "no rows": pack(pa.RecordBatch.from_pylist([], STATEMENTS)),
        "no request": pack(pa.record_batch({"body": pa.array(["{}"])})),
        "null request": pack(pa.RecordBatch.from_pylist([statement_row("{}") | {"request": None}], STATEMENTS)),
        "no Arrow": b"\x00\x01 nothing",
        "nothing": b"",
        "bodies": pack(pa.RecordBatch.from_pylist([statement_row(body) for body in bodies], STATEMENTS)),
    }


def log_of(what, *entries):
    """The definitions, bad entries, and a good statement behind them."""
    log = MemoryLog()
    for statement in (TRAFFIC, QUOTES, PRICES, SUPPLY, DEMAND):
        StatementClient(log).send(statement)
    log.append_packed([("queries", entry) for entry in entries])
    StatementClient(log).send(parse(GOOD[what]))
    return log


@pytest.mark.parametrize("what", SHARDS)
def test_a_shard_goes_on(what):
    log = log_of(what, *bad_entries().values())
    at = 1_000_000_000_000_000
    for second in (0, 1, 2):
        for stream in ("traffic", "quotes", "prices"):
            log.append(f"updates.{stream}", clock_batch(at + second * 1_000_000))
        for table in (SUPPLY, DEMAND):
            log.append(changes_topic(table.name), clock_row(table.columns, at + second * 1_000_000, 1, "x"))
    shard = SHARDS[what]()
    topics = {"traffic": ["updates.traffic"], "quotes": ["updates.quotes"], "prices": ["updates.prices"]}
    tables = [changes_topic("supply")] if what == "table" else [changes_topic("supply"), changes_topic("demand")]
    outputs = shard.apply(log.read(["queries", *topics.get(what, tables)]))
    replies = [row for output in outputs if output.topic == "replies" for row in unpack(output.payload).to_pylist()]
    replies += getattr(shard, "replies", [])
    assert [reply["accepted"] for reply in replies if reply["key"] == "good"] == [True]
    dead = [output for output in outputs if output.topic.startswith("dead_letters.")]
    assert sum(unpack(output.payload).num_rows for output in dead) > len(bad_entries())


def test_readers_beside_the_pipelines_go_on():
    log = log_of("quotes", *bad_entries().values())
    StatementClient(log).send(parse("SUBSCRIBE area(1, 2)"))
    assert "good" in load_catalogue(log).queries
    assert StatementClient(log).subscribed() == {parse("SUBSCRIBE area(1, 2)")}
    assert find_stream(log, "traffic", timeout=0).name == "traffic"
    assert find_table(log, "supply", timeout=0) == SUPPLY
    poller = StreamPoller("quotes", log, name="test")
    poller.restore()
    assert list(poller.poller.items) == ["A"]


def test_the_runner_goes_on(tmp_path):
    """Without Spark: what the statements come to, not the pipelines."""
    log = log_of("traffic", *bad_entries().values())
    runner = Runner(log, tmp_path)
    runner._start_and_stop = lambda: None
    runner._follow()
    assert "good" in runner._statements.catalogue.queries
    assert not any(name == "q" for name in runner._statements.catalogue.queries)


def test_an_item_of_a_bad_entry_is_told_by_its_row():
    log = log_of("traffic", packed(pa.string(), [encode(TRAFFIC), None, "{"]))
    shard = SHARDS["traffic"]()
    outputs = shard.apply([*log.read("queries"), *_clock(log)])
    reasons = [
        row["reason"]
        for output in outputs
        if output.topic == "dead_letters.traffic"
        for row in unpack(output.payload).to_pylist()
    ]
    assert any("row 1 has no body" in reason for reason in reasons)
    assert any("not an encoded statement" in reason for reason in reasons)


def _clock(log):
    for _ in range(2):  # a first one that names no pipeline waits for another
        log.append("updates.traffic", clock_batch(1_000_000_000_000_000))
    return log.read("updates.traffic")
