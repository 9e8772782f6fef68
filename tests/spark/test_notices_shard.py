"""Exact aggregates over ranges against brute force: who hears what of each change, in any weather."""

import json
import math
import random
from fractions import Fraction

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from test_table_shard import STOCK, StockPipeline

from tolerant.client import Client
from tolerant.kinds.notices.listener import NoticeExtractor
from tolerant.sql import parse
from tolerant.sql.subscriptions import subscription_row
from tolerant.transport.rows import unpack
from tolerant.transport.subscriptions import subscription_batches

FUNCTIONS = {
    "lowest": "MIN(y)",
    "highest": "MAX(y)",
    "many": "COUNT(*)",
    "sum": "SUM(y)",
    "mean": "AVG(y)",
    "names": "DISTINCT name",
}
QUERIES = {
    name: parse(f"CREATE QUERY {name}(low, high) AS SELECT {what} FROM stock WHERE x BETWEEN low AND high")
    for name, what in FUNCTIONS.items()
}
PLACES = [-10.0, 0.0, 4.0, 5.0, 10.0, 11.5]
RANGES = [(low, high) for low in PLACES for high in PLACES if low <= high]


def answer(name, rows, low, high):
    """The slow way."""
    inside = [row for row in rows.values() if low <= row["x"] <= high]
    ys = [row["y"] for row in inside]
    match name:
        case "many":
            return len(inside)
        case "names":
            return frozenset(row["name"] for row in inside)
        case "lowest":
            return min(ys, default=None)
        case "highest":
            return max(ys, default=None)
        case "sum":
            return sum(ys) if ys else None
        case _:
            return float(Fraction(sum(ys), len(ys))) if ys else None


class NoticePipeline(StockPipeline):
    """A pipeline with the six queries; `subscribe` takes a name and a range."""

    def __init__(self):
        super().__init__(*QUERIES.values())

    def join(self, name, low, high, kind="SUBSCRIBE"):
        statement = parse(f"{kind} {name}({low}, {high})")
        self.log.append("subscriptions.stock", subscription_row(statement, QUERIES[name], STOCK))

    def listen(self, name, ranges, position=None):
        client = Client(self.log)
        if position is None:
            lows, highs = zip(*ranges, strict=True)
            return client.subscriptions(name, low=lows, high=highs)
        (low, high), *_ = ranges
        return [client.subscribe(name, low=low, high=high, position=position)]


def drain(subscription):
    while subscription.poll():
        pass
    return list(subscription.ready())


class Everyone:
    """Listens for every range of a query, and holds what is heard against brute force after each change."""

    def __init__(self, pipeline, name, rows):
        self.name, self.rows = name, rows
        self.heard = pipeline.listen(name, RANGES)
        self.held = {}
        for one, (low, high) in zip(self.heard, RANGES, strict=True):
            (current,) = one.ready()
            assert current.current
            assert current.value == answer(name, rows, low, high)
            self.held[low, high] = [current.value]

    def expect(self, rows):
        """The rows after one more change."""
        for (low, high), told in self.held.items():
            now = answer(self.name, rows, low, high)
            if now != told[-1]:
                told.append(now)

    def check(self):
        for one, where in zip(self.heard, RANGES, strict=True):
            assert [change.value for change in drain(one)] == self.held[where][1:], (self.name, where)
            del self.held[where][:-1]


STEPS = st.one_of(
    st.tuples(st.just("put"), st.integers(0, 5), st.sampled_from(PLACES), st.integers(-1, 3), st.sampled_from("abc")),
    st.tuples(st.just("drop"), st.integers(0, 6)),
    st.tuples(st.just("tick"), st.sampled_from([None, 1, 2])),
    st.tuples(st.just("restart")),
    st.tuples(st.just("fold")),
)


@pytest.mark.parametrize("name", FUNCTIONS)
@settings(deadline=None, max_examples=15)
@given(steps=st.lists(STEPS, max_size=25), first=st.lists(STEPS, max_size=8))
def test_every_range_hears_what_brute_force_says(name, steps, first):
    pipeline, rows = NoticePipeline(), {}
    for step in first:
        play(pipeline, rows, step, None)
    for low, high in RANGES:
        pipeline.join(name, low, high)
    pipeline.tick()
    everyone = Everyone(pipeline, name, rows)
    for step in steps:
        play(pipeline, rows, step, everyone)
    pipeline.tick()
    everyone.check()
    again = pipeline.new_shard()
    again.restore(pipeline.shard.snapshot())
    assert again.snapshot() == pipeline.shard.snapshot()
    anew = pipeline.new_shard()
    said = [output for entry in pipeline.log.read(["queries", "changes.stock", "subscriptions.stock"])
            for output in anew.apply([entry])]  # fmt: skip
    assert [o.payload for o in said if o.topic.startswith("notices.")] == [
        entry.payload for entry in pipeline.log.read([f"notices.{query}" for query in QUERIES])
    ]


