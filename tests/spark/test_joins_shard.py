"""Joins of two tables against brute force: who gains and loses which result rows, in any weather."""

import json
import math
import random

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from test_pair_shard import PairPipeline

from tolerant.client import Client
from tolerant.kinds.joins import joins
from tolerant.sql import JoinInput, parse
from tolerant.streams import SECOND
from tolerant.transport.subscriptions import subscription_batches

SUPPLY = parse("CREATE TABLE supply (id BIGINT, product STRING, a DOUBLE, b DOUBLE) KEY (id)")
DEMAND = parse("CREATE TABLE demand (id BIGINT, product STRING, c DOUBLE, b DOUBLE) KEY (id)")
TABLES = (SUPPLY, DEMAND)
QUERIES = {
    "matched": parse(
        "CREATE QUERY matched(a1, a2, c1, c2) AS SELECT * FROM supply r JOIN demand s ON r.product = s.product"
        " WHERE r.a BETWEEN a1 AND a2 AND s.c BETWEEN c1 AND c2"
    ),
    "near": parse(
        "CREATE QUERY near(low, high) AS SELECT * FROM supply r JOIN demand s ON s.b - r.b BETWEEN low AND high"
    ),
    "turned": parse(
        "CREATE QUERY turned(top) AS SELECT * FROM demand s JOIN supply r ON s.product = r.product"
        " WHERE r.a BETWEEN 0 AND top AND s.c BETWEEN 0 AND top"
    ),
    "close": parse("CREATE QUERY close AS SELECT * FROM supply r JOIN demand s ON s.b - r.b BETWEEN -1 AND 0.5"),
}
PARAMETERS = {
    "matched": [(0, 2, 0, 2), (1, 1, 1, 3), (-5, 5, 2, 2)],
    "near": [(-1, 1), (0.2, 1), (0, 0)],
    "turned": [(1,), (3,)],
    "close": [()],
}
HOME = JoinInput.of(*TABLES).name


def result(r, s, name):
    rows = {"supply": r, "demand": s}
    order = ("demand", "supply") if name == "turned" else ("supply", "demand")
    return {f"{table}.{column}": value for table in order for column, value in rows[table].items()}


def holds(name, given, r, s):
    same, apart = r["product"] == s["product"], s["b"] - r["b"]
    match name:
        case "matched":
            return same and given[0] <= r["a"] <= given[1] and given[2] <= s["c"] <= given[3]
        case "turned":
            return same and 0 <= r["a"] <= given[0] and 0 <= s["c"] <= given[0]
        case "near":
            return given[0] <= apart <= given[1]
        case _:
            return -1 <= apart <= 0.5


def results(name, given, rows):
    """The slow way: (supply id, demand id) → result row."""
    pairs = [(r, s) for r in rows["supply"].values() for s in rows["demand"].values() if holds(name, given, r, s)]
    return {(r["id"], s["id"]): result(r, s, name) for r, s in pairs}


class JoinPipeline(PairPipeline):
    """Supply and demand with the four queries."""

    def __init__(self):
        super().__init__(*QUERIES.values(), tables=TABLES)

    def join(self, name, values, kind="SUBSCRIBE"):
        statement = parse(f"{kind} {name}({', '.join(map(str, values))})")
        self.send(statement)

    def join_all(self):
        for name, every in PARAMETERS.items():
            for values in every:
                if values:
                    self.join(name, values)

    def listen(self, name, values, position=None):
        given = dict(zip(QUERIES[name].parameters, values, strict=True))
        if position is None and values:
            return Client(self.log).subscriptions(name, **{key: [value] for key, value in given.items()})[0]
        return Client(self.log).subscribe(name, position=position, **given)


def drain(subscription):
    while subscription.poll():
        pass
    return list(subscription.ready())


class Holder:
    """Follows what a subscription hears, and holds the result rows that it has."""

    def __init__(self, pipeline, name, values):
        self.name, self.values, self.held, self.position = name, values, {}, None
        self.one = pipeline.listen(name, values)
        self.take(self.one.ready())

    def take(self, changes):
        for change in changes:
            key = change.row["supply.id"], change.row["demand.id"]
            if change.kind == "insert":
                assert key not in self.held
                self.held[key] = change.row
            else:
                assert self.held.pop(key) == change.row
            self.position = change.position or self.position

    def check(self, rows):
        self.take(drain(self.one))
        assert self.held == results(self.name, self.values, rows), (self.name, self.values)


