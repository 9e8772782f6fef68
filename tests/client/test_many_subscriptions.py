"""Many subscriptions at once: resumed in one pass as one by one, ended, listed; and ends without a limit."""

import math
import random

import pytest
from table_pipeline import TablePipeline

from tolerant.client import Client, list_subscriptions
from tolerant.sql import StatementError, parse
from tolerant.sql.subscriptions import subscription_row
from tolerant.transport import Deleted, MemoryLog

INFINITE = math.inf


def heard(subscription):
    while subscription.poll():
        pass
    return list(subscription.ready())


def as_told(change):
    return getattr(change, "kind", None), getattr(change, "row", None), getattr(change, "value", None), change.position


def register(pipeline, query, *values):
    pipeline.send(parse(f"SUBSCRIBE {query}({', '.join(map(str, values))})"))
    pipeline.read()


def life(chance, pipeline, steps):
    """Rows come, go and change, and time passes."""
    for _ in range(steps):
        kind = chance.random()
        if kind < 0.75:
            key = chance.randrange(12)
            pipeline.put(key, float(chance.randrange(20)), chance.randrange(20), chance.choice("abc"))
        elif kind < 0.85:
            pipeline.table().delete(chance.randrange(12))
        else:
            pipeline.tick()
    pipeline.tick()


