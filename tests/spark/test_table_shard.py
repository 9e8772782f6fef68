"""A table's shard against brute force: every change to every subscription it concerns, in any weather."""

import random
import uuid
from collections import defaultdict
from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tolerant.client import Client, StatementClient
from tolerant.edge import Table
from tolerant.kernels.versions import version
from tolerant.kinds.tables.shard import TableShard
from tolerant.pipeline import rows_shard as shard
from tolerant.pipeline.intake import readable_row
from tolerant.pipeline.rows_shard import _dead_change
from tolerant.sql import parse, render
from tolerant.sql.subscriptions import subscription_row
from tolerant.streams import SECOND
from tolerant.testing.channel_listener import ChannelListenerFactory
from tolerant.testing.shard_history import ShardHistory
from tolerant.transport.changes import clock_row, insert_batch
from tolerant.transport.memory import MemoryLog
from tolerant.transport.rows import unpack

STOCK = parse("CREATE TABLE stock (id BIGINT, name STRING, x DOUBLE, y INT) KEY (id)")
AREA = parse("CREATE QUERY area(low, high) AS SELECT * FROM stock WHERE x BETWEEN low AND high")
BOX = parse("CREATE QUERY box(low, top) AS SELECT * FROM stock WHERE x BETWEEN low AND 50 AND y BETWEEN 0 AND top")
CHEAP = parse("CREATE QUERY cheap AS SELECT * FROM stock WHERE x BETWEEN 0 AND 10")
TOPICS = ["queries", "changes.stock", "subscriptions.stock"]
START = 1_000_000 * SECOND


class Shop:
    """A table with its shard, without Spark; `tick` moves time on by a second and lets the shard read."""

    def __init__(self, *queries, stock=STOCK):
        self.log, self.now, self.position, self.stock = MemoryLog(), START, 0, stock
        self.queries = {query.name: query for query in queries}
        self.shard, self.history = self.born(), ShardHistory()
        for statement in (stock, *queries):
            StatementClient(self.log).send(statement)
        self.table = Table(stock, self.log, "shop", clock=lambda: self.now)

    def born(self):
        return TableShard(self.stock)

    def subscribe(self, statement):
        row = subscription_row(statement, self.queries[statement.about], self.stock)
        self.log.append("subscriptions.stock", row)
        StatementClient(self.log).send(statement)
        return row.column("id")[0].as_py()

    def tick(self, cut=None):
        self.table.flush()
        self.now += SECOND
        self.log.append("changes.stock", clock_row(self.stock.columns, self.now, 1, "checkpoint"))
        self.read(cut)

    def read(self, cut=None):
        entries = self.log.read(TOPICS, self.position)
        for start in range(0, len(entries), cut or max(len(entries), 1)):
            part = entries[start : start + (cut or len(entries))]
            outputs = self.shard.apply(part)
            self.log.append_packed([(output.topic, output.payload) for output in outputs])
            self.history.add(part)
            self.position = part[-1].position

    def restart(self):
        """As after a crash: from a snapshot that may be old, and the batches since."""
        self.shard = self.born()
        self.history.restore(self.shard)

    def fold(self):
        self.history.fold(self.shard.snapshot())

    def rows(self, topic):
        return [row for entry in self.log.read(topic) for row in unpack(entry.payload).to_pylist()]

    def hearing(self, query):
        """What the channels say to each subscription, strictly by their headers."""
        values: dict[int, Sequence] = {0: ()}
        for row in self.rows("subscriptions.stock"):
            values[row["id"]] = [value for name, value in row.items() if name.startswith("parameter.")]
        entries = self.log.read([f"channels.{query}", f"answers.{query}"])
        found = ChannelListenerFactory(lambda number, row: inside(query, values[number], row)).read(entries)
        assert found.faults == []
        return found

    def delivered(self, query):
        return {
            number: [(row["kind"], row["key"], row["row.x"], row["row.y"]) for row in rows]
            for number, rows in self.hearing(query).told.items()
        }


def number_of(statement):
    query = {"area": AREA, "box": BOX}[statement.about]
    return subscription_row(statement, query, STOCK).column("id")[0].as_py()