def play(pipeline, rows, step, everyone):
    match step:
        case ("put", key, x, y, name):
            row = {"id": key, "name": name, "x": x, "y": y}
            pipeline.table().update(row)
            rows[key] = row
        case ("drop", key):
            pipeline.table().delete(key)
            rows.pop(key, None)
        case ("tick", cut):
            pipeline.tick(cut=cut)
        case ("restart",):
            pipeline.restart()
        case ("fold",):
            pipeline.take_snapshot()
    if everyone is not None:
        everyone.expect(rows)


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("seed", range(4))
def test_one_who_dies_and_resumes_hears_every_change_once(name, seed):
    chance, pipeline, rows = random.Random(seed), NoticePipeline(), {}
    low, high = chance.choice([where for where in RANGES if where[0] < where[1]])
    pipeline.join(name, low, high)
    pipeline.tick()
    (one,) = pipeline.listen(name, [(low, high)])
    (current,) = one.ready()
    expected, heard, position = [current.value], [current.value], current.position
    for _ in range(60):
        kind = chance.choice(["put", "put", "drop", "tick", "listen"])
        if kind == "listen":  # a new process, which deals with some of what it hears
            (one,) = pipeline.listen(name, [(low, high)], str(position))
            changes = drain(one)
            for change in changes[: chance.randint(0, len(changes))]:
                heard.append(change.value)
                position = change.position
        elif kind == "tick":
            pipeline.tick()
        else:
            step = ("put", chance.randrange(6), chance.choice(PLACES), chance.randint(-1, 3), chance.choice("abc"))
            play(pipeline, rows, step if kind == "put" else ("drop", chance.randrange(6)), None)
            if answer(name, rows, low, high) != expected[-1]:
                expected.append(answer(name, rows, low, high))
    pipeline.tick()
    (one,) = pipeline.listen(name, [(low, high)], str(position))
    assert heard + [change.value for change in drain(one)] == expected
    assert len(expected) > 3


def test_nothing_is_said_that_reaches_nobody():
    pipeline = NoticePipeline()
    pipeline.join("lowest", 0, 5)
    pipeline.join("many", 0, 5)
    pipeline.tick()
    pipeline.table().insert(id=1, name="a", x=7.0, y=1)
    pipeline.table().insert(id=2, name="a", x=3.0, y=2)
    pipeline.table().insert(id=3, name="a", x=4.0, y=9)
    pipeline.tick()
    assert [(row["value"], row["step"]) for row in pipeline.rows("notices.lowest")] == [(2.0, 2)]
    assert [row["new_x"] for row in pipeline.rows("notices.many")] == [3.0, 4.0]
    assert pipeline.rows("notices.names") == []
    pipeline.join("lowest", 0, 5, "UNSUBSCRIBE")
    pipeline.table().delete(2)
    pipeline.tick()
    assert len(pipeline.rows("notices.lowest")) == 1


def test_status_counts_changes_by_what_they_are_to_answers():
    pipeline = NoticePipeline()
    pipeline.join("lowest", 0, 5)
    for key, x, y in ((1, 3.0, 4), (2, 3.0, 6), (3, 9.0, 1), (4, 1.0, 5)):  # the second changes nobody's answer
        pipeline.table().insert(id=key, name="a", x=x, y=y)
    pipeline.tick()
    pipeline.table().delete(1)  # exposes two rows
    for _ in range(3):
        pipeline.restart()
        pipeline.tick()
    pipeline.take_snapshot()
    for _ in range(10):
        pipeline.restart()
        pipeline.tick()
    figures = json.loads(pipeline.log.latest("status.stock", "summary/0").body)["figures"]
    assert figures["lowest"] == {"ignorable": 1, "easy": 3, "difficult": 1, "unheard": 2}
    assert figures["many"] == {"ignorable": 0, "easy": 5, "difficult": 0, "unheard": 5}


def test_a_change_in_place_is_one_row_whatever_it_exposes():
    pipeline = NoticePipeline()
    for low, high in RANGES:
        pipeline.join("lowest", low, high)
    for key, x, y in ((1, 0.0, 5), (2, 4.0, 1), (3, 5.0, 6), (4, 10.0, 3)):
        pipeline.table().insert(id=key, name="a", x=x, y=y)
    pipeline.tick()
    before = len(pipeline.rows("notices.lowest"))
    pipeline.table().update(id=2, name="a", x=4.0, y=9)
    pipeline.tick()
    (notice,) = pipeline.rows("notices.lowest")[before:]
    assert (notice["value"], notice["inner_low"], notice["outer_low"], notice["outer_high"]) == (
        9.0, 4.0, -math.inf, math.inf,
    )  # fmt: skip
    assert [(point["x"], point["y"]) for point in notice["points"]] == [(0.0, 5.0), (5.0, 6.0), (10.0, 3.0)]


