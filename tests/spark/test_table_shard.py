"""A table's shard against brute force: every change to every subscription it concerns, in any weather."""

import random
import uuid
from collections import defaultdict
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tolerant.client import Client, StatementClient
from tolerant.kernels.versions import version
from tolerant.pipeline import rows_shard as shard
from tolerant.pipeline.intake import readable_row
from tolerant.pipeline.rows_shard import _dead_change
from tolerant.sql import parse, render
from tolerant.sql.subscriptions import subscription_row
from tolerant.streams import SECOND
from tolerant.testing import LocalPipeline
from tolerant.testing.channel_listener import ChannelListenerFactory
from tolerant.transport.changes import clock_row, insert_batch
from tolerant.transport.rows import unpack

STOCK = parse("CREATE TABLE stock (id BIGINT, name STRING, x DOUBLE, y INT) KEY (id)")
AREA = parse("CREATE QUERY area(low, high) AS SELECT * FROM stock WHERE x BETWEEN low AND high")
BOX = parse("CREATE QUERY box(low, top) AS SELECT * FROM stock WHERE x BETWEEN low AND 50 AND y BETWEEN 0 AND top")
CHEAP = parse("CREATE QUERY cheap AS SELECT * FROM stock WHERE x BETWEEN 0 AND 10")
TOPICS = ["queries", "changes.stock", "subscriptions.stock"]
START = 1_000_000 * SECOND


class StockPipeline(LocalPipeline):
    """A table of stock with queries over it."""

    shard: Any

    def __init__(self, *queries, stock=STOCK):
        super().__init__([stock, *queries], pipeline=stock.name, now=START)

    def subscribe(self, statement):
        self.send(statement)
        catalogue = self.statements.catalogue()
        query = catalogue.queries[statement.about]
        return subscription_row(statement, query, self.relation).column("id")[0].as_py()

    def hearing(self, query):
        """What the channels say to each subscription, strictly by their headers."""
        values: dict[int, Sequence] = {0: ()}
        for row in self.rows("subscriptions.stock"):
            values[row["id"]] = [value for name, value in row.items() if name.startswith("parameter.")]
        entries = self.log.read([f"channels.{query}", f"answers.{query}"])
        listener = ChannelListenerFactory(lambda number, row: inside(query, values[number], row)).read(entries)
        assert listener.faults == []
        return listener

    def delivered(self, query):
        return {
            number: [(row["kind"], row["key"], row["row.x"], row["row.y"]) for row in rows]
            for number, rows in self.hearing(query).told.items()
        }


def number_of(statement):
    query = {"area": AREA, "box": BOX}[statement.about]
    return subscription_row(statement, query, STOCK).column("id")[0].as_py()


def test_rows_come_to_the_subscriptions_that_they_concern():
    pipeline = StockPipeline(AREA, CHEAP)
    narrow, wide = parse("SUBSCRIBE area(4, 6)"), parse("SUBSCRIBE area(0, 100)")
    pipeline.subscribe(narrow)
    pipeline.subscribe(wide)
    pipeline.table().insert(id=1, name="a", x=5.0, y=1)
    pipeline.table().insert(id=2, name="b", x=20.0, y=1)
    pipeline.tick()
    pipeline.table().update(id=1, name="a", x=7.0, y=1)
    pipeline.table().delete(2)
    pipeline.tick()
    assert pipeline.delivered("area")[number_of(narrow)] == [("insert", "1", 5.0, 1), ("delete", "1", 5.0, 1)]
    assert [change[:3] for change in pipeline.delivered("area")[number_of(wide)]] == [
        ("insert", "1", 5.0),
        ("insert", "2", 20.0),
        ("delete", "1", 5.0),
        ("insert", "1", 7.0),
        ("delete", "2", 20.0),
    ]
    assert [change[:3] for change in pipeline.delivered("cheap")[0]] == [
        ("insert", "1", 5.0),
        ("delete", "1", 5.0),
        ("insert", "1", 7.0),
    ]
    assert [row["message"] for row in pipeline.rows("replies")] == [
        "query area created",
        "query cheap created",
        "subscribed to area",
        "subscribed to area",
    ]


