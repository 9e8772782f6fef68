"""Statements of any size are read in time that grows with their size, up to limits; what is written is read again."""

import sys

import pytest
import sqlglot

from tolerant.sql import (
    Catalogue,
    Compare,
    CreateQuery,
    CreateTable,
    Not,
    StatementError,
    decode,
    encode,
    limits,
    parse,
    render,
)
from tolerant.sql.named_items import named_items
from tolerant.sql.view_select import plan_of
from tolerant.streams import Column

DEFINITIONS = [
    "CREATE STREAM traffic (host STRING, kind STRING, rate DOUBLE) KEY (host, kind)",
    "CREATE STREAM quotes (n INT, m INT, price DOUBLE) KEY (n, m) FROM 'http://h/{n}/{m}'",
    "CREATE TABLE stock (id INT, x DOUBLE, s STRING) KEY (id)",
]


@pytest.fixture
def catalogue():
    made = Catalogue()
    for text in DEFINITIONS:
        assert made.apply(parse(text)).accepted
    return made


def repeated(joint, part):
    return lambda n: joint.join(part.format(i=i) for i in range(n))


LONG = {
    "ANDs": lambda n: "SELECT SUM(rate) FROM traffic WHERE " + repeated(" AND ", "host <> 'h{i}'")(n) + " WITHIN 5",
    "ORs": lambda n: "SELECT SUM(rate) FROM traffic WHERE " + repeated(" OR ", "host = 'h{i}'")(n) + " WITHIN 5",
    "IN": lambda n: "SELECT SUM(rate) FROM traffic WHERE host IN (" + repeated(", ", "'h{i}'")(n) + ") WITHIN 5",
    "ANDs of a view": lambda n: (
        "SELECT SUM(x) FROM stock WHERE " + repeated(" AND ", "id <> {i}")(n) + " REFRESH WITHIN '5 s'"
    ),
    "columns of a view": lambda n: (
        "SELECT " + repeated(", ", "x + {i} AS c{i}")(n) + " FROM stock REFRESH WITHIN '5 s'"
    ),
    "aggregates of a condition": lambda n: (
        "SELECT SUM(x) FROM stock REFRESH WITHIN '5 s' WHEN "
        + repeated(" AND ", "(SELECT COUNT(*) FROM stock WHERE id = {i}) > 1")(n)
    ),
    "ANDs of polled ranges": lambda n: (
        "SELECT SUM(price) FROM quotes WHERE m = 1 AND "
        + repeated(" AND ", "n BETWEEN {i} AND 900")(n)
        + " WITHIN 5 FIDELITY 0.9"
    ),
    "ORs of polled ranges": lambda n: (
        "SELECT SUM(price) FROM quotes WHERE m = 1 AND ("
        + repeated(" OR ", "n BETWEEN 1 AND 999")(n)
        + ") WITHIN 5 FIDELITY 0.9"
    ),
}


def calls(function):
    """How many calls, of Python's and of C's functions, a function makes."""
    count = 0

    def counted(frame, event, argument):
        nonlocal count
        count += event in ("call", "c_call")

    before = sys.getprofile()
    sys.setprofile(counted)
    try:
        function()
    finally:
        sys.setprofile(before)
    return count


@pytest.mark.parametrize("what", LONG)
def test_reading_takes_work_in_proportion_to_the_length(what, catalogue):
    texts = {n: f"CREATE QUERY q AS {LONG[what](n)}" for n in (30, 60, 120, 240)}
    parse(texts[30], catalogue)  # what is loaded once
    work = {n: calls(lambda n=n: parse(texts[n], catalogue)) for n in (60, 120, 240)}
    assert work[120] < 2.3 * work[60]
    assert work[240] < 2.3 * work[120]
    bodies = {n: encode(parse(text)) for n, text in texts.items()}
    read = {n: calls(lambda n=n: catalogue.copy().apply(decode(bodies[n]))) for n in (60, 120, 240)}
    assert read[240] < 2.3 * read[120] < 2.3 * 2.3 * read[60]


def test_naming_the_items_of_a_range_takes_no_work_per_item(catalogue):
    def statement(last):
        where = f"n BETWEEN 1 AND {last} AND m = 7"
        return f"CREATE QUERY q AS SELECT SUM(price) FROM quotes WHERE {where} WITHIN 5 FIDELITY 0.9"

    parse(statement(10), catalogue)
    assert calls(lambda: parse(statement(90_000), catalogue)) < 2 * calls(lambda: parse(statement(100), catalogue))


