"""Joins with room for some rows: what is said does not depend on batches or restarts, and is what the core says."""

import json
import random
from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from test_pair_shard import PairPipeline

from tolerant.client import Client, kept_share
from tolerant.pipeline.join_codes import codes
from tolerant.retention import Store, join
from tolerant.sql import AppendOnlyJoinInput, PipelineId, parse
from tolerant.streams import SECOND

ORDERS = parse("CREATE TABLE orders (id BIGINT, part BIGINT, note STRING) KEY (id)")
LINES = parse("CREATE TABLE lines (id BIGINT, part BIGINT, amount DOUBLE) KEY (id)")
HOME = "lines~orders"


def keep(rows, name="kept"):
    return parse(f"CREATE QUERY {name} AS SELECT * FROM orders JOIN lines ON orders.part = lines.part KEEP {rows} ROWS")


class AppendOnlyPipeline(PairPipeline):
    """Two tables that only grow, with queries over both."""

    def pairs(self, name="kept"):
        """(order, line) of the results, in the order in which they were said."""
        return [(row["row.orders.id"], row["row.lines.id"]) for row in self.rows(f"answers.{name}")]

    def put(self, order=None, line=None):
        """A row of one table or of both, all of the next moment."""
        self.now += 1000
        moment, self.number = self.now, getattr(self, "number", 0) + 1
        if order is not None:
            self.table("orders").insert(id=2 * self.number, part=order, note=f"é{order}")
        if line is not None:
            self.now = moment
            self.table("lines").insert(id=2 * self.number + 1, part=line, amount=line / 2)


def all_pairs(orders, lines):
    return sum(count * Counter(lines)[part] for part, count in Counter(orders).items())


def test_a_query_that_keeps_rows_has_a_home_of_its_own():
    assert str(PipelineId.of(keep(5).select)) == HOME == AppendOnlyJoinInput.of(ORDERS, LINES).name


STEPS = st.one_of(
    st.tuples(st.just("put"), st.none() | st.integers(0, 4), st.none() | st.integers(0, 4)),
    st.tuples(st.just("tick"), st.sampled_from([None, 1, 2])),
    st.tuples(st.just("restart")),
    st.tuples(st.just("fold")),
)


@settings(deadline=None, max_examples=30)
@given(steps=st.lists(STEPS, max_size=40), room=st.integers(1, 8))
def test_what_is_said_depends_on_the_log_alone_and_is_what_the_rows_kept_give(steps, room):
    pipeline, orders, lines = AppendOnlyPipeline(keep(room), keep(1000, "all"), tables=(ORDERS, LINES)), {}, {}
    for step in steps:
        match step:
            case ("put", order, line):
                pipeline.put(order, line)
                orders |= {} if order is None else {2 * pipeline.number: order}
                lines |= {} if line is None else {2 * pipeline.number + 1: line}
            case ("tick", cut):
                pipeline.tick(cut=cut)
            case ("restart",):
                pipeline.restart()
            case ("fold",):
                pipeline.take_snapshot()
    pipeline.tick()
    found, complete = pipeline.pairs(), pipeline.pairs("all")
    expected = {(o, n) for o, part in orders.items() for n, other in lines.items() if part == other}
    assert len(complete) == len(expected)
    assert set(complete) == expected
    assert len(set(found)) == len(found)
    assert set(found) <= expected
    if len(orders) + len(lines) <= room:
        assert set(found) == expected
    for query in pipeline.shard._queries.values():
        assert query.held == sum(map(len, query._rows)) <= query.query.select.rows
    again = pipeline.new_shard()
    again.restore(pipeline.shard.snapshot())
    assert again.snapshot() == pipeline.shard.snapshot()
    anew = pipeline.new_shard()
    said = [output for entry in pipeline.log.read(pipeline.topics) for output in anew.apply([entry])]
    assert [o.payload for o in said if o.topic == "answers.kept"] == [
        e.payload for e in pipeline.log.read("answers.kept")
    ]


def drifting(ticks, lag, noise, seed=0):
    rng, line = np.random.default_rng(seed), np.arange(ticks)
    return line + rng.integers(-noise, noise + 1, ticks), line - lag + rng.integers(-noise, noise + 1, ticks)


