"""What the fixtures cannot say: positions, files of several statements, odd input."""

import pickle
import subprocess
import sys

import pytest

from tolerant.sql import Catalogue, CreateQuery, CreateStream, StatementError, parse, parse_many

FILE = """-- A file.
CREATE STREAM traffic (host STRING, rate DOUBLE) KEY (host);

/* Two on a line; ; ; */ CREATE QUERY a AS SELECT SUM(rate) FROM traffic WITHIN 1; CREATE QUERY b AS
  SELECT AVG(rate) FROM traffic WITHIN 2 -- no semicolon at the end
"""


def test_a_file_keeps_text_and_position_of_each_statement():
    stream, a, b = parse_many(FILE, Catalogue())
    assert isinstance(stream, CreateStream)
    assert isinstance(a, CreateQuery)
    assert [(s.line, s.column) for s in (stream, a, b)] == [(2, 1), (4, 26), (4, 84)]
    assert stream.text == "CREATE STREAM traffic (host STRING, rate DOUBLE) KEY (host)"
    assert a.text == "CREATE QUERY a AS SELECT SUM(rate) FROM traffic WITHIN 1"
    assert b.text == "CREATE QUERY b AS\n  SELECT AVG(rate) FROM traffic WITHIN 2"
    assert (stream.kind, stream.about, a.kind, a.about) == ("stream", "traffic", "query", "a")


def test_the_catalogue_given_to_the_parser_is_left_as_it_is():
    catalogue = Catalogue()
    parse_many(FILE, catalogue)
    assert not catalogue.streams
    assert not catalogue.queries


def test_statements_that_say_the_same_are_equal_wherever_they_stand():
    assert parse("\n\n ALTER QUERY q WITHIN 3 ;") == parse("alter query `q` within 3.0")


@pytest.mark.parametrize("text", ["", "  \n ", ";;", "-- nothing\n", "/* nothing */"])
def test_nothing_is_no_statement(text):
    assert parse_many(text) == []
    with pytest.raises(StatementError, match="expected a statement"):
        parse(text)


def test_parse_takes_one_statement():
    with pytest.raises(StatementError, match="expected one statement, found 2") as error:
        parse("SHOW QUERIES;\n  SHOW STREAMS")
    assert (error.value.line, error.value.column) == (2, 3)


def test_an_error_has_its_parts_as_fields_and_survives_pickling():
    with pytest.raises(StatementError) as caught:
        parse("ALTER QUERY q\nWITHIN five")
    for error in (caught.value, pickle.loads(pickle.dumps(caught.value))):
        assert (error.line, error.column) == (2, 8)
        assert error.found == "five"
        assert error.expected == "a number after WITHIN"
        assert str(error) == (
            "line 2, column 8: expected a number after WITHIN, found five\n  2 | WITHIN five\n    |        ^^^^"
        )


def test_a_byte_order_mark_and_windows_lines_do_no_harm():
    shown = parse_many("\ufeffSHOW QUERIES;\r\nSHOW STREAMS;\r\n")
    assert [(s.line, s.column) for s in shown] == [(1, 2), (2, 1)]


def test_a_long_line_is_shown_around_the_trouble():
    text = f"CREATE QUERY q AS SELECT SUM(rate) FROM t WHERE host IN ({', '.join(['1'] * 500)}) WITHIN five WITHIN 6"
    with pytest.raises(StatementError) as error:
        parse(text)
    shown, caret = str(error.value).split("\n")[1:]
    assert len(shown) < 200
    assert shown[caret.index("^") :].startswith("five")


@pytest.mark.parametrize(
    "text",
    [
        "CREATE QUERY q AS SELECT SUM(rate) FROM t WHERE " + "(" * 500 + "a = 1" + ")" * 500 + " WITHIN 1",
        "CREATE QUERY q AS SELECT SUM(rate) FROM t WHERE " + "NOT " * 5000 + "a = 1 WITHIN 1",
        "CREATE QUERY q AS SELECT SUM(" + "- " * 5000 + "rate) FROM t WITHIN 1",
        "CREATE QUERY q AS SELECT SUM(" + "CASE WHEN " * 2000 + "rate) FROM t WITHIN 1",
        "CREATE QUERY q AS " + "SELECT a FROM (" * 60 + "SELECT 1" + ")" * 60 + " REFRESH WITHIN '1 s'",
    ],
)
def test_deep_nesting_is_an_error_of_ours(text):
    with pytest.raises(StatementError):
        parse(text)


@pytest.mark.parametrize("word", ["AND", "OR"])
def test_long_chains_are_read(word):
    condition = f" {word} ".join(f"host <> 'h{i}'" for i in range(3000))
    statement = parse(f"CREATE QUERY q AS SELECT SUM(rate) FROM t WHERE {condition} WITHIN 1")
    assert len(statement.select.where.parts) == 3000


def test_long_lists_are_read():
    values = ", ".join(f"'h{i}'" for i in range(20_000))
    statement = parse(f"CREATE QUERY q AS SELECT SUM(rate) FROM t WHERE host IN ({values}) WITHIN 1")
    assert len(statement.select.where.values) == 20_000


@pytest.mark.parametrize(
    "text",
    ["SHOW 'a;b", "SHOW 'a;b'", "x'zz'", "\x00", "\ud800", "SHOW QUERIES \ud800", "''''", "/*/*", "`", "``", "$$"],
)
def test_odd_text(text):
    with pytest.raises(StatementError):
        parse(text)


def test_reading_the_log_needs_no_sqlglot():
    """Shards fold statements on Spark's workers: they should not have to load the parser."""
    code = (
        "import sys, tolerant.sql as s\n"
        "catalogue = s.Catalogue()\n"
        "catalogue.apply(s.decode(sys.argv[1]))\n"
        "loaded = [m for m in sys.modules if m.split('.')[0] in ('sqlglot', 'pyarrow', 'pyspark', 'numpy')]\n"
        "assert not loaded, loaded\n"
    )
    body = '{"is":"AlterQuery","name":"q","within":3.0}'
    subprocess.run([sys.executable, "-c", code, body], check=True)