@pytest.mark.parametrize("query", ["area", "least", "total", "kinds"])
@pytest.mark.parametrize("seed", range(3))
def test_many_resume_in_one_pass_as_each_would_alone(query, seed):
    chance = random.Random(f"{query} {seed}")
    pipeline = TablePipeline()
    ranges = sorted({(low, low + chance.randrange(8)) for low in (float(chance.randrange(20)) for _ in range(14))})
    for low, high in ranges:
        register(pipeline, query, low, high)
    # Each keeps a position of its own, from another moment of the history; some have none.
    kept = {}
    for part in range(4):
        life(chance, pipeline, 12)
        if part == 2:
            pipeline.replay()
        client = Client(pipeline.log)
        for low, high in chance.sample(ranges, len(ranges) // 2):
            subscription = client.subscriptions(query, low=[low], high=[high])[0]
            changes = heard(subscription)
            if changes and changes[-1].position is not None:
                kept[low, high] = str(changes[-1].position)
        # A range that is unsubscribed and subscribed again is on another channel from then on.
        low, high = chance.choice(ranges)
        pipeline.send(parse(f"UNSUBSCRIBE {query}({low}, {high})"))
        life(chance, pipeline, 2)
        if chance.random() < 0.7:
            register(pipeline, query, low, high)
    life(chance, pipeline, 12)
    positions = [kept.get(part) for part in ranges]
    assert any(positions)
    assert len(set(positions)) > 2
    lows, highs = [low for low, _ in ranges], [high for _, high in ranges]
    together = Client(pipeline.log).subscriptions(query, positions=positions, low=lows, high=highs)
    alone = [
        Client(pipeline.log).subscribe(query, position=position, low=low, high=high)
        if position
        else Client(pipeline.log).subscriptions(query, low=[low], high=[high])[0]
        for position, low, high in zip(positions, lows, highs, strict=True)
    ]
    assert [one.number for one in together] == [one.number for one in alone]
    before = [list(map(as_told, heard(one))) for one in alone]
    assert [list(map(as_told, heard(one))) for one in together] == before
    assert sum(map(len, before)) > 10
    # And they go on together as they would alone.
    life(chance, pipeline, 12)
    after = [list(map(as_told, heard(one))) for one in alone]
    assert [list(map(as_told, heard(one))) for one in together] == after
    assert sum(map(len, after)) > 0


def test_a_client_that_listens_already_takes_more_from_their_own_positions():
    pipeline = TablePipeline()
    for low in range(3):
        register(pipeline, "area", low, low + 1)
    client = Client(pipeline.log)
    (first,) = client.subscriptions("area", low=[0], high=[1])
    pipeline.put(1, 1.0)
    pipeline.tick()
    kept = heard(first)[-1].position
    pipeline.put(2, 1.5)
    pipeline.tick()
    others = client.subscriptions("area", positions=[kept, None], low=[1, 2], high=[2, 3])
    assert [change.row["id"] for change in heard(others[0])] == [2]
    assert heard(others[1]) == []
    assert heard(first) == []


def test_positions_are_one_for_each():
    pipeline = TablePipeline()
    client = Client(pipeline.log)
    with pytest.raises(ValueError, match="positions must be one for each of the 2 subscriptions, got 1"):
        client.subscriptions("area", positions=[None], low=[0, 1], high=[1, 2])
    with pytest.raises(ValueError, match="row 2 is the subscription of an earlier row"):
        client.subscriptions("area", positions=[None] * 3, low=[0, 1, -0.0], high=[1, 2, 1])
    with pytest.raises(ValueError, match="a position is text such as"):
        client.subscriptions("area", positions=["somewhere"], low=[0], high=[1])


def test_a_position_that_retention_has_passed_is_refused_and_nobody_joins():
    log = MemoryLog(now=lambda: 0)
    pipeline = TablePipeline(log)
    register(pipeline, "area", 0, 9)
    for key in range(5):
        pipeline.put(key, 5.0)
        pipeline.tick()
    client = Client(log)
    assert log.trim("answers.area", before=1) > 0
    with pytest.raises(Deleted, match="retention has deleted"):
        client.subscriptions("area", positions=["1:1:1", None], low=[0, 1], high=[9, 2])
    pipeline.put(9, 5.0)
    pipeline.tick()
    (fresh,) = client.subscriptions("area", low=[0], high=[9])
    assert len(heard(fresh)) == 6


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"low": [0, 5], "high": [1, 4]}, r"row 1: the range of x is empty: low = 5.0 is above high = 4.0"),
        ({"low": [0, math.nan], "high": [1, 4]}, "row 1: parameter low takes a number, found nan"),
        ({"low": [0, None], "high": [1, 4]}, "row 1: parameter low takes a number, found None"),
        ({"low": [0, "a"], "high": [1, 4]}, "row 1: parameter low takes a number, found 'a'"),
        ({"low": [True], "high": [1]}, "row 0: parameter low takes a number, found TRUE"),
        ({"low": [0, 1], "high": [1]}, "must be equally many"),
        ({"low": [0]}, "area takes low, high, found low"),
        ({"low": [INFINITE], "high": [INFINITE]}, "row 0: the range of x is empty: no number lies between"),
    ],
)
def test_bad_parameters_are_named_by_their_row(given, message):
    with pytest.raises(StatementError, match=message):
        Client(TablePipeline().log).subscriptions("area", **given)


# -- ends --


def test_ends_without_a_limit_are_heard_kept_and_resumed():
    pipeline = TablePipeline()
    with pipeline:
        client = Client(pipeline.log)
        subscription = client.subscribe("area", low=-INFINITE, high=5)
        least = client.subscribe("least", low=-INFINITE, high=INFINITE)
        pipeline.put(1, -1e300)
        pipeline.put(2, 7.0)
        pipeline.tick()
        (change,) = heard(subscription)
        assert change.row["id"] == 1
        assert [answer.value for answer in heard(least)][-1] == -1e300
        pipeline.put(3, 2.0)
        pipeline.tick()
    again = Client(pipeline.log).subscribe("area", position=change.position, low=-INFINITE, high=5)
    assert [change.row["id"] for change in heard(again)] == [3]
    assert list_subscriptions(pipeline.log, "area").texts() == ["SUBSCRIBE area(-INFINITY, 5.0)"]
    statement = parse("SUBSCRIBE area(-INFINITY, 5)")
    query = Client(pipeline.log)._template("area")
    assert subscription_row(statement, *query).column("id")[0].as_py() == again.number