def test_ranges_name_what_they_named(catalogue):
    where = "n BETWEEN 3 AND 5 OR n IN (9, 4) OR n BETWEEN 5 AND 7 OR n = 1"
    query = parse(f"CREATE QUERY q AS SELECT SUM(price) FROM quotes WHERE m = 2 AND ({where}) WITHIN 1 FIDELITY 0.9")
    items = named_items(query.select, catalogue.streams["quotes"])
    assert sorted(items) == [f"[{n},2]" for n in (1, 3, 4, 5, 6, 7, 9)]


@pytest.mark.parametrize(
    ("where", "message"),
    [
        ("n BETWEEN 1 AND 100001 AND m = 1", "at most 100,000 items"),
        ("n BETWEEN 1 AND 1000 AND m BETWEEN 1 AND 1000", "at most 100,000 items"),
        (
            "(" + " OR ".join(f"n BETWEEN {9000 * i} AND {9000 * i + 8000}" for i in range(20)) + ") AND m = 1",
            "at most 100,000",
        ),
        ("n BETWEEN 1 AND 90000 AND m = 1" + " AND n <> 1" * 2000, "comparisons are too many"),
    ],
)
def test_a_polled_query_names_so_many_items_at_most(where, message, catalogue):
    text = f"CREATE QUERY q AS SELECT SUM(price) FROM quotes WHERE {where} WITHIN 5 FIDELITY 0.9"
    with pytest.raises(StatementError, match=message):
        parse(text, catalogue)


UNREADABLE = [
    "CREATE QUERY q AS SELECT SUM(rate) FROM traffic WHERE " + "NOT " * 30 + "host = 'a' WITHIN 5",
    "CREATE QUERY q AS SELECT 2 * COUNT(*) FROM traffic WITHIN 5",
    "CREATE QUERY q(x) AS SELECT * FROM stock WHERE stock.x BETWEEN x AND 5",
    "CREATE QUERY q(x) AS SELECT MIN(stock.x) FROM stock WHERE id BETWEEN x AND 5",
    "CREATE QUERY q(host) AS SELECT SUM(rate) FROM traffic WHERE traffic.host = host WITHIN 5",
    "CREATE STREAM s (host STRING, rate DOUBLE) KEY (host) WITH (latency = 'p05')",
    "CREATE STREAM s (host STRING, rate DOUBLE) KEY (host) WITH (latency = 'p00.125')",
    "CREATE QUERY q AS SELECT x AS `a b`, 'it\\'s' AS t FROM stock WHERE NOT (NOT x > 1) REFRESH WITHIN '5 s'",
]


@pytest.mark.parametrize("text", UNREADABLE)
def test_what_is_written_is_read_again(text):
    statement = parse(text)
    assert parse(render(statement)) == statement


def test_a_view_that_would_be_read_otherwise_is_refused():
    with pytest.raises(StatementError):
        parse("CREATE QUERY q AS SELECT COUNT(*) AS n'10 s', MIN(x) FROM stock REFRESH WITHIN '12 s'")


def test_a_factor_of_count_is_refused_before_a_shard_meets_it(catalogue):
    outcome = catalogue.apply(parse("CREATE QUERY q AS SELECT 2 * COUNT(*) FROM traffic WITHIN 5"))
    assert (outcome.accepted, "COUNT takes the value as it is" in outcome.message) == (False, True)


def test_statements_have_a_longest_text(monkeypatch):
    monkeypatch.setattr("tolerant.sql.parser.LONGEST_TEXT", 40)
    assert parse("ALTER QUERY q WITHIN 5;" + " " * 100).within == 5.0
    with pytest.raises(StatementError, match="at most 40 characters"):
        parse("ALTER QUERY q WITHIN 5" + " " * 100 + ".0")


def test_bodies_have_a_greatest_length_and_depth(monkeypatch):
    with pytest.raises(ValueError, match="nested deeper than"):
        decode("[" * (limits.DEEPEST_BODY + 1) + "]" * (limits.DEEPEST_BODY + 1))
    body = encode(parse("ALTER QUERY q WITHIN 5"))
    monkeypatch.setattr("tolerant.sql.wire.LONGEST_BODY", len(body))
    assert decode(body).within == 5.0
    with pytest.raises(ValueError, match="at most"):
        decode(body + " ")