def test_rows_come_to_the_subscriptions_that_they_concern():
    shop = Shop(AREA, CHEAP)
    narrow, wide = parse("SUBSCRIBE area(4, 6)"), parse("SUBSCRIBE area(0, 100)")
    shop.subscribe(narrow)
    shop.subscribe(wide)
    shop.table.insert(id=1, name="a", x=5.0, y=1)
    shop.table.insert(id=2, name="b", x=20.0, y=1)
    shop.tick()
    shop.table.update(id=1, name="a", x=7.0, y=1)
    shop.table.delete(2)
    shop.tick()
    assert shop.delivered("area")[number_of(narrow)] == [("insert", "1", 5.0, 1), ("delete", "1", 5.0, 1)]
    assert [change[:3] for change in shop.delivered("area")[number_of(wide)]] == [
        ("insert", "1", 5.0),
        ("insert", "2", 20.0),
        ("delete", "1", 5.0),
        ("insert", "1", 7.0),
        ("delete", "2", 20.0),
    ]
    assert [change[:3] for change in shop.delivered("cheap")[0]] == [
        ("insert", "1", 5.0),
        ("delete", "1", 5.0),
        ("insert", "1", 7.0),
    ]
    assert [row["message"] for row in shop.rows("replies")] == [
        "query area created",
        "query cheap created",
        "subscribed to area",
        "subscribed to area",
    ]


def test_who_unsubscribes_hears_nothing_more():
    shop = Shop(AREA)
    shop.subscribe(parse("SUBSCRIBE area(0, 10)"))
    shop.table.insert(id=1, name="a", x=5.0, y=1)
    shop.tick()
    shop.subscribe(parse("UNSUBSCRIBE area(0, 10)"))
    shop.table.insert(id=2, name="b", x=5.0, y=1)
    shop.tick()
    assert [len(changes) for changes in shop.delivered("area").values()] == [1]


def many_bad_rows(size, **columns):
    """Rows of one entry that are right but for these columns."""
    values = {"id": pa.array(range(size), pa.int64()), "name": pa.array(["n"] * size)}
    values |= {"x": pa.array([1.0] * size), "y": pa.array([1] * size, pa.int32())}
    batch = insert_batch(STOCK.columns, ["id"], values, at=START, source="s", first=version(1, 1), through=START)
    for name, column in columns.items():
        place = batch.schema.get_field_index(name)
        batch = batch.set_column(place, batch.schema.field(place), column)
    return batch


