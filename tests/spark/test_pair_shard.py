"""The shard of a pair of tables: one order for the changes of both, whatever the batches look like."""

import json
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from tolerant.client import StatementClient
from tolerant.kernels.snapshots import State
from tolerant.kinds.joins import queries as pair_queries
from tolerant.pipeline.inputs import clocks_of
from tolerant.sql import JoinInput, parse
from tolerant.streams import SECOND
from tolerant.testing import LocalPipeline
from tolerant.transport.topics import changes_topic

ORDERS = parse("CREATE TABLE orders (id BIGINT, part STRING, a DOUBLE) KEY (id)")
LINES = parse("CREATE TABLE lines (id BIGINT, part STRING, c DOUBLE) KEY (id)")
TOLD = parse(
    "CREATE QUERY told AS SELECT * FROM orders JOIN lines ON orders.part = lines.part"
    " WHERE orders.a BETWEEN 0 AND 9 AND lines.c BETWEEN 0 AND 9"
)
PAIR = JoinInput.of(ORDERS, LINES)
TOPICS = ["queries", "changes.orders", "changes.lines", f"subscriptions.{PAIR.name}"]
START = 1_000_000 * SECOND


class Teller:
    """A kind of query that says every change, and how many rows there were when it was made."""

    tally = "told"

    def __init__(self, query, sides, state, part):
        self._names = [side.table.name for side in sides]
        self.first = sum(len(side.relation) for side in sides) if state is None else int(state["first"][0])

    def __len__(self):
        return 1

    def take(self, batch):
        raise ValueError("nobody subscribes to this")

    def figures(self):
        return {"first": self.first}

    def state(self):
        return State(first=np.array([self.first]))

    def outputs(self, changes):
        rows = [
            {"table": name, "step": step, "at": at - START, "row": row, "key": key, "insert": insert}
            for name, side in zip(self._names, changes, strict=True)
            for step, at, row, key, insert in zip(
                *(array.tolist() for array in (
                    side.steps, side.changes.at, side.rows, side.changes.keys, side.changes.insert
                )), strict=True
            )
        ]  # fmt: skip
        rows.sort(key=lambda row: row["step"])
        return [("answers.told", pa.RecordBatch.from_pylist(rows))]


@pytest.fixture(autouse=True)
def hosted(monkeypatch):
    monkeypatch.setattr(pair_queries, "shard_query_of", lambda query: Teller)


class PairPipeline(LocalPipeline):
    """Two tables with queries over both."""

    shard: Any

    def __init__(self, *queries, tables=(ORDERS, LINES)):
        super().__init__([*tables, *queries], now=START)

    def clock(self, *names):
        clocks = clocks_of(self.relation, self.now, self.epoch, self.checkpoint)
        for name in names:
            self.log.append(changes_topic(name), clocks[changes_topic(name)])


def changes_of(pipeline):
    return [
        (row["step"], row["table"], row["key"], "+" if row["insert"] else "-", row["row"])
        for row in pipeline.rows("answers.told")
    ]


def test_changes_of_both_tables_apply_in_one_order():
    pipeline = PairPipeline(TOLD)
    orders, lines = pipeline.table("orders"), pipeline.table("lines")
    orders.insert(id=2, part="p", a=1.0)
    orders.insert(id=1, part="p", a=1.0)
    lines.insert(id=7, part="p", c=1.0)  # of the moment of the first order: tables by name
    pipeline.now += 10
    lines.insert(id=8, part="q", c=2.0)
    pipeline.now += 10
    orders.update(id=2, part="q", a=3.0)
    pipeline.tick()
    assert changes_of(pipeline) == [
        (1, "lines", "7", "+", 0),
        (2, "orders", "2", "+", 0),
        (3, "orders", "1", "+", 1),
        (4, "lines", "8", "+", 1),
        (5, "orders", "2", "-", 0),
        (6, "orders", "2", "+", 2),
    ]
    lines.delete(7)
    lines.insert(id=9, part="q", c=2.0)
    orders.insert(id=3, part="q", a=3.0)  # takes the number that was freed
    pipeline.tick()
    assert changes_of(pipeline)[6:] == [
        (7, "lines", "7", "-", 0),
        (8, "orders", "3", "+", 0),
        (9, "lines", "9", "+", 2),
    ]
    stored = {row["key"]: row for row in pipeline.rows(f"rows.{PAIR.name}") if row["body"] is not None}
    assert sorted(stored) == ["lines/8", "lines/9", "orders/1", "orders/2", "orders/3"]
    assert json.loads(stored["orders/2"]["body"]) == [2, "q", 3.0]
    assert [row["message"] for row in pipeline.rows("replies")] == ["query told created"]