def test_conditions_have_a_greatest_depth(catalogue):
    def nested(depth):
        predicate: Compare | Not = Compare("host", "=", "a")
        for _ in range(depth):
            predicate = Not(predicate)
        query = parse("CREATE QUERY q AS SELECT SUM(rate) FROM traffic WHERE host = 'a' WITHIN 5")
        return CreateQuery("q", (), type(query.select)("traffic", "sum", predicate, column="rate"))

    assert catalogue.copy().apply(nested(limits.DEEPEST_CONDITION)).accepted
    assert "nested deeper" in catalogue.copy().apply(nested(limits.DEEPEST_CONDITION + 1)).message


def test_logs_have_so_many_queries_and_relations(monkeypatch, catalogue):
    monkeypatch.setattr("tolerant.sql.catalogue.MOST_QUERIES", 2)
    monkeypatch.setattr("tolerant.sql.catalogue.MOST_RELATIONS", 4)
    made = [catalogue.apply(parse(f"CREATE QUERY q{i} AS SELECT SUM(rate) FROM traffic WITHIN 5")) for i in range(3)]
    assert [outcome.accepted for outcome in made] == [True, True, False]
    assert "2 queries" in made[2].message
    assert catalogue.apply(parse("CREATE QUERY q0 AS SELECT SUM(rate) FROM traffic WITHIN 5")).message == "unchanged"
    tables = [catalogue.apply(parse(f"CREATE TABLE t{i} (id INT) KEY (id)")) for i in range(2)]
    assert [outcome.accepted for outcome in tables] == [True, False]


def test_streams_have_so_many_queries(catalogue):
    catalogue.apply(parse("CREATE STREAM few (host STRING, rate DOUBLE) KEY (host) WITH (max_queries = 2)"))
    texts = [f"CREATE QUERY q{i} AS SELECT SUM(rate) FROM few WITHIN 5" for i in range(3)]
    made = [catalogue.apply(parse(text)) for text in texts]
    assert [outcome.accepted for outcome in made] == [True, True, False]
    assert "few has 2 queries, the most it may have" in made[2].message
    assert catalogue.apply(parse("CREATE QUERY other AS SELECT SUM(rate) FROM traffic WITHIN 5")).accepted
    assert catalogue.apply(parse("DROP QUERY q0")).accepted
    assert catalogue.apply(parse(texts[2])).accepted


def test_a_stream_has_as_many_queries_as_a_log_unless_it_says_fewer():
    text = "CREATE STREAM s (host STRING, rate DOUBLE) KEY (host)"
    assert parse(text).stream.options.max_queries == limits.MOST_QUERIES
    assert parse(f"{text} WITH (max_queries = 100000)") == parse(text)  # as 0.1.0 wrote it


def test_relations_have_so_many_columns():
    columns = tuple(Column(f"c{i}", "INT") for i in range(limits.MOST_COLUMNS + 1))
    assert "at most 1,000 columns" in Catalogue().apply(CreateTable("t", columns, ("c0",))).message


def test_nothing_of_a_statement_reaches_the_log_of_the_process(caplog):
    """sqlglot logs the text of what it does not know; others who use sqlglot keep its messages."""
    hostile = "WITH x AS (EXPLAIN \x1b[2J) SELECT a FROM x"
    with pytest.raises(StatementError):
        parse(f"CREATE QUERY v AS {hostile} REFRESH WITHIN '1 s'")
    with pytest.raises(StatementError):
        plan_of(hostile, ())
    assert caplog.text == ""
    with pytest.raises(sqlglot.ParseError):
        sqlglot.parse(hostile, dialect="spark")
    assert "EXPLAIN" in caplog.text


def test_what_a_sender_is_told_is_short(catalogue):
    items = ", ".join(f"'h{i}'" for i in range(5000))
    catalogue.apply(parse(f"CREATE QUERY q AS SELECT SUM(rate) FROM traffic WHERE host IN ({items}) WITHIN 5"))
    outcome = catalogue.apply(parse("CREATE QUERY q AS SELECT MAX(rate) FROM traffic WITHIN 5"))
    assert not outcome.accepted
    assert len(outcome.message) <= limits.LONGEST_MESSAGE + 1