def test_many_bad_rows_give_a_few_dead_letters_and_one_that_counts_the_others(monkeypatch):
    """Only the rows that get a dead letter of their own are looked at one by one, however many there are."""
    looked_at = []
    monkeypatch.setattr(shard, "readable_row", lambda *row: looked_at.append(row) or readable_row(*row))
    monkeypatch.setattr(shard, "_dead_change", lambda *row: looked_at.append(row) or _dead_change(*row))
    shop = Shop(AREA)
    shop.tick()
    sequence = np.arange(300_000) % 3 - 1  # of three rows two cannot be used
    shop.log.append("changes.stock", many_bad_rows(300_000, sequence=pa.array(sequence)))
    shop.log.append("changes.stock", many_bad_rows(1_000, at=pa.array(START + 10**9 + np.arange(1_000) // 2 * 2)))
    shop.tick()
    letters = shop.rows("dead_letters.stock")
    assert len(looked_at) == 200
    assert [row["reason"] for row in letters[:100]] == ["sequence must be positive"] * 100
    assert [row["key"] for row in letters[:4]] == ["0", "1", "3", "4"]
    assert letters[100]["reason"] == "and 199,900 more: sequence must be positive"
    assert "µs ahead of the pipeline's clock" in letters[101]["reason"]
    assert letters[-1]["reason"].startswith("and 900 more: at is ")
    assert letters[-1]["reason"].endswith(", and others")
    assert len(letters) == 202


def test_limits_of_a_table_count_for_its_entries():
    limits = "max_entry_rows = 10, max_entry_bytes = 3000, max_key_length = 5, max_dead_letters = 3"
    stock = parse(f"{render(STOCK)} WITH ({limits})")
    shop = Shop(AREA, stock=stock)
    shop.tick()
    shop.log.append("changes.stock", clock_row(stock.columns, shop.now, 1, str(uuid.uuid4())))
    shop.read()
    assert shop.rows("dead_letters.stock") == []  # the pipeline's own name is not too long
    shop.log.append("changes.stock", many_bad_rows(11))
    shop.read()
    assert "declares 11 rows" in shop.rows("dead_letters.stock")[-1]["reason"]
    shop.log.append("changes.stock", many_bad_rows(10, **{"row.name": pa.array(["n" * 1000] * 10)}))
    shop.read()
    assert "bytes" in shop.rows("dead_letters.stock")[-1]["reason"]
    shop.log.append("changes.stock", many_bad_rows(10, key=pa.array(["123456"] * 10)))
    shop.read()
    reasons = [row["reason"] for row in shop.rows("dead_letters.stock")][-4:]
    assert reasons == ["key has more than 5 characters"] * 3 + ["and 7 more: key has more than 5 characters"]
    # Who feeds the table divides what it sends.
    shop.table.insert_many([(number, "n", 1.0, 1) for number in range(25)])
    shop.tick()
    shop.tick()
    assert len(shop.rows("rows.stock")) == 25
    assert max(unpack(entry.payload).num_rows for entry in shop.log.read("changes.stock")[-5:]) == 10


def test_what_cannot_be_used_is_a_dead_letter():
    shop = Shop(AREA)
    shop.log.append_packed([("changes.stock", b"nobody can read this"), ("subscriptions.stock", b"nor this")])
    shop.log.append("subscriptions.stock", pa.record_batch({"template": ["area"]}))
    shop.now += 60 * SECOND
    shop.table.insert(id=1, name="early", x=5.0, y=1)
    shop.table.flush()
    shop.now -= 60 * SECOND
    shop.tick()
    reasons = [row["reason"] for row in shop.rows("dead_letters.stock")]
    assert len(reasons) == 4
    assert "ahead" in reasons[-1]
    assert len(shop.shard.relation) == 0


def test_a_late_row_is_applied_at_once():
    shop = Shop(CHEAP)
    shop.tick()
    shop.now -= SECOND
    shop.table.insert(id=1, name="late", x=5.0, y=1)
    shop.table.flush()
    shop.now += SECOND
    shop.read()
    assert len(shop.delivered("cheap")[0]) == 1


def test_status_says_how_many_rows_and_subscriptions_there_are():
    shop = Shop(AREA)
    shop.subscribe(parse("SUBSCRIBE area(0, 10)"))
    shop.table.insert(id=1, name="a", x=5.0, y=1)
    for _ in range(12):
        shop.tick()
    body = shop.log.latest("status.stock", "summary/0").body.decode()
    assert '"rows": 1' in body
    assert '"subscriptions": {"area": 1}' in body


class Model:
    """What must be delivered, worked out the slow way."""

    def __init__(self):
        self.rows, self.subscribed, self.delivered = {}, {}, defaultdict(list)

    def put(self, key, row):
        old = self.rows.get(key)
        if old != row:
            if old is not None:
                self.tell("delete", key, old)
            self.rows[key] = row
            self.tell("insert", key, row)

    def drop(self, key):
        if key in self.rows:
            self.tell("delete", key, self.rows.pop(key))

    def tell(self, kind, key, row):
        for number, (template, values) in self.subscribed.items():
            if inside(template, values, row):
                self.delivered[template, number].append((kind, key, row["x"], row["y"]))


def inside(template, values, row):
    if template == "cheap":
        return 0 <= row["x"] <= 10
    if template == "area":
        return values[0] <= row["x"] <= values[1]
    return values[0] <= row["x"] <= 50 and 0 <= row["y"] <= values[1]


NUMBERS = st.sampled_from([-10.0, 0.0, 4.0, 5.0, 10.0, 49.5, 50.0, 51.0])
STEPS = st.one_of(
    st.tuples(st.just("put"), st.integers(0, 5), NUMBERS, st.integers(-1, 3)),
    st.tuples(st.just("drop"), st.integers(0, 6)),
    st.tuples(st.just("join"), st.sampled_from(["area", "box"]), NUMBERS, NUMBERS),
    st.tuples(st.just("leave"), st.integers(0, 9)),
    st.tuples(st.just("tick"), st.sampled_from([None, 1, 2, 5])),
    st.tuples(st.just("restart")),
    st.tuples(st.just("fold")),
)


@settings(deadline=None, max_examples=150)
@given(st.lists(STEPS, max_size=40))
def test_deliveries_are_those_of_brute_force(steps):
    shop, model = Shop(AREA, BOX), Model()
    for step in steps:
        play(shop, model, step)
    shop.tick()
    for template in ("area", "box"):
        expected = {number: told for (name, number), told in model.delivered.items() if name == template}
        assert shop.delivered(template) == expected
    relation = shop.shard.relation
    assert dict(zip(relation.keys(), relation.rows()["x"], strict=True)) == {k: r["x"] for k, r in model.rows.items()}
    again = shop.born()
    again.restore(shop.shard.snapshot())
    assert again.snapshot() == shop.shard.snapshot()


def play(shop, model, step):
    match step:
        case ("put", key, x, y):
            row = {"id": key, "name": f"n{key}", "x": x, "y": y}
            shop.table.update(row)
            model.put(str(key), row)
        case ("drop", key):
            shop.table.delete(key)
            model.drop(str(key))
        case ("join", template, low, high) if template == "box" or low <= high:
            # Time first, so that the model need not know that rows wait for it.
            shop.tick()
            values = (low, high) if template == "area" else (min(low, 50.0), max(0, int(high)))
            statement = parse(f"SUBSCRIBE {template}({values[0]}, {values[1]})")
            shop.subscribe(statement)
            model.subscribed[number_of(statement)] = (template, values)
        case ("leave", which) if model.subscribed:
            shop.tick()
            number = list(model.subscribed)[which % len(model.subscribed)]
            template, values = model.subscribed.pop(number)
            shop.subscribe(parse(f"UNSUBSCRIBE {template}({values[0]}, {values[1]})"))
        case ("tick", cut):
            shop.tick(cut)
        case ("restart",):
            shop.restart()
        case ("fold",):
            shop.fold()


@pytest.mark.parametrize("seed", range(20))
def test_a_client_has_the_rows_of_its_range_and_hears_each_change_once(seed):
    rng = random.Random(seed)
    shop = Shop(CHEAP)
    held, position, client = {}, None, None
    for _ in range(60):
        key, x = rng.randrange(8), rng.choice([1.0, 5.0, 10.0, 11.0])
        shop.table.update(id=key, name="n", x=x, y=0) if rng.random() < 0.7 else shop.table.delete(key)
        if rng.random() < 0.4:
            shop.tick()
        if client is None and rng.random() < 0.2:  # a new process, with what the last one kept
            client = Client(shop.log).subscribe("cheap", position=position)
            held = held if position else {}
        if client is not None:
            changes = client.changes(stop=lambda: True)
            for change in [*changes, *poll(client)]:
                apply(held, change)
                position = change.position or position
            if rng.random() < 0.2 and position is not None:
                client = None
    shop.tick()
    client = Client(shop.log).subscribe("cheap", position=position)
    held = held if position else {}
    for change in [*client.ready(), *poll(client)]:
        apply(held, change)
    now = shop.shard.relation
    truth = {key: x for key, x in zip(now.keys(), now.rows()["x"], strict=True) if 0 <= x <= 10}
    assert held == truth


def poll(client):
    while client.poll():
        pass
    return list(client.ready())


def apply(held, change):
    key = str(change.row["id"])
    if change.kind == "insert":
        assert held.get(key) != change.row["x"] or change.current
        held[key] = change.row["x"]
    else:
        assert held.pop(key) == change.row["x"]


def test_many_subscriptions_are_heard_over_one_reader():
    shop = Shop(AREA)
    ranges = [(low, low + 2) for low in range(200)]
    for low, high in ranges:
        shop.subscribe(parse(f"SUBSCRIBE area({low}, {high})"))
    shop.tick()
    client = Client(shop.log)
    many = client.subscriptions("area", low=[low for low, _ in ranges], high=[high for _, high in ranges])
    shop.table.insert(id=1, name="a", x=50.0, y=1)
    shop.tick()
    looks = iter([False, True])
    heard = list(client.changes(many, stop=lambda: next(looks)))
    assert sorted(ranges[many.index(one)][0] for one, _ in heard) == [48, 49, 50]
    assert {change.row["id"] for _, change in heard} == {1}


def test_a_table_that_is_dropped_and_created_again_is_empty():
    shop = Shop(CHEAP)
    shop.table.insert(id=1, name="a", x=5.0, y=1)
    shop.tick()
    for statement in (parse("DROP QUERY cheap"), parse("DROP TABLE stock"), STOCK, CHEAP):
        StatementClient(shop.log).send(statement)
    shop.tick()
    assert len(shop.shard.relation) == 0
    assert list(Client(shop.log).subscribe("cheap").ready()) == []
    anew = Shop.born(shop)
    anew.apply(shop.log.read(TOPICS))
    assert anew.snapshot() == shop.shard.snapshot()
