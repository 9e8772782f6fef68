"""What is read back from compacted topics: a record that cannot be read is left out, and nobody ends for it."""

import json
import threading
import warnings

import numpy as np
import pytest

from tolerant.cli.figures import stream_figures, table_figures
from tolerant.client import Client, StatementClient, load_catalogue
from tolerant.client.answer_listener import current_answers
from tolerant.client.missing_replies import why_no_reply
from tolerant.client.row_select import select_rows
from tolerant.edge import Source, Table
from tolerant.edge.aggregators.inflow import read_received_rows
from tolerant.edge.definition import find_stream
from tolerant.edge.source_core import SourceCore
from tolerant.edge.source_transport import SourceTransport
from tolerant.kernels.decay import decayed
from tolerant.kinds.ranges.listener import table_rows
from tolerant.queries import Answer
from tolerant.spark.occupancy import live_owner
from tolerant.sql import parse
from tolerant.streams import SECOND, Limits
from tolerant.transport.common import abandoned, passed_by_all, registration, wall_clock
from tolerant.transport.conflicts import Conflict, conflict_body, open_conflicts, read_conflicts
from tolerant.transport.heartbeats import Heartbeat, heartbeat_batch
from tolerant.transport.log import Fence, LogError
from tolerant.transport.memory import MemoryLog
from tolerant.transport.plans import Wanted, plan_body, plan_key, read_announcements
from tolerant.transport.quarantine import NamedRow, Quarantined, bodies, quarantined, record
from tolerant.transport.records import BadRecord, records
from tolerant.transport.rows import (
    GRANT_BODY,
    STATEMENTS,
    Grant,
    compacted,
    current_body,
    grants_batch,
    pack,
    read_grants,
    unpack,
    updates_batch,
)
from tolerant.transport.sums import Sums, read_sums, sums_body, sums_key
from tolerant.transport.topics import EPOCHS, HEARTBEATS, POSITIONS, current_topic
from tolerant.transport.views import HEADER, read_view

STREAM = parse("CREATE STREAM traffic (host STRING, rate DOUBLE) KEY (host)")
JUNK = (b"", b"\x00", b"null", b"[]", b'{"a":', b"\xff\xfe", b"[" * 100_000, b'{"query":1}', b"7", b'[["x"]]')


def junk(*good):
    """Records with bodies that are nothing, around good ones."""
    rows = [(f"junk{place}", 1, body) for place, body in enumerate(JUNK)]
    return compacted([*rows[:5], *good, *rows[5:]])


def test_grants_that_cannot_be_read_do_not_end_a_source():
    log = MemoryLog()
    StatementClient(log).send(STREAM)
    stream = find_stream(log, "traffic")
    core = SourceCore("edge", 1, stream.options)
    post = SourceTransport(core, log, stream, threading.Condition(), lambda: 10 * SECOND)
    core.offer(core.register(["a"]), np.array([1.0]), SECOND)
    good = grants_batch([Grant("a", 4.0, 0.0, SECOND, 1, False)]).to_pylist()[0]
    log.append("grants.traffic", junk((good["key"], 5, good["body"])))
    log.append("sums.traffic", junk((sums_key("edge", 0), 1, b'[{"keys": 1}]'), ("x", 2, None)))
    with pytest.warns(UserWarning, match="left out"):
        assert post.exchange()
    assert core.filter_of("a").width == 4.0


@pytest.mark.parametrize(
    ("field", "value"),
    [("width", np.nan), ("width", -1.0), ("shrink", 1.0), ("shrink", np.nan), ("since", -(2**63)), ("since", 2**63 - 1),
     ("unit", np.inf), ("far", 5), ("leave", np.nan)],
)  # fmt: skip
def test_a_grant_with_numbers_that_cannot_be_is_left_out(field, value):
    batch = grants_batch([Grant("a", 4.0, 0.0, SECOND, 1, False), Grant("b", 4.0, 0.0, SECOND, 1, False)])
    bodies = np.frombuffer(b"".join(batch.column("body").to_pylist()), GRANT_BODY).copy()
    bodies[0][field] = value
    wrong = compacted([(key, 1, body.tobytes()) for key, body in zip("ab", bodies, strict=True)])
    with pytest.warns(UserWarning, match="1 grants were left out"):
        assert [grant.item for grant in read_grants(wrong)] == ["b"]


def test_sums_that_make_no_sense_are_left_out():
    good = Sums(("\x1f0/1",), ("a", "b"), ((0, 1),), ((1.0, 2.0),), (3.0,), (None, 1.0), False)
    key = sums_key("edge", 0)
    assert read_sums(compacted([(key, 1, sums_body([good]))]), "edge")[0].sets == (good,)
    wrong = {"shares": ["x"], "parts": [[0.5, 1]], "weights": [[None, 1]], "items": [1, 2], "alone": 5}
    for name, value in [*wrong.items(), ("parts", [[0, 7]])]:
        body = json.dumps([{**vars(good), name: value}]).encode()
        with pytest.warns(BadRecord):
            assert read_sums(compacted([(key, 1, body)]), "edge") == []