def test_who_unsubscribes_hears_nothing_more():
    pipeline = StockPipeline(AREA)
    pipeline.subscribe(parse("SUBSCRIBE area(0, 10)"))
    pipeline.table().insert(id=1, name="a", x=5.0, y=1)
    pipeline.tick()
    pipeline.subscribe(parse("UNSUBSCRIBE area(0, 10)"))
    pipeline.table().insert(id=2, name="b", x=5.0, y=1)
    pipeline.tick()
    assert [len(changes) for changes in pipeline.delivered("area").values()] == [1]


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
    pipeline = StockPipeline(AREA)
    pipeline.tick()
    sequence = np.arange(300_000) % 3 - 1  # of three rows two cannot be used
    pipeline.log.append("changes.stock", many_bad_rows(300_000, sequence=pa.array(sequence)))
    pipeline.log.append("changes.stock", many_bad_rows(1_000, at=pa.array(START + 10**9 + np.arange(1_000) // 2 * 2)))
    pipeline.tick()
    letters = pipeline.rows("dead_letters.stock")
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
    pipeline = StockPipeline(AREA, stock=stock)
    pipeline.tick()
    pipeline.log.append("changes.stock", clock_row(stock.columns, pipeline.now, 1, str(uuid.uuid4())))
    pipeline.read()
    assert pipeline.rows("dead_letters.stock") == []  # the pipeline's own name is not too long
    pipeline.log.append("changes.stock", many_bad_rows(11))
    pipeline.read()
    assert "declares 11 rows" in pipeline.rows("dead_letters.stock")[-1]["reason"]
    pipeline.log.append("changes.stock", many_bad_rows(10, **{"row.name": pa.array(["n" * 1000] * 10)}))
    pipeline.read()
    assert "bytes" in pipeline.rows("dead_letters.stock")[-1]["reason"]
    pipeline.log.append("changes.stock", many_bad_rows(10, key=pa.array(["123456"] * 10)))
    pipeline.read()
    reasons = [row["reason"] for row in pipeline.rows("dead_letters.stock")][-4:]
    assert reasons == ["key has more than 5 characters"] * 3 + ["and 7 more: key has more than 5 characters"]
    # Who feeds the table divides what it sends.
    pipeline.table().insert_many([(number, "n", 1.0, 1) for number in range(25)])
    pipeline.tick()
    pipeline.tick()
    assert len(pipeline.rows("rows.stock")) == 25
    assert max(unpack(entry.payload).num_rows for entry in pipeline.log.read("changes.stock")[-5:]) == 10


def test_what_cannot_be_used_is_a_dead_letter():
    pipeline = StockPipeline(AREA)
    pipeline.log.append_packed([("changes.stock", b"nobody can read this"), ("subscriptions.stock", b"nor this")])
    pipeline.log.append("subscriptions.stock", pa.record_batch({"template": ["area"]}))
    pipeline.now += 60 * SECOND
    pipeline.table().insert(id=1, name="early", x=5.0, y=1)
    pipeline.table().flush()
    pipeline.now -= 60 * SECOND
    pipeline.tick()
    reasons = [row["reason"] for row in pipeline.rows("dead_letters.stock")]
    assert len(reasons) == 4
    assert "ahead" in reasons[-1]
    assert len(pipeline.shard.relation) == 0


def test_a_late_row_is_applied_at_once():
    pipeline = StockPipeline(CHEAP)
    pipeline.tick()
    pipeline.now -= SECOND
    pipeline.table().insert(id=1, name="late", x=5.0, y=1)
    pipeline.table().flush()
    pipeline.now += SECOND
    pipeline.read()
    assert len(pipeline.delivered("cheap")[0]) == 1


def test_status_says_how_many_rows_and_subscriptions_there_are():
    pipeline = StockPipeline(AREA)
    pipeline.subscribe(parse("SUBSCRIBE area(0, 10)"))
    pipeline.table().insert(id=1, name="a", x=5.0, y=1)
    for _ in range(12):
        pipeline.tick()
    body = pipeline.log.latest("status.stock", "summary/0").body.decode()
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
    pipeline, model = StockPipeline(AREA, BOX), Model()
    for step in steps:
        play(pipeline, model, step)
    pipeline.tick()
    for template in ("area", "box"):
        expected = {number: told for (name, number), told in model.delivered.items() if name == template}
        assert pipeline.delivered(template) == expected
    relation = pipeline.shard.relation
    assert dict(zip(relation.keys(), relation.rows()["x"], strict=True)) == {k: r["x"] for k, r in model.rows.items()}
    again = pipeline.new_shard()
    again.restore(pipeline.shard.snapshot())
    assert again.snapshot() == pipeline.shard.snapshot()


def play(pipeline, model, step):
    match step:
        case ("put", key, x, y):
            row = {"id": key, "name": f"n{key}", "x": x, "y": y}
            pipeline.table().update(row)
            model.put(str(key), row)
        case ("drop", key):
            pipeline.table().delete(key)
            model.drop(str(key))
        case ("join", template, low, high) if template == "box" or low <= high:
            # Time first, so that the model need not know that rows wait for it.
            pipeline.tick()
            values = (low, high) if template == "area" else (min(low, 50.0), max(0, int(high)))
            statement = parse(f"SUBSCRIBE {template}({values[0]}, {values[1]})")
            pipeline.subscribe(statement)
            model.subscribed[number_of(statement)] = (template, values)
        case ("leave", which) if model.subscribed:
            pipeline.tick()
            number = list(model.subscribed)[which % len(model.subscribed)]
            template, values = model.subscribed.pop(number)
            pipeline.subscribe(parse(f"UNSUBSCRIBE {template}({values[0]}, {values[1]})"))
        case ("tick", cut):
            pipeline.tick(cut=cut)
        case ("restart",):
            pipeline.restart()
        case ("fold",):
            pipeline.take_snapshot()


@pytest.mark.parametrize("seed", range(20))
def test_a_client_has_the_rows_of_its_range_and_hears_each_change_once(seed):
    rng = random.Random(seed)
    pipeline = StockPipeline(CHEAP)
    held, position, client = {}, None, None
    for _ in range(60):
        key, x = rng.randrange(8), rng.choice([1.0, 5.0, 10.0, 11.0])
        pipeline.table().update(id=key, name="n", x=x, y=0) if rng.random() < 0.7 else pipeline.table().delete(key)
        if rng.random() < 0.4:
            pipeline.tick()
        if client is None and rng.random() < 0.2:  # a new process, with what the last one kept
            client = Client(pipeline.log).subscribe("cheap", position=position)
            held = held if position else {}
        if client is not None:
            changes = client.changes(stop=lambda: True)
            for change in [*changes, *poll(client)]:
                apply(held, change)
                position = change.position or position
            if rng.random() < 0.2 and position is not None:
                client = None
    pipeline.tick()
    client = Client(pipeline.log).subscribe("cheap", position=position)
    held = held if position else {}
    for change in [*client.ready(), *poll(client)]:
        apply(held, change)
    now = pipeline.shard.relation
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
    pipeline = StockPipeline(AREA)
    ranges = [(low, low + 2) for low in range(200)]
    for low, high in ranges:
        pipeline.subscribe(parse(f"SUBSCRIBE area({low}, {high})"))
    pipeline.tick()
    client = Client(pipeline.log)
    many = client.subscriptions("area", low=[low for low, _ in ranges], high=[high for _, high in ranges])
    pipeline.table().insert(id=1, name="a", x=50.0, y=1)
    pipeline.tick()
    looks = iter([False, True])
    heard = list(client.changes(many, stop=lambda: next(looks)))
    assert sorted(ranges[many.index(one)][0] for one, _ in heard) == [48, 49, 50]
    assert {change.row["id"] for _, change in heard} == {1}


def test_a_table_that_is_dropped_and_created_again_is_empty():
    pipeline = StockPipeline(CHEAP)
    pipeline.table().insert(id=1, name="a", x=5.0, y=1)
    pipeline.tick()
    for statement in (parse("DROP QUERY cheap"), parse("DROP TABLE stock"), STOCK, CHEAP):
        StatementClient(pipeline.log).send(statement)
    pipeline.tick()
    assert len(pipeline.shard.relation) == 0
    assert list(Client(pipeline.log).subscribe("cheap").ready()) == []
    anew = pipeline.new_shard()
    anew.apply(pipeline.log.read(TOPICS))
    assert anew.snapshot() == pipeline.shard.snapshot()
