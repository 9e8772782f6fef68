"""What is read back from compacted topics: a record that cannot be read is left out, and nobody ends for it."""

import json
import threading
import warnings

import numpy as np
import pytest

from tolerant.cli.figures import stream_figures, table_figures
from tolerant.client import Client, send, standing
from tolerant.client.answers import current_answers
from tolerant.client.deliveries import table_rows
from tolerant.client.statements import subscribed
from tolerant.edge import Source, Table
from tolerant.edge.aggregating.inflow import read_heard
from tolerant.edge.core import SourceCore
from tolerant.edge.definition import find_stream
from tolerant.edge.post import SourcePost
from tolerant.queries import Answer
from tolerant.sql import parse
from tolerant.streams import SECOND
from tolerant.transport.common import abandoned, passed_by_all, registration
from tolerant.transport.forms import Sums, forms_body, forms_key, read_forms
from tolerant.transport.memory import MemoryLog
from tolerant.transport.plans import Wanted, plan_body, plan_key, read_announcements
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
from tolerant.transport.views import HEADER, read_view, view_topic

STREAM = parse("CREATE STREAM traffic (host STRING, rate DOUBLE) KEY (host)")
JUNK = (b"", b"\x00", b"null", b"[]", b'{"a":', b"\xff\xfe", b"[" * 100_000, b'{"query":1}', b"7", b'[["x"]]')


def junk(*good):
    """Records with bodies that are nothing, around good ones."""
    rows = [(f"junk{place}", 1, body) for place, body in enumerate(JUNK)]
    return compacted([*rows[:5], *good, *rows[5:]])


def test_grants_that_cannot_be_read_do_not_end_a_source():
    log = MemoryLog()
    send(log, STREAM)
    stream = find_stream(log, "traffic")
    core = SourceCore("edge", 1, stream.options)
    post = SourcePost(core, log, stream, threading.Condition(), lambda: 10 * SECOND)
    core.offer(core.register(["a"]), np.array([1.0]), SECOND)
    good = grants_batch([Grant("a", 4.0, 0.0, SECOND, 1, False)]).to_pylist()[0]
    log.append("grants.traffic", junk((good["key"], 5, good["body"])))
    log.append("forms.traffic", junk((forms_key("edge", 0), 1, b'[{"keys": 1}]'), ("x", 2, None)))
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
    key = forms_key("edge", 0)
    assert read_forms(compacted([(key, 1, forms_body([good]))]), "edge")[0].sets == (good,)
    wrong = {"shares": ["x"], "parts": [[0.5, 1]], "weights": [[None, 1]], "items": [1, 2], "alone": 5}
    for name, value in [*wrong.items(), ("parts", [[0, 7]])]:
        body = json.dumps([{**vars(good), name: value}]).encode()
        with pytest.warns(BadRecord):
            assert read_forms(compacted([(key, 1, body)]), "edge") == []


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
    assert read_heard(b"nothing", "") == []
    rows = updates_batch(kind="update", keys=["a"] * 3, at=[1, 2**63 - 1, 2], source="s", sequence=[1, 1, -5],
                         through=1, value=[1.0, 1.0, np.nan])  # fmt: skip
    assert [row.at for row in read_heard(pack(rows), "")] == [1]


def test_answers_that_cannot_be_read_do_not_end_a_client():
    log = MemoryLog()
    send(log, STREAM)
    send(log, parse("CREATE QUERY q AS SELECT SUM(rate) FROM traffic WITHIN 1"))
    answer = Answer("q", 5, 1.0, 2.0, 3.0)
    row = {"query": "q", "group": "", "at": 5, "low": 1.0, "value": 2.0, "high": 3.0}
    log.append("current.q", junk(("", 5, current_body({**row, "stale": False, "settling": False}))))
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


def test_rows_of_tables_and_views_that_cannot_be_read_are_left_out():
    log = MemoryLog()
    table = parse("CREATE TABLE stock (id BIGINT, x DOUBLE) KEY (id)")
    log.append("rows.stock", junk(("1", 4, b"[1, 2.5]")))
    with pytest.warns(BadRecord):
        rows, step = table_rows(log, table)
    assert (rows, step) == ([{"id": 1, "x": 2.5}], 4)
    log.append(view_topic("v"), junk((HEADER, 1, b'{"step": 1}'), ('["a"]', 1, b"[[1]]")))
    with pytest.warns(BadRecord):
        header, rows = read_view(log, "v")
    assert header == {"step": 1}
    assert rows['["a"]'] == [[1]]


def test_statements_that_are_none_stop_neither_sources_nor_clients():
    import pyarrow as pa

    log = MemoryLog()
    for body in (None, "", "{", "[" * 100_000, '{"is":"Drop"}'):
        row = {"kind": "subscribe", "key": "x", "request": "r", "text": "", "body": body}
        log.append("queries", pa.RecordBatch.from_pylist([row], STATEMENTS))
    log.append("queries", pa.record_batch({"body": [1, 2]}))
    log.append("queries", pa.record_batch({"other": [1, 2]}))
    log.append_packed([("queries", b"nothing")])
    send(log, STREAM)
    assert list(standing(log).streams) == ["traffic"]
    assert subscribed(log) == set()
    with Source("traffic", log, "edge", clock=lambda: SECOND) as source:
        source.set("a", 1.0)
    send(log, parse("CREATE TABLE stock (id BIGINT, x DOUBLE) KEY (id)"))
    with Table("stock", log, "shop", clock=lambda: SECOND) as shop:
        shop.insert(id=1, x=1.0)


def test_a_source_sends_no_entry_with_more_rows_than_it_may_have():
    log = MemoryLog()
    send(log, parse("CREATE STREAM traffic (host STRING, rate DOUBLE) KEY (host) WITH (max_entry_rows = 10)"))
    with Source("traffic", log, "edge", clock=lambda: SECOND) as source:
        source.set_many([f"h{n}" for n in range(25)], np.arange(25.0))
    sizes = [len(unpack(entry.payload)) for entry in log.read("updates.traffic")]
    assert sizes == [10, 10, 5]
