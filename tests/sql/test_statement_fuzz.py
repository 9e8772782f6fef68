"""No text makes the parser raise anything but its own error."""

import string
from pathlib import Path

from hypothesis import example, given
from hypothesis import strategies as st
from sql_strategies import RELAXED, STATEMENTS

from tolerant.sql import Catalogue, StatementError, decode, encode, parse, parse_many, render
from tolerant.sql.statements import DeleteRows, InsertRows, SelectRows

FIXTURES = Path(__file__).parent / "fixtures"
TEXTS = [
    "\n".join(line for line in block.split("\n") if not line.startswith("# "))
    for name in ("definitions", "queries", "later", "others", "errors")
    for block in (FIXTURES / f"{name}.txt").read_text().split("\n\n")[::2]
]
KNOWN = Catalogue()
for _statement in parse_many((FIXTURES / "catalogue.sql").read_text(), KNOWN):
    KNOWN.record(_statement)

_OURS = """
CREATE STREAM TABLE QUERY KEY FROM WITH AS SELECT WITHIN FIDELITY OTHERWISE WIDEN WITHHOLD KEEP ROWS REFRESH WHEN
SUBSCRIBE UNSUBSCRIBE ALTER DROP SHOW QUERIES STREAMS TABLES
"""
_SQL = """
SUM( AVG( MIN( MAX( COUNT( * JOIN ON USING WHERE AND OR NOT IN BETWEEN LIKE ESCAPE GROUP BY HAVING ORDER LIMIT
UNION CASE WHEN THEN ELSE END OVER PARTITION DISTINCT NULL IS TRUE FALSE CAST INTERVAL ARRAY MAP STRUCT
LATERAL VIEW EXPLODE PIVOT VALUES EXISTS ALL LEFT OUTER CROSS NATURAL SEMI ANTI EXPLAIN SET USE CACHE DESCRIBE
BEGIN
"""
OURS, SQL = _OURS.split(), _SQL.split()
SYMBOLS = [*"()[]{},;.=<>+-*/%|&^~!?:@#$`'\"\\\n", "--", "/*", "*/", "<=>", "::", "->", "=>", "||", "<>", "/*+"]
NAMES = [
    "traffic",
    "host",
    "kind",
    "rate",
    "weights",
    "w.weight",
    "t",
    "stock",
    "x",
    "q",
    "`a b`",
    "é",
    "STRING",
    "DOUBLE",
    "tick",
]
CONSTANTS = [
    "5",
    "0",
    "-1",
    ".5",
    "1e9",
    "1e999",
    "5L",
    "10s",
    "'in'",
    '"in"',
    "'10 s'",
    "'a%'",
    "''",
    "r'x'",
    "x'00'",
    "0x1F",
    "1_0",
]
SOUP = st.lists(st.sampled_from(OURS + SQL + SYMBOLS + NAMES + CONSTANTS), max_size=25)


def only_its_own_error(text):
    """Parse the text; whatever it says must be said again the same way."""
    for catalogue in (None, KNOWN):
        try:
            statements = parse_many(text, catalogue)
        except StatementError as error:
            check_error(error, text)
            continue
        for statement in statements:
            if not isinstance(statement, InsertRows | DeleteRows | SelectRows):  # these never stand in a log
                assert decode(encode(statement)) == statement
            assert parse(render(statement)) == statement


def check_error(error, text):
    lines = text.split("\n")
    assert 1 <= error.line <= len(lines)
    assert 1 <= error.column <= len(lines[error.line - 1]) + 1
    assert str(error).startswith(f"line {error.line}, column {error.column}: ")


@given(st.text(max_size=60))
@example("\ud800")
@example("SHOW 'a;b")
@RELAXED
def test_any_text(text):
    only_its_own_error(text)


@given(st.text(string.printable, max_size=60))
@RELAXED
def test_any_printable_text(text):
    only_its_own_error(text)


@given(SOUP, st.sampled_from([" ", " ", "\n", ""]))
@RELAXED
def test_soup_of_tokens(tokens, gap):
    only_its_own_error(gap.join(tokens))


@given(
    SOUP,
    st.sampled_from(
        ["CREATE QUERY q AS SELECT ", "CREATE STREAM s (", "CREATE QUERY q AS SELECT SUM(rate) FROM traffic "]
    ),
)
@example(["LATERAL", "STREAM"], "CREATE QUERY q AS SELECT SUM(rate) FROM traffic ")
@RELAXED
def test_a_good_beginning_and_then_soup(tokens, beginning):
    only_its_own_error(beginning + " ".join(tokens))
    only_its_own_error(beginning + " ".join(tokens) + " WITHIN 5")
    only_its_own_error(beginning + " ".join(tokens) + " REFRESH WITHIN '5 s'")


@st.composite
def mutated(draw):
    """A good statement with pieces cut out, doubled, moved, or soup put in."""
    text = draw(st.sampled_from(TEXTS))
    for _ in range(draw(st.integers(1, 3))):
        start = draw(st.integers(0, len(text)))
        end = draw(st.integers(start, min(len(text), start + 12)))
        piece = draw(
            st.just("")
            | st.just(text[start:end] * 2)
            | st.sampled_from(OURS + SQL + SYMBOLS + CONSTANTS)
            | st.text(max_size=3)
        )
        text = text[:start] + piece + text[end:]
    return text


@given(mutated())
@RELAXED
def test_mutated_statements(text):
    only_its_own_error(text)


@given(st.lists(st.sampled_from(TEXTS), max_size=3), st.sampled_from([";", " ", "\n", ";\n", "--\n"]))
@RELAXED
def test_statements_run_together(texts, gap):
    only_its_own_error(gap.join(texts))


@given(STATEMENTS)
@RELAXED
def test_the_catalogue_refuses_and_never_raises(statement):
    catalogue = KNOWN.copy()
    outcome = catalogue.apply(statement)
    assert isinstance(outcome.message, str)
    if not outcome.changed:
        assert encoded(catalogue) == encoded(KNOWN)


def encoded(catalogue):
    return [encode(statement) for statement in catalogue.statements()]
