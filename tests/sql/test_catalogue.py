"""The catalogue: a fold of statements that gives everyone the same result."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sql_strategies import RELAXED

from tolerant.kinds.ranges.select import RangeSelect
from tolerant.sql import (
    AggregateSelect,
    AlterQuery,
    Catalogue,
    Compare,
    CreateQuery,
    CreateStream,
    Drop,
    Like,
    Outcome,
    Parameter,
    Show,
    Weight,
    decode,
    encode,
    kind_of,
    parse,
)
from tolerant.sql.select import Range
from tolerant.streams import Column, Stream, StreamOptions

TRAFFIC: Any = parse("CREATE STREAM traffic (host STRING, kind STRING, rate DOUBLE) KEY (host, kind)")
WEIGHTS = parse("CREATE TABLE weights (host STRING, weight DOUBLE) KEY (host) FROM 'weights.csv'")
LOAD: Any = parse("CREATE QUERY load AS SELECT AVG(rate) FROM traffic WITHIN 5")
BILL = parse("CREATE QUERY bill AS SELECT SUM(t.rate * w.weight) FROM traffic t JOIN weights w USING (host) WITHIN 5")


def weighted(query, *rows):
    select = query.select
    return replace(query, select=replace(select, weight=replace(select.weight, values=tuple(rows))))


def test_created_then_unchanged_then_in_conflict():
    catalogue = Catalogue([TRAFFIC])
    assert catalogue.apply(LOAD) == Outcome(True, "query load created", changed=True)
    assert catalogue.apply(parse("create query load as select avg(rate) from traffic within 5.0")) == Outcome(
        True, "unchanged"
    )
    outcome = catalogue.apply(parse("CREATE QUERY load AS SELECT AVG(rate) FROM traffic WITHIN 6"))
    assert not outcome.accepted
    assert outcome.message.endswith("WITHIN 5; ALTER QUERY load WITHIN 6")
    assert catalogue.queries["load"] == LOAD


def test_streams_and_tables_are_compared_as_a_whole():
    catalogue = Catalogue([TRAFFIC, WEIGHTS])
    assert catalogue.apply(TRAFFIC).message == "unchanged"
    assert catalogue.apply(WEIGHTS).message == "unchanged"
    ticking = replace(TRAFFIC, stream=replace(TRAFFIC.stream, options=StreamOptions(tick=5)))
    assert "exists, and is another" in catalogue.apply(ticking).message


def test_alter_changes_the_tolerance_alone():
    catalogue = Catalogue([TRAFFIC, LOAD])
    assert catalogue.apply(parse("ALTER QUERY load WITHIN 2.5")) == Outcome(
        True, "query load altered: WITHIN 2.5", changed=True
    )
    assert catalogue.queries["load"].select == replace(LOAD.select, within=2.5)
    assert catalogue.apply(parse("ALTER QUERY load WITHIN 2.5")) == Outcome(True, "unchanged")
    assert not catalogue.apply(parse("ALTER QUERY other WITHIN 2.5")).accepted
    assert not catalogue.apply(LOAD).accepted


def test_alter_keeps_weights():
    bill = weighted(BILL, (("a",), 2.0))
    catalogue = Catalogue([TRAFFIC, WEIGHTS, bill])
    catalogue.apply(parse("ALTER QUERY bill WITHIN 1"))
    assert catalogue.queries["bill"].select.weight == bill.select.weight


def test_what_is_used_cannot_be_dropped():
    catalogue = Catalogue([TRAFFIC, WEIGHTS, LOAD, weighted(BILL, (("a",), 2.0))])
    assert catalogue.apply(Drop("stream", "traffic")).message.startswith("stream traffic is used by load, bill")
    assert catalogue.apply(Drop("table", "weights")).message.startswith("table weights is used by bill")
    for drop in (Drop("query", "load"), Drop("query", "bill"), Drop("stream", "traffic"), Drop("table", "weights")):
        assert catalogue.apply(drop).message == f"{drop.what} {drop.name} dropped"
        assert not catalogue.apply(drop).accepted
    assert catalogue.statements() == []


def test_a_dropped_name_can_be_taken_again():
    catalogue = Catalogue([TRAFFIC, LOAD, Drop("query", "load")])
    other = parse("CREATE QUERY load AS SELECT MAX(rate) FROM traffic WITHIN 1")
    assert catalogue.apply(other).changed


def test_a_query_over_what_there_is_not_is_refused():
    catalogue = Catalogue()
    assert catalogue.apply(LOAD) == Outcome(False, "there is no stream traffic; SHOW STREAMS says which there are")
    assert catalogue.apply(parse("SUBSCRIBE load(1)")).message.startswith("there is no query load")


def test_weights_must_be_filled_in_and_belong_to_what_the_query_is():
    catalogue = Catalogue([TRAFFIC, WEIGHTS])
    assert "weights are missing" in catalogue.apply(BILL).message
    filled = weighted(BILL, (("a",), 2.0))
    assert catalogue.apply(filled).changed
    assert catalogue.apply(filled).message == "unchanged"
    assert "with other weights" in catalogue.apply(weighted(BILL, (("a",), 3.0))).message
    catalogue.check(BILL)  # as a sender does before it reads the file


def test_show_renders_by_name_and_is_not_folded():
    catalogue = Catalogue([TRAFFIC, LOAD, parse("CREATE QUERY busy AS SELECT MAX(rate) FROM traffic WITHIN 1")])
    assert catalogue.show(Show("queries")) == [
        "CREATE QUERY busy AS SELECT MAX(rate) FROM traffic WITHIN 1",
        "CREATE QUERY load AS SELECT AVG(rate) FROM traffic WITHIN 5",
    ]
    assert catalogue.show(Show("streams")) == [
        "CREATE STREAM traffic (host STRING, kind STRING, rate DOUBLE) KEY (host, kind)"
    ]
    assert catalogue.show(Show("tables")) == []
    assert not catalogue.apply(Show("queries")).accepted


def test_kinds_and_relations():
    catalogue = Catalogue([TRAFFIC, WEIGHTS])
    assert kind_of(LOAD.select, catalogue).name == "bounded"
    assert kind_of(replace(LOAD.select, fidelity=0.9), catalogue).name == "polling"
    assert LOAD.select.relations == ("traffic",)
    assert BILL.select.relations == ("traffic", "weights")
    catalogue.apply(LOAD)
    assert catalogue.queries_over("traffic") == [LOAD]
    assert catalogue.queries_over("weights") == []


STOCK = parse("CREATE TABLE stock (id INT, name STRING, x DOUBLE, y DOUBLE) KEY (id)")
AREA = parse("CREATE QUERY area(low, high) AS SELECT * FROM stock WHERE x BETWEEN low AND high")


def test_subscriptions_are_checked_and_leave_nothing_in_the_catalogue():
    catalogue = Catalogue([STOCK, AREA])
    before = state(catalogue.copy())
    assert catalogue.apply(parse("SUBSCRIBE area(20, 60)")) == Outcome(True, "subscribed to area", changed=True)
    assert catalogue.apply(parse("SUBSCRIBE area FROM 'people.csv'")).accepted
    assert catalogue.apply(parse("UNSUBSCRIBE area(20, 60)")) == Outcome(True, "unsubscribed from area", changed=True)
    assert not catalogue.apply(parse("SUBSCRIBE area(60, 20)")).accepted
    assert state(catalogue) == before
    assert catalogue.apply(Drop("table", "stock")).message.startswith("table stock is used by area")


@pytest.mark.parametrize(
    ("parameters", "ranges"),
    [
        ((), (Range("z", 0, 1),)),
        ((), (Range("name", "a", "b"),)),
        ((), (Range("x", "a", 1),)),
        ((), (Range("x", 1, 0),)),
        ((), (Range("x", True, 1),)),
        ((), ()),
        ((), (Range("x", 0, 1), Range("x", 0, 1))),
        ((), (Range("x", 0, 1), Range("y", 0, 1), Range("id", 0, 1))),
        (("low",), (Range("x", 0, 1),)),
        ((), (Range("x", Parameter("low"), 1),)),
        (("low", "low"), (Range("x", Parameter("low"), 1),)),
    ],
)
def test_ranges_that_no_parser_wrote_are_checked_all_the_same(parameters, ranges):
    query = CreateQuery("q", parameters, RangeSelect("stock", ranges))
    assert not Catalogue([STOCK]).apply(query).accepted


@pytest.mark.parametrize(
    "select",
    [
        AggregateSelect("traffic", "min", factor=2.0, column="rate"),
        AggregateSelect("traffic", "sum", column="host"),
        AggregateSelect("traffic", "sum", group_by=("rate",)),
        AggregateSelect("traffic", "sum", weight=Weight("weights", "weight", (("rate", "host"),), ())),
        AggregateSelect("weights", "sum"),
        AggregateSelect("traffic", "sum", within=-1.0),
        AggregateSelect("traffic", "sum", within=float("nan")),
        AggregateSelect("traffic", "sum", fidelity=0.0),
        AggregateSelect("traffic", "sum", factor=0.0),
        AggregateSelect("traffic", "sum", where=Like("host", "a\\")),
        AggregateSelect("traffic", "sum", where=Compare("host", "=", 3)),
        AggregateSelect(
            "traffic", "sum", weight=Weight("weights", "weight", (("host", "host"),), ((("a", "b"), 1.0),))
        ),
    ],
)
def test_what_no_parser_wrote_is_checked_all_the_same(select):
    assert not Catalogue([TRAFFIC, WEIGHTS]).apply(CreateQuery("q", (), select)).accepted


def test_names_and_tolerances_that_no_parser_wrote_are_checked_all_the_same():
    catalogue = Catalogue([TRAFFIC, LOAD])
    assert not catalogue.apply(replace(LOAD, name="a/b")).accepted
    assert not catalogue.apply(replace(TRAFFIC, stream=replace(TRAFFIC.stream, name=""))).accepted
    assert not catalogue.apply(AlterQuery("load", -1.0)).accepted


@pytest.mark.parametrize(
    "stream",
    [
        Stream("s", (Column("k", "STRING"),), ("k",)),
        Stream("s", (Column("k", "STRING"), Column("v", "STRING")), ("k",)),
        Stream("s", (Column("k", "STRING"), Column("v", "DOUBLE")), ("z",)),
        Stream("s", (Column("k", "BLOB"), Column("v", "DOUBLE")), ("k",)),
        Stream("s", (Column("k", "STRING"), Column("v", "DOUBLE")), ("k",), options=StreamOptions(tick=0)),
        Stream("s", (Column("k", "STRING"), Column("v", "DOUBLE")), ("k",), options=StreamOptions(shards=2)),
    ],
)
def test_streams_that_no_parser_wrote_are_checked_all_the_same(stream):
    assert not Catalogue().apply(CreateStream(stream)).accepted


WORKLOAD = [
    TRAFFIC,
    WEIGHTS,
    LOAD,
    weighted(BILL, (("a",), 2.0)),
    weighted(BILL, (("a",), 3.0)),
    *map(
        parse,
        [
            "CREATE STREAM traffic (host STRING, rate DOUBLE) KEY (host)",
            "CREATE STREAM fleet (depot STRING, id INT, speed FLOAT) KEY (depot, id) WITH (shards = 2, shard = depot)",
            "CREATE QUERY load AS SELECT AVG(rate) FROM traffic WITHIN 6",
            "CREATE QUERY fast AS SELECT MAX(speed) FROM fleet GROUP BY depot WITHIN 1",
            "CREATE QUERY all AS SELECT MAX(speed) FROM fleet WITHIN 1",
            "ALTER QUERY load WITHIN 6",
            "ALTER QUERY fast WITHIN 9",
            "DROP QUERY load",
            "DROP QUERY bill",
            "DROP STREAM traffic",
            "DROP STREAM fleet",
            "DROP TABLE weights",
            "SUBSCRIBE load(1)",
            "SHOW QUERIES",
        ],
    ),
]
LOGS = st.lists(st.sampled_from(WORKLOAD), max_size=25)


def state(catalogue):
    return (catalogue.streams, catalogue.tables, catalogue.queries)


@given(LOGS)
@RELAXED
def test_everyone_who_reads_the_log_agrees(log):
    one, other = Catalogue(), Catalogue()
    for statement in log:
        assert one.apply(statement) == other.apply(decode(encode(statement)))
    assert state(one) == state(other)


@given(LOGS)
@RELAXED
def test_a_refused_or_repeated_statement_changes_nothing(log):
    catalogue = Catalogue()
    for statement in log:
        before = state(catalogue.copy())
        outcome = catalogue.apply(statement)
        if not outcome.changed:
            assert state(catalogue) == before
        elif not isinstance(statement, Drop):
            after = state(catalogue.copy())
            assert catalogue.apply(statement) == Outcome(True, "unchanged")
            assert state(catalogue) == after


@given(LOGS)
@RELAXED
def test_a_catalogue_is_made_again_by_its_statements(log):
    catalogue = Catalogue(log)
    assert state(Catalogue(catalogue.statements())) == state(catalogue)


@given(LOGS)
@RELAXED
def test_every_query_that_stands_has_its_relations(log):
    catalogue = Catalogue(log)
    for query in catalogue.queries.values():
        assert set(query.select.relations) <= {*catalogue.streams, *catalogue.tables}
