"""What every kind of shard does with entries that it cannot use: dead letters, and it goes on; the same for the same
log however it is cut into batches, and when it is restored.
"""

import json

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tolerant.kinds import shard_factory
from tolerant.pipeline.shard import Shard
from tolerant.spark.views.shard import ViewShard
from tolerant.sql import CreateStream, JoinInput, encode, parse
from tolerant.sql.pipeline_inputs import AppendOnlyJoinInput, Views
from tolerant.streams import SECOND
from tolerant.testing.networks import SimulatedNetwork
from tolerant.transport.changes import clock_row
from tolerant.transport.log import Entry
from tolerant.transport.quarantine import NamedRow, Quarantined, as_marked
from tolerant.transport.rows import STATEMENTS, clock_batch, pack, unpack

TRAFFIC = parse("CREATE STREAM traffic (host STRING, rate DOUBLE) KEY (host)")
QUOTES = parse("CREATE STREAM quotes (symbol STRING, price DOUBLE) KEY (symbol) FROM 'http://h/{key}'")
PRICES = CreateStream(SimulatedNetwork(1).stream)
SUPPLY = parse("CREATE TABLE supply (id BIGINT, product STRING, a INT) KEY (id)")
DEMAND = parse("CREATE TABLE demand (id BIGINT, product STRING, c DOUBLE) KEY (id)")
BOTH = JoinInput.of(SUPPLY, DEMAND)
GROWING = AppendOnlyJoinInput.of(SUPPLY, DEMAND)
VIEWS = Views((DEMAND, SUPPLY))
AT = 1_000_000_000_000_000
MARKED = "marked"

KINDS = {
    "bounded": (
        lambda: shard_factory(TRAFFIC.stream, 1, "x")(0),
        "CREATE QUERY good AS SELECT SUM(rate) FROM traffic WITHIN 5",
        ["updates.traffic"],
    ),
    "polled": (
        lambda: shard_factory(QUOTES.stream, 1, "x")(0),
        "CREATE QUERY good AS SELECT SUM(price) FROM quotes WHERE symbol = 'A' WITHIN 5 FIDELITY 0.9",
        ["updates.quotes", "pulls.quotes"],
    ),
    "networked": (
        lambda: shard_factory(PRICES.stream, 1, "x")(0),
        "CREATE QUERY good AS SELECT SUM(price) FROM prices WITHIN 100",
        ["updates.prices", "reports.prices"],
    ),
    "table": (
        lambda: shard_factory(SUPPLY, 1, "x")(0),
        "CREATE QUERY good(low) AS SELECT * FROM supply WHERE a BETWEEN low AND 5",
        ["changes.supply", "subscriptions.supply"],
    ),
    "pair": (
        lambda: shard_factory(BOTH, 1, "x")(0),
        "CREATE QUERY good(low) AS SELECT * FROM supply JOIN demand ON demand.c - supply.a BETWEEN low AND 5",
        ["changes.supply", "changes.demand", f"subscriptions.{BOTH.name}"],
    ),
    "growing": (
        lambda: shard_factory(GROWING, 1, "x")(0),
        "CREATE QUERY good AS SELECT * FROM supply JOIN demand ON supply.product = demand.product KEEP 5 ROWS",
        ["changes.supply", "changes.demand"],
    ),
    "views": (
        lambda: ViewShard(VIEWS),
        "CREATE QUERY good AS SELECT SUM(a) AS t FROM supply JOIN demand ON supply.id = demand.id REFRESH WITHIN '5 s'",
        ["changes.supply", "changes.demand", f"refreshes.{VIEWS.name}"],
    ),
}

BAD_PAYLOADS = [
    b"",
    b"\x00\x01 no Arrow",
    pack(pa.record_batch({"nobody": pa.array(["knows this column"])})),
    pack(pa.record_batch({"body": pa.array(["{}"]), "at": pa.array([None], pa.int64())})),
]


def statement(body):
    row = {"kind": "query", "key": "q", "request": "r", "text": "", "body": body}
    return pack(pa.RecordBatch.from_pylist([row], STATEMENTS))


BAD_STATEMENTS = [*BAD_PAYLOADS, statement("{"), statement("null"), statement('{"is": "CreateQuery"}')]