def test_ends_of_integers_are_exact_beyond_2_to_the_53():
    pipeline = TablePipeline()
    edge = 2**53 + 1
    register(pipeline, "wide", edge, 2**63 - 1)
    register(pipeline, "wide", -(2**63), edge - 2)
    high, low = (
        Client(pipeline.log).subscriptions("wide", first=[first], last=[last])[0]
        for first, last in ((edge, 2**63 - 1), (-(2**63), edge - 2))
    )
    for key, n in enumerate((edge - 2, edge - 1, edge, 2**63 - 1, -(2**63))):
        pipeline.put(key, 0.0, n)
    pipeline.tick()
    assert sorted(change.row["n"] for change in heard(high)) == [edge, 2**63 - 1]
    assert sorted(change.row["n"] for change in heard(low)) == [-(2**63), edge - 2]


@pytest.mark.parametrize("first", [2**53, -(2**53) - 1, 2**60])
def test_an_aggregate_takes_no_end_that_it_would_round(first):
    client = Client(TablePipeline().log)
    with pytest.raises(StatementError, match=f"first = {first} would be rounded"):
        client.subscriptions("counted", first=[first], last=[2**63 - 1])
    with pytest.raises(StatementError, match=f"first = {first} would be rounded"):
        client.subscribe("counted", first=first, last=2**63 - 1, timeout=0)


def test_an_aggregate_over_all_integers_counts_all():
    pipeline = TablePipeline()
    register(pipeline, "counted", -(2**63), 2**63 - 1)
    for key, n in enumerate((-(2**63), 2**53 + 1, 2**63 - 1)):
        pipeline.put(key, 0.0, n)
    pipeline.tick()
    (counted,) = Client(pipeline.log).subscriptions("counted", first=[-(2**63)], last=[2**63 - 1])
    assert [change.value for change in heard(counted)] == [3]


# -- ending and listing --


def test_unsubscribing_ends_it_for_all():
    pipeline = TablePipeline()
    with pipeline:
        client = Client(pipeline.log)
        subscription = client.subscribe("area", low=0, high=5)
        pipeline.put(1, 1.0)
        pipeline.tick()
        assert len(heard(subscription)) == 1
        assert list_subscriptions(pipeline.log).total == 1
        client.unsubscribe("area", low=0, high=5)
        client.unsubscribe("area", low=7, high=8)  # which is not there
        pipeline.put(2, 1.0)
        pipeline.tick()
        assert heard(subscription) == []
        assert list_subscriptions(pipeline.log).total == 0
        with pytest.raises(StatementError, match="area takes low, high, found low"):
            client.unsubscribe("area", low=0)
        with pytest.raises(StatementError, match="there is no query over a table named arae"):
            client.unsubscribe("arae", low=0, high=1)


def test_subscriptions_are_listed_by_page_as_the_pipeline_has_them():
    pipeline = TablePipeline()
    for low in range(10):
        register(pipeline, "area", low, low + 1)
    for low in range(3):
        register(pipeline, "least", low, low + 1)
    pipeline.send(parse("UNSUBSCRIBE area(3, 4)"))
    every = list_subscriptions(pipeline.log)
    assert every.total == 12
    assert sorted(every.texts()) == sorted(
        [f"SUBSCRIBE area({float(low)}, {low + 1.0})" for low in range(10) if low != 3]
        + [f"SUBSCRIBE least({float(low)}, {low + 1.0})" for low in range(3)]
    )
    pages = [list_subscriptions(pipeline.log, limit=5, offset=offset) for offset in (0, 5, 10, 15)]
    assert [len(page.statements) for page in pages] == [5, 5, 2, 0]
    assert [one for page in pages for one in page.statements] == list(every.statements)
    assert list_subscriptions(pipeline.log, "least", limit=2).total == 3
    for text in ("DROP QUERY area", "CREATE QUERY area(low, high) AS SELECT * FROM stock WHERE x BETWEEN low AND high"):
        pipeline.send(parse(text))
    assert list_subscriptions(pipeline.log).total == 3
    assert list_subscriptions(pipeline.log, "area").texts() == []