def test_plans_that_cannot_be_read_do_not_end_an_aggregator():
    wanted = Wanted("D1", 0, 7, "sum", {"a": 1.0}, 0.5)
    good = (plan_key("q", ""), 7, plan_body([wanted]))
    bad = [
        (plan_key("r", ""), 1, plan_body([wanted._replace(push="x")])),
        (plan_key("s", ""), 1, b"[[1]]"),
        ("[" * 2000, 1, b"[]"),
    ]
    with pytest.warns(BadRecord):
        found = read_announcements(pack(junk(good, *bad)))
    assert [one.query for one in found if one.wanted] == ["q"]
    assert read_received_rows(b"nothing", "", Limits()) == []
    rows = updates_batch(kind="update", keys=["a"] * 3, at=[1, 2**63 - 1, 2], source="s", sequence=[1, 1, -5],
                         through=1, value=[1.0, 1.0, np.nan])  # fmt: skip
    assert [row.at for row in read_received_rows(pack(rows), "", Limits())] == [1]


@pytest.mark.parametrize("shrink", [5e-324, 1e-20, 1e-9])
@pytest.mark.timeout(60)
def test_a_filter_that_hardly_shrinks_is_no_endless_work(shrink):
    assert decayed(4.0, shrink, 10) <= 4.0
    assert decayed(4.0, shrink, 10**12) == decayed(4.0, shrink, 10**13) > 3.0
    assert decayed(4.0, 0.05, 10**6) == 0.0


@pytest.mark.parametrize(
    ("field", "value"), [("item", 7), ("item", ["a"]), ("owner", None), ("other", {}), ("since", "x")]
)
def test_conflicts_that_cannot_be_read_end_neither_a_source_nor_status(field, value):
    log, good = MemoryLog(), Conflict("a", "owner", "edge", 5)
    bad = json.dumps({**good._asdict(), field: value}).encode()
    batch = junk(("a", 1, conflict_body(good)), ("b", 1, bad), ("c", 1, b"[" * 100_000))
    log.append("conflicts.traffic", batch)
    with pytest.warns(BadRecord):
        assert open_conflicts(log, "traffic") == [good]
    with pytest.warns(BadRecord):
        assert read_conflicts(batch, "edge") == [good]


def test_answers_that_cannot_be_read_do_not_end_a_client():
    log = MemoryLog()
    StatementClient(log).send(STREAM)
    StatementClient(log).send(parse("CREATE QUERY q AS SELECT SUM(rate) FROM traffic WITHIN 1"))
    answer = Answer("q", 5, 1.0, 2.0, 3.0)
    row = {"query": "q", "group": "", "at": 5, "low": 1.0, "value": 2.0, "high": 3.0}
    row |= {"stale": False, "settling": False}
    strange = [("group", 7), ("group", None), ("at", "x"), ("at", None), ("value", "x"), ("low", []), ("query", 1)]
    rows = [(f"strange{n}", 5, current_body({**row, name: value})) for n, (name, value) in enumerate(strange)]
    log.append("current.q", junk(("", 5, current_body(row)), *rows))
    log.append_packed([("answers.q", b"nothing at all")])
    with pytest.warns(BadRecord):
        assert current_answers(log, "q") == [answer]
    with pytest.warns(BadRecord):
        assert [*Client(log).history("q")] == []


def test_status_that_cannot_be_read_is_none():
    log = MemoryLog()
    for body in JUNK:
        log.append("status.traffic", compacted([("summary/0", 1, body), ("items/0", 1, b"x")]))
        with pytest.warns(BadRecord):
            assert stream_figures(log, "traffic") is None
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", BadRecord)
            assert isinstance(table_figures(log, "traffic"), dict | None)
    with pytest.warns(BadRecord):
        assert records(b"nothing") == []


def test_a_registration_that_cannot_be_read_holds_nothing_back():
    positions = {
        "one": (7, registration("traffic", ["a"])),
        "two": (3, b"junk"),
        "three": (9, registration("t", ["a"])),
    }
    with pytest.warns(BadRecord):
        assert passed_by_all(positions, "a") == 7
    with pytest.warns(BadRecord):
        assert abandoned(positions, lambda name: "one" if name == "pipeline/traffic" else None) == []


def test_quarantine_that_cannot_be_read_skips_nothing():
    log = MemoryLog()
    skipped = Quarantined("updates.traffic", 7, "why", 1, (NamedRow("update", "a", "edge", 3),), None, b"x")
    record(log, "traffic", skipped, Fence("pipeline/traffic", log.next_epoch("pipeline/traffic")))
    good = log.latest("quarantine.traffic", "0/7").body
    wrong = (
        *JUNK,
        good,  # of another position
        good.replace(b'"a"', b"1"),
        good.replace(b'"a"', b'"\\ud800"'),
        good.replace(b"3]", b"36893488147419103232]"),
        good.replace(b'"update",', b""),
        good.replace(b'"78"', b'"7"'),
    )
    keys = [(f"0/{100 + place}", 1, body) for place, body in enumerate(wrong)]
    log.append(
        "quarantine.traffic",
        compacted([*keys, ("x", 1, good), ("9" * 5000, 1, good), ("7", 1, good), ("1/7", 1, good), ("0/-7", 1, good)]),
    )
    with pytest.warns(BadRecord):
        assert list(bodies(log, "traffic")) == [7]
    with pytest.warns(BadRecord):
        assert quarantined(log, "traffic") == [skipped]