def test_results_are_those_of_the_core_over_the_same_rows():
    orders, lines = drifting(600, 20, 8)
    pipeline, store, expected = AppendOnlyPipeline(keep(30), tables=(ORDERS, LINES)), Store(30, same_tick=True), []
    for t, (order, line) in enumerate(zip(orders.tolist(), lines.tolist(), strict=True)):
        pipeline.put(order, line)
        if t % 37 == 0:
            pipeline.tick(cut=random.Random(t).choice([None, 1, 3]))
        for k, value in enumerate((order, line)):
            held, new = store.offer(k, [2 * (t + 1) + k], [value])
            expected += [(h, n) if k else (n, h) for h, n in zip(held.tolist(), new.tolist(), strict=True)]
        store.tick()
    pipeline.tick()
    assert sorted(pipeline.pairs()) == sorted(expected)
    at_once = np.count_nonzero(orders == lines)  # the simulation does not count pairs of one moment
    assert len(expected) - at_once >= 0.95 * join(orders, lines, 30).results
    assert len(expected) >= 0.75 * all_pairs(orders.tolist(), lines.tolist())


def test_many_rows_of_one_moment_are_cut_into_ticks():
    pipeline = AppendOnlyPipeline(keep(50), tables=(ORDERS, LINES))
    parts = np.random.default_rng(1).integers(0, 60, 400)
    pipeline.table("orders").insert_many({"id": list(range(400)), "part": parts.tolist(), "note": ["x"] * 400})
    pipeline.tick()
    pipeline.table("lines").insert_many({"id": list(range(60)), "part": list(range(60)), "amount": [1.0] * 60})
    pipeline.tick()
    assert 0 < len(pipeline.pairs()) <= 400
    assert all(parts[order] == line for order, line in pipeline.pairs())
    assert pipeline.shard._queries["kept"].held == 50


def test_rows_that_are_deleted_or_replaced_are_dead_letters():
    pipeline = AppendOnlyPipeline(keep(10), tables=(ORDERS, LINES))
    pipeline.put(order=3)
    pipeline.put(order=4)
    pipeline.table("orders").delete(2)
    pipeline.table("orders").update(id=4, part=5, note="changed")
    pipeline.put(line=3)
    pipeline.put(line=4)
    pipeline.put(line=5)
    pipeline.tick()
    assert pipeline.pairs() == [(2, 7), (4, 9)]
    dead = pipeline.rows(f"dead_letters.{HOME}")
    assert [(row["kind"], row["key"]) for row in dead] == [("delete", "2"), ("delete", "4"), ("insert", "4")]
    assert dead[0]["reason"] == (
        "a row of orders cannot be deleted: queries with KEEP are over tables that only grow"
    )  # fmt: skip
    assert "replaced" in dead[2]["reason"]


def test_the_share_of_results_that_is_kept():
    orders, lines = drifting(600, 40, 30, seed=4)
    pipeline = AppendOnlyPipeline(keep(60), keep(5000, "all"), tables=(ORDERS, LINES))
    for t, (order, line) in enumerate(zip(orders.tolist(), lines.tolist(), strict=True)):
        pipeline.put(order, line)
        if t % 200 == 199:
            pipeline.tick()
    for _ in range(12):
        pipeline.tick()
    found, possible = len(pipeline.pairs()), all_pairs(orders.tolist(), lines.tolist())
    said = kept_share(pipeline.log, "kept")
    assert said.found == found < possible == len(pipeline.pairs("all"))
    assert 0 < said.error < 0.1
    assert abs(said.share - found / possible) < 4 * said.error
    assert kept_share(pipeline.log, "all").share == 1.0
    assert pipeline.rows("answers.kept")[-1]["share"] == said.share
    status = json.loads(pipeline.log.latest(f"status.{HOME}", "summary/0").body)
    figures = status["figures"]["kept"]
    assert figures | {"share": 0, "error": 0} == {"rows": 1200, "kept": 60, "found": found, "share": 0, "error": 0}
    assert abs(figures["share"] - said.share) < 1e-4
    assert (status["rows"], status["results"]) == (1260, found + possible)


def drain(subscription):
    while subscription.poll():
        pass
    return list(subscription.ready())