def test_both_clocks_must_have_passed_a_change():
    pipeline = PairPipeline(TOLD)
    pipeline.table("orders").insert(id=1, part="p", a=1.0)
    pipeline.flush()
    pipeline.now += SECOND
    pipeline.clock("orders")
    pipeline.read()
    assert changes_of(pipeline) == []
    assert pipeline.shard.watermark is None
    pipeline.table("lines").insert(id=7, part="p", c=1.0)
    pipeline.flush()
    pipeline.now += SECOND
    pipeline.clock("lines")  # the watermark is that of orders: what came to lines since waits
    pipeline.read()
    assert [change[1:4] for change in changes_of(pipeline)] == [("orders", "1", "+")]
    pipeline.table("lines").insert(id=8, part="p", c=1.0)
    pipeline.flush()
    pipeline.clock("orders")
    pipeline.read()
    assert [change[1:4] for change in changes_of(pipeline)[1:]] == [("lines", "7", "+")]
    pipeline.tick()
    assert [change[1:4] for change in changes_of(pipeline)[2:]] == [("lines", "8", "+")]


def test_a_late_row_is_applied_at_once():
    pipeline = PairPipeline(TOLD)
    pipeline.tick()
    pipeline.now -= SECOND
    pipeline.table("orders").insert(id=1, part="p", a=1.0)
    pipeline.flush()
    pipeline.now += SECOND
    pipeline.read()
    assert [change[1:4] for change in changes_of(pipeline)] == [("orders", "1", "+")]
    for _ in range(12):
        pipeline.tick()
    status = json.loads(pipeline.log.latest(f"status.{PAIR.name}", "summary/0").body)
    assert (status["late"], status["rows"], status["told"], status["figures"]) == (1, 1, 1, {"told": {"first": 0}})


@pytest.mark.parametrize("cut", [None, 1, 2, 3])
def test_cuts_and_restarts_change_nothing(cut):
    def play(pipeline, restarts):
        for round_ in range(12):
            pipeline.table("orders").update(id=round_ % 4, part="p", a=float(round_))
            pipeline.now += 7
            pipeline.table("lines").update(id=round_ % 3, part="p", c=float(round_))
            if round_ % 4 == 3:
                pipeline.table("lines").delete(round_ % 3)
            if round_ % 2:
                pipeline.tick(cut=cut if restarts else None)
            if restarts and round_ % 5 == 0:
                pipeline.restart()
            if restarts and round_ == 6:
                pipeline.take_snapshot()
        return pipeline

    plain, restarted = play(PairPipeline(TOLD), False), play(PairPipeline(TOLD), True)
    assert changes_of(plain) == changes_of(restarted)
    assert len(changes_of(plain)) > 20
    assert plain.shard.snapshot() == restarted.shard.snapshot()
    again = restarted.new_shard()
    again.restore(restarted.shard.snapshot())
    assert again.snapshot() == restarted.shard.snapshot()


def test_a_table_that_is_dropped_takes_its_rows_along():
    pipeline = PairPipeline(TOLD)
    pipeline.table("orders").insert(id=1, part="p", a=1.0)
    pipeline.table("lines").insert(id=1, part="p", c=1.0)
    pipeline.tick()
    for statement in ("DROP TABLE orders", "DROP QUERY told", "DROP TABLE orders"):  # the first is refused: in use
        StatementClient(pipeline.log).send(parse(statement))
    StatementClient(pipeline.log).send(ORDERS)
    StatementClient(pipeline.log).send(TOLD)
    for _ in range(12):
        pipeline.tick()
    assert {r["key"]: r["body"] is None for r in pipeline.rows(f"rows.{PAIR.name}")} == {
        "lines/1": False,
        "orders/1": True,
    }
    status = json.loads(pipeline.log.latest(f"status.{PAIR.name}", "summary/0").body)
    assert (status["rows"], status["figures"]) == (1, {"told": {"first": 1}})


def test_what_cannot_be_used_is_a_dead_letter():
    pipeline = PairPipeline(TOLD)
    pipeline.log.append_packed(
        [("changes.orders", b"nobody can read this"), (f"subscriptions.{PAIR.name}", b"nor this")]
    )
    pipeline.tick()
    assert len(pipeline.rows(f"dead_letters.{PAIR.name}")) == 2