def test_many_listeners_hear_the_same_as_few(monkeypatch):
    pipeline = NoticePipeline()
    ranges = [(low / 4, low / 4 + width) for low in range(-20, 40) for width in (0, 1, 5)]
    for name in QUERIES:
        for low, high in ranges:
            pipeline.join(name, low, high)
    pipeline.tick()
    many = {name: pipeline.listen(name, ranges) for name in QUERIES}
    few = {name: [pipeline.listen(name, [where])[0] for where in ranges] for name in QUERIES}
    chance, rows = random.Random(5), {}
    for _ in range(120):
        step = ("put", chance.randrange(9), chance.randrange(-20, 40) / 4, chance.randint(0, 9), chance.choice("abc"))
        play(pipeline, rows, step if chance.random() < 0.8 else ("drop", chance.randrange(9)), None)
    pipeline.tick()
    for name in QUERIES:
        told = [[change.value for change in [*one.ready(), *drain(one)]] for one in many[name]]
        assert told == [[change.value for change in [*one.ready(), *drain(one)]] for one in few[name]]
        assert [values[-1] for values in told] == [answer(name, rows, low, high) for low, high in ranges]


TYPED = parse("CREATE TABLE stock (id BIGINT, i INT, b BIGINT, f FLOAT, d DOUBLE, s STRING, t BOOLEAN) KEY (id)")


@pytest.mark.parametrize("place", ["i", "b", "f", "d"])
@pytest.mark.parametrize("aggregate", ["MIN(i)", "MAX(b)", "SUM(b)", "SUM(f)", "AVG(i)", "COUNT(s)"]
                         + [f"DISTINCT {column}" for column in "ibfdst"])  # fmt: skip
def test_columns_of_every_type(place, aggregate):
    query = parse(f"CREATE QUERY q AS SELECT {aggregate} FROM stock WHERE {place} BETWEEN -5 AND 5")
    pipeline, chance, rows = StockPipeline(query, stock=TYPED), random.Random(f"{place} {aggregate}"), {}
    pipeline.tick()
    one = Client(pipeline.log).subscribe("q")
    told = [change.value for change in one.ready()]
    for _ in range(25):
        key, number = chance.randrange(4), chance.randint(-8, 8)
        row = {"id": key, "i": number, "b": number * 2, "f": number / 4, "d": number / 8, "s": f"é{number % 3}",
               "t": number > 0}  # fmt: skip
        if chance.random() < 0.8:
            pipeline.table().update(row)
            rows[key] = row
        else:
            pipeline.table().delete(key)
            rows.pop(key, None)
    pipeline.tick()
    told += [change.value for change in drain(one)]
    function, column = aggregate.removesuffix(")").replace("(", " ").split()
    values = [row[column] for row in rows.values() if -5 <= row[place] <= 5]
    expected = {
        "MIN": lambda: min(values, default=None),
        "MAX": lambda: max(values, default=None),
        "SUM": lambda: sum(values) if values else None,
        "AVG": lambda: sum(values) / len(values) if values else None,
        "COUNT": lambda: len(values),
        "DISTINCT": lambda: frozenset(values),
    }[function]()
    assert told[-1] == expected
    assert type(told[-1]) is type(expected)
    assert len(told) > 2


@pytest.mark.parametrize("name", FUNCTIONS)
def test_ranges_may_be_open(name):
    pipeline, ranges = NoticePipeline(), [(-math.inf, 5.0), (4.0, math.inf), (-math.inf, math.inf)]
    lows, highs = (pa.array(ends, pa.float64()) for ends in zip(*ranges, strict=True))
    for batch in subscription_batches(name, {"low": "DOUBLE", "high": "DOUBLE"}, {"low": lows, "high": highs}):
        pipeline.log.append("subscriptions.stock", batch)
    pipeline.tick()
    heard = pipeline.listen(name, ranges)
    rows, told = {}, [[change.value for change in one.ready()] for one in heard]
    for step in (("put", 1, 4.0, 7, "a"), ("put", 2, 1e9, 3, "b"), ("put", 3, -1e9, 9, "c"), ("drop", 1)):
        play(pipeline, rows, step, None)
        pipeline.tick()
        for values, one, (low, high) in zip(told, heard, ranges, strict=True):
            values += [change.value for change in drain(one)]
            assert values[-1] == answer(name, rows, low, high)


def test_sums_do_not_drift():
    table = parse("CREATE TABLE stock (id BIGINT, x DOUBLE, y DOUBLE) KEY (id)")
    total = parse("CREATE QUERY total AS SELECT SUM(y) FROM stock WHERE x BETWEEN 0 AND 10")

    pipeline = StockPipeline(total, stock=table)
    pipeline.tick()
    one = Client(pipeline.log).subscribe("total")
    for key, y in enumerate([0.1, 1e300, 0.2, -1e300]):
        pipeline.table().insert(id=key, x=5.0, y=y)
    pipeline.tick()
    assert [change.value for change in [*one.ready(), *drain(one)]] == [None, 0.1, 1e300, 0.1 + 0.2]


def test_notices_of_another_query_of_the_same_name_are_passed_over():
    pipeline = NoticePipeline()
    pipeline.join("lowest", 0, 5)
    pipeline.table().insert(id=1, name="a", x=3.0, y=1)
    pipeline.tick()
    (entry,) = pipeline.log.read("notices.lowest")
    other = NoticeExtractor("lowest", unpack(pipeline.log.read("changes.stock")[0].payload).schema)
    assert list(other.extract(unpack(entry.payload), {})) == []