def log_of(kind, bad):
    """The definitions, bad entries with clock rows between them, a good query, and more clock rows."""
    _, good, topics = KINDS[kind]
    created = (TRAFFIC, QUOTES, PRICES, SUPPLY, DEMAND)
    entries = [("queries", statement(encode(each))) for each in created]
    for second, (place, payload) in enumerate(bad, 1):
        topic = ["queries", "changes.of_nobody", MARKED, *topics][place % (3 + len(topics))]
        entries.append((topic, payload))
        entries += clock_rows(topics, AT + second * SECOND // 2)
    entries.append(("queries", statement(encode(parse(good)))))
    entries += [row for second in (5, 6) for row in clock_rows(topics, AT + second * 10 * SECOND)]
    return [entry(position, *content) for position, content in enumerate(entries, 1)]


def entry(position, topic, payload):
    if topic != MARKED:
        return Entry(topic, 0, position, payload)
    rows = (NamedRow("update", "a", "edge", 1), NamedRow("clock", "", "", 0))
    skipped = Quarantined("updates.traffic", position, "a bug", 0, rows, waiting=())
    return as_marked(skipped, Entry("updates.traffic", 0, position, payload))


def clock_rows(topics, at):
    tables = {"changes.supply": SUPPLY, "changes.demand": DEMAND}
    for topic in topics:
        if topic in tables:
            yield topic, pack(clock_row(tables[topic].columns, at, 1, "x"))
        elif topic.startswith("updates."):
            yield topic, pack(clock_batch(at))


def rows_of(outputs, topic):
    return [row for output in outputs if output.topic.startswith(topic) for row in unpack(output.payload).to_pylist()]


def replies_of(shard, outputs):
    return rows_of(outputs, "replies") + getattr(shard, "replies", [])


def taken(shard, entries, cut):
    return [output for start in range(0, len(entries), cut) for output in shard.apply(entries[start : start + cut])]


bad_entries = st.lists(st.tuples(st.integers(0, 5), st.sampled_from(BAD_STATEMENTS)), max_size=8)
few = settings(max_examples=8, deadline=None, suppress_health_check=[HealthCheck.too_slow])


@pytest.mark.parametrize("kind", KINDS)
@few
@given(bad=bad_entries)
def test_bad_entries_are_dead_letters_and_the_shard_goes_on(kind, bad):
    shard = KINDS[kind][0]()
    assert isinstance(shard, Shard)
    outputs = shard.apply(log_of(kind, bad))
    assert [reply["accepted"] for reply in replies_of(shard, outputs) if reply["key"] == "good"] == [True]
    assert shard.watermark is not None
    assert shard.watermark > AT + 50 * SECOND
    letters = rows_of(outputs, "dead_letters.")
    assert len(letters) >= len(bad)
    assert all(letter["reason"] for letter in letters)
    status = [row for row in rows_of(outputs, "status.") if row["key"].startswith("summary")]
    assert json.loads(status[-1]["body"])["dead"] >= len(bad)


@pytest.mark.parametrize("kind", KINDS)
@few
@given(bad=bad_entries, cut=st.integers(1, 5))
def test_dead_letters_replies_and_state_are_functions_of_the_log(kind, bad, cut):
    make, entries = KINDS[kind][0], log_of(kind, bad)
    (one, other), outputs = (make(), make()), []
    for shard, size in ((one, len(entries)), (other, cut)):
        own = taken(shard, entries, size)
        outputs.append([rows_of(own, "dead_letters."), replies_of(shard, own)])
    assert outputs[0] == outputs[1]
    assert one.watermark == other.watermark


@pytest.mark.parametrize("kind", KINDS)
@few
@given(bad=bad_entries, cut=st.integers(0, 30))
def test_a_restored_shard_goes_on_as_if_nothing_had_happened(kind, bad, cut):
    make, entries = KINDS[kind][0], log_of(kind, bad)
    shard, again = make(), make()
    shard.apply(entries[:cut])
    snapshot = shard.snapshot()
    again.restore(snapshot)
    assert again.snapshot() == snapshot
    assert again.waiting_rows() == shard.waiting_rows()
    assert again.apply(entries[cut:]) == shard.apply(entries[cut:])
    assert again.snapshot() == shard.snapshot()


@pytest.mark.parametrize("kind", KINDS)
def test_a_snapshot_of_another_kind_or_layout_is_refused(kind, monkeypatch):
    make, others = KINDS[kind][0], [KINDS[other][0] for other in KINDS if other != kind]
    snapshot = make().snapshot()
    for other in others:
        with pytest.raises(ValueError, match="expected one of"):
            other().restore(snapshot)
    shard = make()
    schema = type(shard).SCHEMA
    monkeypatch.setattr(type(shard), "SCHEMA", type(schema)(schema.shard, schema.number + 1))
    with pytest.raises(ValueError, match=f"schema {schema.number}, .*have the log read again"):
        shard.restore(snapshot)


@pytest.mark.parametrize("kind", KINDS)
def test_dead_letters_of_one_entry_are_bounded(kind):
    shard = KINDS[kind][0]()
    rows = {"kind": ["q"] * 5000, "key": ["q"] * 5000, "request": ["r"] * 5000, "text": [""] * 5000}
    empty = pack(pa.record_batch({**rows, "body": pa.array([None] * 5000, pa.string())}))
    letters = rows_of(shard.apply([Entry("queries", 0, 1, empty)]), "dead_letters.")
    assert len(letters) <= 101
    assert any("5,000" in letter["reason"] for letter in letters)


@pytest.mark.parametrize("kind", ["table", "pair"])
def test_only_the_first_shard_replies_and_publishes_dead_letters(kind):
    relation = {"table": SUPPLY, "pair": BOTH}[kind]
    entries = log_of(kind, [(0, b"")])
    outputs = [shard_factory(relation, 1, "x")(number).apply(entries) for number in (0, 1)]
    assert [bool(rows_of(own, "replies")) for own in outputs] == [True, False]
    assert [bool(rows_of(own, "dead_letters.")) for own in outputs] == [True, False]