STEPS = st.one_of(
    st.tuples(
        st.just("put"), st.sampled_from(["supply", "demand"]), st.integers(0, 3), st.sampled_from("pq"),
        st.integers(0, 3), st.sampled_from([0.0, 0.1, 0.3, 1.0, 1.3]),
    ),
    st.tuples(st.just("drop"), st.sampled_from(["supply", "demand"]), st.integers(0, 4)),
    st.tuples(st.just("tick"), st.sampled_from([None, 1, 2])),
    st.tuples(st.just("check")),
    st.tuples(st.just("restart")),
    st.tuples(st.just("fold")),
)  # fmt: skip


def play(pipeline, rows, step):
    match step:
        case ("put", table, key, product, level, b):
            row = {"id": key, "product": product, "a" if table == "supply" else "c": float(level), "b": b}
            pipeline.table(table).update(row)
            rows[table][key] = row
        case ("drop", table, key):
            pipeline.table(table).delete(key)
            rows[table].pop(key, None)
        case ("tick", cut):
            pipeline.tick(cut=cut)
        case ("restart",):
            pipeline.restart()
        case ("fold",):
            pipeline.take_snapshot()


@pytest.mark.parametrize("part", [joins.PART, 2])
@settings(deadline=None, max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(first=st.lists(STEPS, max_size=8), steps=st.lists(STEPS, max_size=30))
def test_every_subscription_holds_what_brute_force_says(monkeypatch, part, first, steps):
    monkeypatch.setattr(joins, "PART", part)
    pipeline, rows = JoinPipeline(), {"supply": {}, "demand": {}}
    for step in first:
        play(pipeline, rows, step)
    pipeline.join_all()
    pipeline.tick()
    holders = [Holder(pipeline, name, values) for name, every in PARAMETERS.items() for values in every]
    for step in steps:
        if step[0] == "check":
            pipeline.tick()
            for holder in holders:
                holder.check(rows)
        play(pipeline, rows, step)
    pipeline.tick()
    for holder in holders:
        holder.check(rows)
    again = pipeline.new_shard()
    again.restore(pipeline.shard.snapshot())
    assert again.snapshot() == pipeline.shard.snapshot()
    anew = pipeline.new_shard()
    said = [output for entry in pipeline.log.read(pipeline.topics) for output in anew.apply([entry])]
    for name in QUERIES:
        assert [o.payload for o in said if o.topic == f"answers.{name}"] == [
            entry.payload for entry in pipeline.log.read(f"answers.{name}")
        ]


@pytest.mark.parametrize("name", QUERIES)
@pytest.mark.parametrize("seed", range(3))
def test_one_who_dies_and_resumes_hears_every_change_once(name, seed):
    chance, pipeline, rows = random.Random(seed), JoinPipeline(), {"supply": {}, "demand": {}}
    pipeline.join_all()
    for key in range(3):
        play(pipeline, rows, ("put", chance.choice(["supply", "demand"]), key, "p", 1, 0.1))
    pipeline.tick()
    values = PARAMETERS[name][0]
    holder = Holder(pipeline, name, values)
    place = holder.position or holder.one.position
    for _ in range(80):
        kind = chance.choice(["put", "put", "put", "drop", "tick", "listen"])
        if kind == "listen":  # a new process, which deals with some of what it hears: perhaps half a transaction
            changes = drain(pipeline.listen(name, values, str(place)))
            dealt = changes[: chance.randint(0, len(changes))]
            holder.take(dealt)
            place = dealt[-1].position if dealt else place
        else:
            table = chance.choice(["supply", "demand"])
            step = (
                "put",
                table,
                chance.randrange(5),
                chance.choice("pq"),
                chance.randint(0, 3),
                chance.choice([0.1, 1]),
            )
            play(
                pipeline,
                rows,
                {"put": step, "drop": ("drop", table, chance.randrange(5)), "tick": ("tick", None)}[kind],
            )
    pipeline.tick()
    holder.take(drain(pipeline.listen(name, values, str(place))))
    assert holder.held == results(name, values, rows)


def test_a_result_row_is_said_once_with_all_its_subscriptions():
    pipeline = JoinPipeline()
    pipeline.join_all()
    play(pipeline, {"supply": {}, "demand": {}}, ("put", "supply", 1, "p", 1, 0.0))
    pipeline.table("demand").insert_many({"id": [7, 8], "product": ["p", "q"], "c": [2.0, 2.0], "b": [0.1, 0.1]})
    pipeline.tick()
    (row,) = pipeline.rows("answers.matched")
    assert (row["kind"], row["row.supply.id"], row["row.demand.id"], len(row["subscriptions"])) == ("insert", 1, 7, 3)
    assert row["subscriptions"] == sorted(row["subscriptions"])
    assert len({r["step"] for r in pipeline.rows("answers.near")}) == 1  # one transaction


def test_rows_of_one_moment_that_come_and_go_never_meet():
    pipeline, rows = JoinPipeline(), {"supply": {}, "demand": {}}
    pipeline.join_all()
    play(pipeline, rows, ("put", "supply", 1, "p", 1, 0.0))
    pipeline.tick()
    pipeline.now += 1000
    moment = pipeline.now
    pipeline.table("supply").delete(1)
    pipeline.now = moment
    pipeline.table("demand").insert(id=7, product="p", c=1.0, b=0.0)
    pipeline.tick()
    assert pipeline.rows("answers.matched") == []


def test_who_unsubscribes_hears_nothing_more_and_may_come_again():
    pipeline, rows = JoinPipeline(), {"supply": {}, "demand": {}}
    pipeline.join("near", (-1, 1))
    play(pipeline, rows, ("put", "supply", 1, "p", 1, 0.0))
    play(pipeline, rows, ("put", "demand", 1, "p", 1, 0.0))
    pipeline.tick()
    pipeline.join("near", (-1, 1), "UNSUBSCRIBE")
    play(pipeline, rows, ("put", "demand", 2, "p", 1, 0.0))
    pipeline.tick()
    assert len(pipeline.rows("answers.near")) == 1
    pipeline.join("near", (-1, 1))
    pipeline.tick()
    again = Holder(pipeline, "near", (-1, 1))
    assert len(again.held) == 2
    play(pipeline, rows, ("drop", "supply", 1))
    pipeline.tick()
    again.check(rows)
    assert again.held == {}


def test_a_thousand_subscriptions_come_from_one_batch_and_go():
    pipeline = JoinPipeline()
    lows = np.arange(1000) / 100
    columns = {"low": pa.array(lows), "high": pa.array(lows + 1)}
    types = {"low": "DOUBLE", "high": "DOUBLE"}
    for batch in subscription_batches("near", types, columns):
        pipeline.log.append(f"subscriptions.{HOME}", batch)
    pipeline.table("supply").insert(id=1, product="p", a=1.0, b=0.0)
    pipeline.table("demand").insert(id=1, product="p", c=1.0, b=5.0)
    for _ in range(12):
        pipeline.tick()
    told = [
        one for row in pipeline.rows("answers.near") for one in row["subscriptions"]
    ]  # a row for each of two groups
    assert len(told) == len(set(told)) == sum((lows <= 5.0) & (lows + 1 >= 5.0))
    status = json.loads(pipeline.log.latest(f"status.{HOME}", "summary/0").body)
    assert status["subscriptions"]["near"] == 1000
    assert status["results"] == 2
    counts = {"rows": 2, "appeared": len(told), "retracted": 0, "rebuilds": 1, "groups": 10, "hot": 1.0}
    assert status["figures"]["near"] == counts
    columns = {name: column.slice(0, 450) for name, column in columns.items()}
    for batch in subscription_batches("near", types, columns, "unsubscribe"):
        pipeline.log.append(f"subscriptions.{HOME}", batch)
    pipeline.table("demand").delete(1)
    pipeline.tick()
    gone = [one for row in pipeline.rows("answers.near") for one in row["subscriptions"] if row["kind"] == "delete"]
    assert len(gone) == len(set(gone)) == sum(lows[450:] <= 5.0)


def test_subscriptions_that_cannot_be_used_change_nothing():
    pipeline = JoinPipeline()
    types = {"low": "DOUBLE", "high": "DOUBLE"}
    for low, high in ((2.0, 1.0), (math.nan, 1.0), (math.inf, math.inf)):
        columns = {"low": pa.array([0.0, low]), "high": pa.array([1.0, high])}
        for batch in subscription_batches("near", types, columns):
            pipeline.log.append(f"subscriptions.{HOME}", batch)
    pipeline.tick()
    reasons = [row["reason"] for row in pipeline.rows(f"dead_letters.{HOME}")]
    assert len(reasons) == 3
    assert all(reason.startswith("subscriptions cannot be used: ") for reason in reasons)
    columns = {"low": pa.array([-math.inf]), "high": pa.array([math.inf])}
    for batch in subscription_batches("near", types, columns):
        pipeline.log.append(f"subscriptions.{HOME}", batch)
    pipeline.table("supply").insert(id=1, product="p", a=1.0, b=0.0)
    pipeline.table("demand").insert(id=1, product="p", c=1.0, b=5e9)
    pipeline.tick()
    assert len(pipeline.rows("answers.near")) == 1


@pytest.mark.parametrize(
    ("left", "right"), [("BIGINT", "BIGINT"), ("BIGINT", "DOUBLE"), ("STRING", "STRING"), ("BOOLEAN", "BOOLEAN"),
                        ("INT", "FLOAT")],
)  # fmt: skip
def test_columns_of_every_type_can_be_equal(left, right):
    tables = tuple(
        parse(f"CREATE TABLE {n} (id BIGINT, k {t}, v INT) KEY (id)") for n, t in (("r", left), ("s", right))
    )
    query = parse(
        "CREATE QUERY q AS SELECT * FROM r JOIN s ON r.k = s.k WHERE r.v BETWEEN 0 AND 9 AND s.v BETWEEN 0 AND 9"
    )
    pipeline, chance = PairPipeline(query, tables=tables), random.Random(f"{left} {right}")
    makers = {
        "BIGINT": lambda n: 2**53 + n if (left, right) == ("BIGINT", "BIGINT") else n,
        "INT": lambda n: n,
        "FLOAT": float,
        "DOUBLE": lambda n: n / 1,
        "STRING": lambda n: f"é{n}",
        "BOOLEAN": lambda n: n % 2 == 0,
    }
    held = {"r": {}, "s": {}}
    for round_ in range(40):
        name = chance.choice("rs")
        key, number = chance.randrange(4), chance.randrange(4)
        row = {"id": key, "k": makers[left if name == "r" else right](number), "v": chance.randint(-1, 3)}
        if chance.random() < 0.8:
            pipeline.table(name).update(row)
            held[name][key] = row
        else:
            pipeline.table(name).delete(key)
            held[name].pop(key, None)
        if round_ % 9 == 0:
            pipeline.take_snapshot() if round_ % 2 else pipeline.restart()
            pipeline.tick()
    pipeline.tick()
    one = Client(pipeline.log).subscribe("q")
    current = {(change.row["r.id"], change.row["s.id"]) for change in one.ready()}
    expected = {
        (r["id"], s["id"])
        for r in held["r"].values() for s in held["s"].values()
        if r["k"] == s["k"] and r["v"] >= 0 and s["v"] >= 0
    }  # fmt: skip
    told = set()
    for row in pipeline.rows("answers.q"):
        pair = row["row.r.id"], row["row.s.id"]
        assert (pair in told) == (row["kind"] == "delete")
        told.symmetric_difference_update({pair})
    assert told == current == expected


def test_two_clocks_and_late_rows():
    pipeline, rows = JoinPipeline(), {"supply": {}, "demand": {}}
    pipeline.join_all()
    pipeline.tick()
    pipeline.now -= SECOND
    play(pipeline, rows, ("put", "supply", 1, "p", 1, 0.0))
    pipeline.flush()
    play(pipeline, rows, ("put", "demand", 1, "p", 1, 0.0))
    pipeline.flush()
    pipeline.now += SECOND
    pipeline.read()
    assert len(pipeline.rows("answers.matched")) == 1
    holder = Holder(pipeline, "matched", PARAMETERS["matched"][0])
    holder.check(rows)