@pytest.mark.parametrize("seed", range(3))
def test_one_who_dies_and_resumes_hears_every_result_once(seed):
    chance, pipeline, heard = random.Random(seed), AppendOnlyPipeline(keep(20), tables=(ORDERS, LINES)), []
    for part in range(6):
        pipeline.put(part, part)
    pipeline.tick()
    one = Client(pipeline.log).subscribe("kept")
    assert list(one.ready()) == []  # what was said before is not held
    place, before = one.position, len(pipeline.pairs())
    for _ in range(60):
        kind = chance.choice(["put", "put", "put", "tick", "anew", "listen"])
        if kind == "put":
            pipeline.put(chance.choice([None, chance.randrange(6)]), chance.choice([None, chance.randrange(6)]))
        elif kind == "tick":
            pipeline.tick()
        elif kind == "anew":  # another pipeline says everything again
            said = pipeline.new_shard().apply(
                [e for e in pipeline.log.read(pipeline.topics) if e.position <= pipeline.position]
            )
            pipeline.log.append_packed([(o.topic, o.payload) for o in said if o.topic == "answers.kept"])
        else:
            changes = drain(Client(pipeline.log).subscribe("kept", position=str(place)))
            dealt = changes[: chance.randint(0, len(changes))]
            heard += [(change.row["orders.id"], change.row["lines.id"]) for change in dealt]
            place = dealt[-1].position if dealt else place
    pipeline.tick()
    rest = drain(Client(pipeline.log).subscribe("kept", position=str(place)))
    heard += [(change.row["orders.id"], change.row["lines.id"]) for change in rest]
    assert heard == list(dict.fromkeys(pipeline.pairs()))[before:]


@pytest.mark.parametrize(
    ("left", "right"), [("BIGINT", "BIGINT"), ("BIGINT", "DOUBLE"), ("STRING", "STRING"), ("BOOLEAN", "BOOLEAN"),
                        ("INT", "FLOAT"), ("DOUBLE", "DOUBLE")],
)  # fmt: skip
def test_columns_of_every_type_can_be_equal(left, right):
    tables = tuple(parse(f"CREATE TABLE {n} (id BIGINT, k {t}) KEY (id)") for n, t in (("r", left), ("s", right)))
    query = parse("CREATE QUERY q AS SELECT * FROM s JOIN r ON s.k = r.k KEEP 500 ROWS")
    pipeline, chance, held = (
        AppendOnlyPipeline(query, tables=tables),
        random.Random(f"{left} {right}"),
        {"r": {}, "s": {}},
    )
    makers = {
        "BIGINT": lambda n: 2**63 - 1 - n if (left, right) == ("BIGINT", "BIGINT") else n - 2,
        "INT": lambda n: n,
        "FLOAT": lambda n: n / 2,
        "DOUBLE": lambda n: n / 3 if left == "DOUBLE" else n - 2.0,
        "STRING": lambda n: f"é{n}",
        "BOOLEAN": lambda n: n % 2 == 0,
    }
    for number in range(60):
        name = chance.choice("rs")
        value = makers[left if name == "r" else right](chance.randrange(5))
        pipeline.table(name).insert(id=number, k=value)
        held[name][number] = value
        if number % 9 == 0:
            pipeline.take_snapshot() if number % 2 else pipeline.restart()
            pipeline.tick()
    pipeline.tick()
    told = [(row["row.r.id"], row["row.s.id"]) for row in pipeline.rows("answers.q")]
    assert sorted(told) == sorted((a, b) for a, x in held["r"].items() for b, y in held["s"].items() if x == y)


def test_codes_of_equal_values_are_equal():
    assert codes(np.array([2**62, -(2**63)])).tolist() == codes(np.array([2.0**62, -(2.0**63)])).tolist()
    assert codes(np.array([0.5], np.float32)).tolist() == codes(np.array([0.5])).tolist()
    assert len(set(codes(np.array([f"k{n}" for n in range(5000)], object)).tolist())) == 5000
    assert np.abs(codes(np.array([1e300, -1e300, 0.1]))).max() < 2**62


def test_a_late_row_joins_what_is_there_then():
    pipeline = AppendOnlyPipeline(keep(10), tables=(ORDERS, LINES))
    pipeline.put(order=1)
    pipeline.tick()
    pipeline.now -= SECOND
    pipeline.table("lines").insert(id=99, part=1, amount=0.0)
    pipeline.flush()
    pipeline.now += SECOND
    pipeline.read()
    assert pipeline.pairs() == [(2, 99)]
