"""The shard of a pair of tables: one order for the changes of both, whatever the batches look like."""

import json

import numpy as np
import pyarrow as pa
import pytest

from tolerant.client import StatementClient
from tolerant.edge import Table
from tolerant.kernels.snapshots import State
from tolerant.kinds.joins import queries as pair_queries
from tolerant.kinds.joins.shard import PairShard
from tolerant.sql import JoinInput, parse
from tolerant.streams import SECOND
from tolerant.testing.shard_history import ShardHistory
from tolerant.transport.changes import clock_row
from tolerant.transport.memory import MemoryLog
from tolerant.transport.rows import unpack
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
        found = [
            {"table": name, "step": step, "at": at - START, "row": row, "key": key, "insert": insert}
            for name, side in zip(self._names, changes, strict=True)
            for step, at, row, key, insert in zip(
                *(array.tolist() for array in (
                    side.steps, side.changes.at, side.rows, side.changes.keys, side.changes.insert
                )), strict=True
            )
        ]  # fmt: skip
        found.sort(key=lambda row: row["step"])
        return [("answers.told", pa.RecordBatch.from_pylist(found))]


@pytest.fixture(autouse=True)
def hosted(monkeypatch):
    monkeypatch.setattr(pair_queries, "shard_query_of", lambda query: Teller)


class PairShop:
    """Two tables with their shard, without Spark; `tick` moves time on by a second and lets the shard read."""

    def __init__(self, *queries, tables=(ORDERS, LINES)):
        self.log, self.now, self.position, self.pair = MemoryLog(), START, 0, JoinInput.of(*tables)
        self.shard, self.history = self.born(), ShardHistory()
        for statement in (*tables, *queries):
            StatementClient(self.log).send(statement)
        self.tables = {table.name: Table(table, self.log, "shop", clock=lambda: self.now) for table in tables}
        self.topics = ["queries", *(changes_topic(t.name) for t in tables), f"subscriptions.{self.pair.name}"]

    def born(self):
        return PairShard(self.pair)

    def clock(self, *names):
        for table in self.pair.tables:
            if table.name in names:
                self.log.append(changes_topic(table.name), clock_row(table.columns, self.now, 1, "checkpoint"))

    def flush(self):
        for table in self.tables.values():
            table.flush()

    def tick(self, cut=None):
        self.flush()
        self.now += SECOND
        self.clock(*self.tables)
        self.read(cut)

    def read(self, cut=None):
        entries = self.log.read(self.topics, self.position)
        for start in range(0, len(entries), cut or max(len(entries), 1)):
            part = entries[start : start + (cut or len(entries))]
            outputs = self.shard.apply(part)
            self.log.append_packed([(output.topic, output.payload) for output in outputs])
            self.history.add(part)
            self.position = part[-1].position

    def restart(self):
        self.shard = self.born()
        self.history.restore(self.shard)

    def fold(self):
        self.history.fold(self.shard.snapshot())

    def rows(self, topic):
        return [row for entry in self.log.read(topic) for row in unpack(entry.payload).to_pylist()]


def told(shop):
    return [
        (row["step"], row["table"], row["key"], "+" if row["insert"] else "-", row["row"])
        for row in shop.rows("answers.told")
    ]


