"""A SELECT over a table's rows, as the log has them; and why nobody replies."""

import pyarrow as pa
import pytest
from table_pipeline import TablePipeline

from tolerant.client import Client, NotAnswered, StatementClient
from tolerant.client.missing_replies import why_no_reply
from tolerant.edge import Table
from tolerant.sql import StatementError, parse
from tolerant.transport import MemoryLog
from tolerant.transport.changes import clock_row

SINGLE_SHARD = "CREATE TABLE stock (id BIGINT, x DOUBLE, n BIGINT, name STRING) KEY (id)"


def test_rows_are_those_of_the_pipeline_and_it_says_of_when():
    pipeline = TablePipeline()
    for key in range(4):
        pipeline.put(key, float(key), 2**62 + key, "ab"[key % 2])
    for _ in range(12):  # a period: the pipeline says how far it has come
        pipeline.tick()
    pipeline.put(9, 9.0)  # which no clock row has passed
    pipeline.flush()
    selected = Client(pipeline.log).select("SELECT name, SUM(n) AS total FROM stock GROUP BY name ORDER BY name")
    assert selected.columns == ("name", "total")
    assert selected.rows == ({"name": "a", "total": 2**63 + 2}, {"name": "b", "total": 2**63 + 4})
    assert selected.at is not None
    assert pipeline.now - 12_000_000 < selected.at < pipeline.now


def test_rows_that_no_pipeline_keeps_are_all_changes_of_the_log_in_the_order_of_their_times():
    log = MemoryLog()
    StatementClient(log).register(SINGLE_SHARD)
    late, early = (Table("stock", log, name, clock=lambda at=at: at) for name, at in (("late", 5), ("early", 3)))
    late.insert_many([(1, 1.0, 0, "late"), (2, 2.0, 0, "late")])
    late.flush()
    early.insert_many([(1, 9.0, 0, "early"), (3, 3.0, 0, "early")])
    early.delete(2)
    early.flush()
    late.delete(3)
    late.update(id=2, x=2.5, n=0, name="new")
    late.flush()
    selected = Client(log).select("SELECT id, x, name FROM stock ORDER BY id")
    assert selected.rows == ({"id": 1, "x": 1.0, "name": "late"}, {"id": 2, "x": 2.5, "name": "new"})
    assert selected.at is None


def test_a_table_that_was_dropped_leaves_nothing_to_the_next_of_its_name():
    log = MemoryLog()
    for text in (SINGLE_SHARD, "DROP TABLE stock", SINGLE_SHARD):
        StatementClient(log).send(parse(text))
        if text == SINGLE_SHARD and len(log.read("changes.stock")) == 0:
            with Table("stock", log, "shop", clock=lambda: 1) as table:
                table.insert(id=1, x=1.0, n=0, name="old")
    assert Client(log).select("SELECT * FROM stock").rows == ()


def test_what_is_not_a_select_over_a_table_is_refused():
    client = Client(TablePipeline().log)
    with pytest.raises(StatementError, match="expected a SELECT over a table"):
        client.select("SHOW QUERIES")
    with pytest.raises(StatementError, match="there is no table stok"):
        client.select("SELECT * FROM stok")


def test_a_subscription_to_what_there_is_not_names_what_there_is():
    client = Client(TablePipeline().log)
    listed = "There are: area, counted, kinds, least, total, wide"
    for ask in (client.subscribe, client.subscriptions, client.unsubscribe):
        with pytest.raises(
            StatementError, match=f"there is no query over a table named aera; did you mean area. {listed}$"
        ):
            ask("aera")


def test_a_slow_pipeline_is_told_from_none():
    pipeline = TablePipeline()
    client = Client(pipeline.log)
    with pytest.raises(NotAnswered, match="no pipeline has run on this log yet"):
        client.subscribe("area", low=0, high=1, timeout=0)
    for _ in range(12):
        pipeline.tick()
    with pytest.raises(NotAnswered, match=r"no pipeline since 1970-01-01 00:16:\d\d UTC"):
        client.subscribe("area", low=1, high=2, timeout=0)
    sent = pipeline.log.end()
    for _ in range(150):  # others write too, before a clock row comes
        pipeline.put(1, 1.0)
        pipeline.flush()
    assert "no pipeline since" in why_no_reply(pipeline.log, sent, 1)
    pipeline.log.append("changes.stock", clock_row(pipeline.relation.columns, pipeline.now, 1, "checkpoint"))
    assert "though a pipeline runs: it is slow" in why_no_reply(pipeline.log, sent, 1)


def test_what_anybody_wrote_into_the_status_does_not_end_it():
    log = MemoryLog()
    row = pa.record_batch([["summary/0"], pa.array([1]), [b"[]"]], names=["key", "version", "body"])
    log.append(
        "status.stock", row.cast(pa.schema([("key", pa.string()), ("version", pa.int64()), ("body", pa.binary())]))
    )
    assert "no pipeline has run on this log yet" in why_no_reply(log, 0, 1)