@pytest.mark.parametrize("epoch", [0, -5, 2**23, 2**63 - 1])
def test_an_epoch_that_no_row_can_carry_is_refused(log, epoch):
    with pytest.raises(ValueError, match="is not a number from 1 to 8,388,607"):
        log.append(EPOCHS, compacted([("source/traffic/edge", epoch, b"")]))
    assert log.next_epoch("source/traffic/edge") == 1


def test_the_last_epoch_is_said_to_be_the_last(log):
    log.append(EPOCHS, compacted([("source/traffic/edge", 2**23 - 1, b"")]))
    with pytest.raises(LogError, match="start under another name"):
        log.next_epoch("source/traffic/edge")


def test_an_owner_that_is_no_text_is_nobody(log, monkeypatch):
    monkeypatch.setattr("tolerant.spark.occupancy.LIVE", SECOND // 2)  # how long it waits for a heartbeat to grow old
    log.append(EPOCHS, compacted([("pipeline/traffic", 5, b"\xff\xfe")]))
    log.register("checkpoint", "traffic", ["updates.traffic"])
    log.trim(POSITIONS, 2**62)
    assert log.latest(POSITIONS, "checkpoint") is None
    log.append(HEARTBEATS, heartbeat_batch([(Heartbeat("traffic", wall_clock()), 1)]))
    assert live_owner(log, "traffic", set()) is None


@pytest.mark.parametrize("body", [*JUNK, b'{"watermark":"x"}', b'{"watermark":null}'])
@pytest.mark.filterwarnings("ignore::tolerant.transport.records.BadRecord")
def test_a_select_goes_without_a_status_that_cannot_be_read(body):
    log = MemoryLog()
    StatementClient(log).send(parse("CREATE TABLE stock (id BIGINT, x DOUBLE) KEY (id)"))
    StatementClient(log).send(parse("CREATE QUERY area(low) AS SELECT * FROM stock WHERE x BETWEEN low AND 5"))
    with Table("stock", log, "shop", clock=lambda: SECOND) as shop:
        shop.insert(id=1, x=1.0)
    log.append("status.stock", compacted([("summary/0", 1, body)]))
    assert select_rows(log, "SELECT id FROM stock").rows == ({"id": 1},)
    assert "no pipeline has run on this log yet" in why_no_reply(log, log.end(), 1.0)


def test_rows_of_tables_and_views_that_cannot_be_read_are_left_out():
    log = MemoryLog()
    table = parse("CREATE TABLE stock (id BIGINT, x DOUBLE) KEY (id)")
    log.append("rows.stock", junk(("1", 4, b"[1, 2.5]")))
    with pytest.warns(BadRecord):
        rows, step = table_rows(log, table)
    assert (rows, step) == ([{"id": 1, "x": 2.5}], 4)
    log.append(current_topic("v"), junk((HEADER, 1, b'{"step": 1}'), ('["a"]', 1, b"[[1]]")))
    with pytest.warns(BadRecord):
        header, groups = read_view(log, "v")
    assert header == {"step": 1}
    assert groups['["a"]'] == [[1]]


def test_statements_that_are_none_stop_neither_sources_nor_clients():
    import pyarrow as pa

    log = MemoryLog()
    for body in (None, "", "{", "[" * 100_000, '{"is":"Drop"}'):
        row = {"kind": "subscribe", "key": "x", "request": "r", "text": "", "body": body}
        log.append("queries", pa.RecordBatch.from_pylist([row], STATEMENTS))
    log.append("queries", pa.record_batch({"body": [1, 2]}))
    log.append("queries", pa.record_batch({"other": [1, 2]}))
    log.append_packed([("queries", b"nothing")])
    StatementClient(log).send(STREAM)
    assert list(load_catalogue(log).streams) == ["traffic"]
    assert StatementClient(log).subscribed() == set()
    with Source("traffic", log, "edge", clock=lambda: SECOND) as source:
        source.set("a", 1.0)
    StatementClient(log).send(parse("CREATE TABLE stock (id BIGINT, x DOUBLE) KEY (id)"))
    with Table("stock", log, "shop", clock=lambda: SECOND) as shop:
        shop.insert(id=1, x=1.0)


def test_a_source_sends_no_entry_with_more_rows_than_it_may_have():
    log = MemoryLog()
    StatementClient(log).send(
        parse("CREATE STREAM traffic (host STRING, rate DOUBLE) KEY (host) WITH (max_entry_rows = 10)")
    )
    with Source("traffic", log, "edge", clock=lambda: SECOND) as source:
        source.set_many([f"h{n}" for n in range(25)], np.arange(25.0))
    sizes = [len(unpack(entry.payload)) for entry in log.read("updates.traffic")]
    assert sizes == [10, 10, 5]