def test_changes_of_both_tables_apply_in_one_order():
    shop = PairShop(TOLD)
    orders, lines = shop.tables["orders"], shop.tables["lines"]
    orders.insert(id=2, part="p", a=1.0)
    orders.insert(id=1, part="p", a=1.0)
    lines.insert(id=7, part="p", c=1.0)  # of the moment of the first order: tables by name
    shop.now += 10
    lines.insert(id=8, part="q", c=2.0)
    shop.now += 10
    orders.update(id=2, part="q", a=3.0)
    shop.tick()
    assert told(shop) == [
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
    shop.tick()
    assert told(shop)[6:] == [
        (7, "lines", "7", "-", 0),
        (8, "orders", "3", "+", 0),
        (9, "lines", "9", "+", 2),
    ]
    held = {row["key"]: row for row in shop.rows(f"rows.{PAIR.name}") if row["body"] is not None}
    assert sorted(held) == ["lines/8", "lines/9", "orders/1", "orders/2", "orders/3"]
    assert json.loads(held["orders/2"]["body"]) == [2, "q", 3.0]
    assert [row["message"] for row in shop.rows("replies")] == ["query told created"]


def test_both_clocks_must_have_passed_a_change():
    shop = PairShop(TOLD)
    shop.tables["orders"].insert(id=1, part="p", a=1.0)
    shop.flush()
    shop.now += SECOND
    shop.clock("orders")
    shop.read()
    assert told(shop) == []
    assert shop.shard.watermark is None
    shop.tables["lines"].insert(id=7, part="p", c=1.0)
    shop.flush()
    shop.now += SECOND
    shop.clock("lines")  # the watermark is that of orders: what came to lines since waits
    shop.read()
    assert [what[1:4] for what in told(shop)] == [("orders", "1", "+")]
    shop.tables["lines"].insert(id=8, part="p", c=1.0)
    shop.flush()
    shop.clock("orders")
    shop.read()
    assert [what[1:4] for what in told(shop)[1:]] == [("lines", "7", "+")]
    shop.tick()
    assert [what[1:4] for what in told(shop)[2:]] == [("lines", "8", "+")]


def test_a_late_row_is_applied_at_once():
    shop = PairShop(TOLD)
    shop.tick()
    shop.now -= SECOND
    shop.tables["orders"].insert(id=1, part="p", a=1.0)
    shop.flush()
    shop.now += SECOND
    shop.read()
    assert [what[1:4] for what in told(shop)] == [("orders", "1", "+")]
    for _ in range(12):
        shop.tick()
    status = json.loads(shop.log.latest(f"status.{PAIR.name}", "summary/0").body)
    assert (status["late"], status["rows"], status["told"], status["figures"]) == (1, 1, 1, {"told": {"first": 0}})


@pytest.mark.parametrize("cut", [None, 1, 2, 3])
def test_cuts_and_restarts_change_nothing(cut):
    def play(shop, restarts):
        for round_ in range(12):
            shop.tables["orders"].update(id=round_ % 4, part="p", a=float(round_))
            shop.now += 7
            shop.tables["lines"].update(id=round_ % 3, part="p", c=float(round_))
            if round_ % 4 == 3:
                shop.tables["lines"].delete(round_ % 3)
            if round_ % 2:
                shop.tick(cut if restarts else None)
            if restarts and round_ % 5 == 0:
                shop.restart()
            if restarts and round_ == 6:
                shop.fold()
        return shop

    plain, cutten = play(PairShop(TOLD), False), play(PairShop(TOLD), True)
    assert told(plain) == told(cutten)
    assert len(told(plain)) > 20
    assert plain.shard.snapshot() == cutten.shard.snapshot()
    again = cutten.born()
    again.restore(cutten.shard.snapshot())
    assert again.snapshot() == cutten.shard.snapshot()


def test_a_table_that_is_dropped_takes_its_rows_along():
    shop = PairShop(TOLD)
    shop.tables["orders"].insert(id=1, part="p", a=1.0)
    shop.tables["lines"].insert(id=1, part="p", c=1.0)
    shop.tick()
    for statement in ("DROP TABLE orders", "DROP QUERY told", "DROP TABLE orders"):  # the first is refused: in use
        StatementClient(shop.log).send(parse(statement))
    StatementClient(shop.log).send(ORDERS)
    StatementClient(shop.log).send(TOLD)
    for _ in range(12):
        shop.tick()
    assert {r["key"]: r["body"] is None for r in shop.rows(f"rows.{PAIR.name}")} == {
        "lines/1": False,
        "orders/1": True,
    }
    status = json.loads(shop.log.latest(f"status.{PAIR.name}", "summary/0").body)
    assert (status["rows"], status["figures"]) == (1, {"told": {"first": 1}})


def test_what_cannot_be_used_is_a_dead_letter():
    shop = PairShop(TOLD)
    shop.log.append_packed([("changes.orders", b"nobody can read this"), (f"subscriptions.{PAIR.name}", b"nor this")])
    shop.tick()
    assert len(shop.rows(f"dead_letters.{PAIR.name}")) == 2
