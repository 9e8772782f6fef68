"""INSERT and DELETE as statements, and CREATE … IF NOT EXISTS."""

import random

import pytest

from tolerant.sql import (
    Catalogue,
    CreateTable,
    DeleteRows,
    InsertRows,
    SelectRows,
    StatementError,
    decode,
    encode,
    parse,
    parse_many,
    render,
)
from tolerant.sql.local_statements import MOST_KEYS, deleted_keys, inserted_rows

STOCK = parse("CREATE TABLE stock (id INT, name STRING, live BOOLEAN) KEY (id)")
PAIRS = parse("CREATE TABLE pairs (host STRING, kind STRING, rate DOUBLE) KEY (host, kind)")


@pytest.fixture
def catalogue():
    return Catalogue([STOCK, PAIRS, parse("CREATE STREAM traffic (host STRING, rate DOUBLE) KEY (host)")])


@pytest.mark.parametrize(
    "text",
    [
        "INSERT INTO stock VALUES (1, 'it\\'s', TRUE)",
        "INSERT INTO stock (live, id, name) VALUES (FALSE, -2147483648, ''), (TRUE, 2, 'b')",
        "DELETE FROM stock WHERE id = 7",
        "DELETE FROM pairs WHERE (host = 'a' AND kind IN ('in', 'out')) OR (host = 'b' AND kind = 'in')",
        "SELECT id FROM stock WHERE live ORDER BY id",
    ],
)
def test_statements_are_written_as_they_are_read(text, catalogue):
    statement = parse(text, catalogue)
    assert isinstance(statement, InsertRows | DeleteRows | SelectRows)
    assert render(statement) == text
    assert parse(render(statement)) == statement
    with pytest.raises(ValueError, match="not an encoded statement"):
        decode(encode(statement))  # it has no place in the log


def test_the_rows_of_an_insert(catalogue):
    statement = parse("insert into stock (live, id, name) values (false, 1, 'a')", catalogue)
    assert inserted_rows(statement, STOCK) == [{"live": False, "id": 1, "name": "a"}]


def test_the_keys_of_a_delete(catalogue):
    text = "DELETE FROM pairs WHERE kind IN ('in', 'out') AND host = 'a' OR host = 'a' AND kind = 'in'"
    assert deleted_keys(parse(text, catalogue), PAIRS) == [("a", "in"), ("a", "out")]


@pytest.mark.parametrize(
    "where",
    [
        "host = 'a'",
        "rate = 1 AND host = 'a' AND kind = 'b'",
        "host = 'a' AND kind > 'b'",
        "host = 'a' AND kind LIKE 'b'",
        "NOT host = 'a' AND kind = 'b'",
        "host = 'a' AND host = 'b' AND kind = 'c'",
    ],
)
def test_a_delete_names_keys(where, catalogue):
    with pytest.raises(StatementError, match="expected a condition that names keys of pairs"):
        parse(f"DELETE FROM pairs WHERE {where}", catalogue)


def test_a_delete_names_so_many_keys_and_no_more(catalogue):
    many = ", ".join(f"'{number}'" for number in range(400))
    with pytest.raises(StatementError, match=f"at most {MOST_KEYS:,} keys, found 160,000"):
        parse(f"DELETE FROM pairs WHERE host IN ({many}) AND kind IN ({many})", catalogue)


def test_something_of_the_name_is_left_as_it_is_the_same_or_not(catalogue):
    other = "CREATE TABLE IF NOT EXISTS stock (id BIGINT) KEY (id)"
    same = "CREATE TABLE IF NOT EXISTS stock (id INT, name STRING, live BOOLEAN) KEY (id)"
    for text, message in (
        (same, "unchanged: table stock exists"),
        (other, f"unchanged: table stock exists, and is another: {render(STOCK)}"),
    ):
        statement = decode(encode(parse(text, catalogue)))
        outcome = catalogue.apply(statement)
        assert (outcome.accepted, outcome.changed, outcome.message) == (True, False, message)
    assert catalogue.tables["stock"] == STOCK
    assert not catalogue.apply(parse("CREATE TABLE stock (id BIGINT) KEY (id)")).accepted


@pytest.mark.parametrize(
    "text",
    [
        "CREATE TABLE IF NOT EXISTS fresh (id INT) KEY (id)",
        "CREATE STREAM IF NOT EXISTS fresh (host STRING, rate DOUBLE) KEY (host)",
        "CREATE QUERY IF NOT EXISTS fresh AS SELECT AVG(rate) FROM traffic WITHIN 5",
    ],
)
def test_what_is_not_there_is_made_and_shown_without_the_words(text, catalogue):
    first, again = parse_many(f"{text}; {text}", catalogue)
    assert catalogue.apply(first).changed
    assert not catalogue.apply(again).changed
    made = next(statement for statement in catalogue.statements() if statement.about == "fresh")
    assert render(made) == text.replace(" IF NOT EXISTS", "")
    assert catalogue.apply(parse(text.replace(" IF NOT EXISTS", ""))).message == "unchanged"


def test_a_query_of_the_name_is_left_whatever_it_is_over(catalogue):
    catalogue.record(parse("CREATE QUERY q AS SELECT AVG(rate) FROM traffic WITHIN 5"))
    outcome = catalogue.apply(parse("CREATE QUERY IF NOT EXISTS q AS SELECT MAX(rate) FROM nowhere WITHIN 5"))
    assert outcome.accepted
    assert "and is another: CREATE QUERY q AS SELECT AVG(rate)" in outcome.message


def test_a_name_of_another_sort_is_refused(catalogue):
    outcome = catalogue.apply(parse("CREATE TABLE IF NOT EXISTS traffic (id INT) KEY (id)"))
    assert not outcome.accepted
    assert "traffic is the name of a stream" in outcome.message


def test_inserts_of_any_values_lead_back():
    chance = random.Random(3)
    for _ in range(300):
        rows = tuple(
            (chance.randint(-(2**31), 2**31 - 1), "".join(chance.choices("a'\\\"`%\né;-", k=5)), chance.random() < 0.5)
            for _ in range(chance.randint(1, 3))
        )
        statement = InsertRows("stock", (), rows)
        assert parse(render(statement), Catalogue([STOCK])) == statement
    assert isinstance(STOCK, CreateTable)
