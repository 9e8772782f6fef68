"""Predicates against what SQL says of them: Python's own operators, and LIKE by trying every way to match."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sql_strategies import RELAXED

from tolerant.sql import And, Between, Compare, In, Like, Not, Or, Parameter, matches
from tolerant.sql.predicates import columns, conjuncts

TEXT = st.text(alphabet="ab%_\\!\n.*(é", max_size=6)
NUMBER = st.integers(-3, 3) | st.sampled_from([-1.5, 0.0, 0.5, 2.0])
VALUES = {"s": TEXT, "n": NUMBER, "b": st.booleans()}
ROWS = st.fixed_dictionaries(VALUES)


def like_patterns(escape):
    plain = st.sampled_from([c for c in "ab%_\n.*(é!\\" if c != escape])
    escaped = st.sampled_from(["%", "_", escape]).map(lambda c: escape + c)
    return st.lists(plain | escaped, max_size=6).map("".join)


LIKES = st.sampled_from(["\\", "!"]).flatmap(lambda e: st.builds(Like, st.just("s"), like_patterns(e), st.just(e)))
ORDERED = st.sampled_from("sn").flatmap(
    lambda c: (
        st.builds(Compare, st.just(c), st.sampled_from(["=", "<>", "<", "<=", ">", ">="]), VALUES[c])
        | st.builds(Between, st.just(c), VALUES[c], VALUES[c])
    )
)
LISTED = st.sampled_from("snb").flatmap(
    lambda c: st.builds(In, st.just(c), st.lists(VALUES[c], min_size=1, max_size=4).map(tuple))
)
TRUTH = st.builds(Compare, st.just("b"), st.sampled_from(["=", "<>"]), st.booleans())
PREDICATES = st.recursive(
    ORDERED | LISTED | TRUTH | LIKES,
    lambda inner: (
        st.lists(inner, min_size=1, max_size=3).map(tuple).flatmap(lambda p: st.sampled_from([And(p), Or(p)]))
        | st.builds(Not, inner)
    ),
    max_leaves=8,
)


def like_oracle(text, pattern, escape):
    if not pattern:
        return not text
    head, rest = pattern[0], pattern[1:]
    if head == escape:
        return bool(text) and text[0] == rest[0] and like_oracle(text[1:], rest[1:], escape)
    if head == "%":
        return any(like_oracle(text[i:], rest, escape) for i in range(len(text) + 1))
    return bool(text) and head in ("_", text[0]) and like_oracle(text[1:], rest, escape)


def oracle(predicate, row):
    match predicate:
        case And(parts):
            return all(oracle(part, row) for part in parts)
        case Or(parts):
            return any(oracle(part, row) for part in parts)
        case Not(part):
            return not oracle(part, row)
        case Between(column, low, high):
            return low <= row[column] <= high
        case In(column, values):
            return row[column] in values
        case Like(column, pattern, escape):
            return like_oracle(row[column], pattern, escape)
        case Compare(column, op, value):
            python = {"=": "==", "<>": "!="}.get(op, op)
            return eval(f"left {python} right", {"left": row[column], "right": value})


@given(PREDICATES, ROWS)
@RELAXED
def test_matches_is_what_sql_says(predicate, row):
    assert matches(predicate, row) is oracle(predicate, row)


@given(LIKES, TEXT)
@RELAXED
def test_like_is_what_trying_every_way_says(like, text):
    assert matches(like, {"s": text}) is like_oracle(text, like.pattern, like.escape)


def test_no_predicate_takes_every_row():
    assert matches(None, {})


@pytest.mark.parametrize(
    "predicate",
    [
        Compare("k", "=", 1),
        Compare("k", "<>", 1),
        Compare("k", "<", True),
        Between("k", 1, 2),
        In("k", (1, True)),
        Not(Compare("k", "=", 1)),
        Not(In("k", (1,))),
        Or((Compare("k", "=", 1), Not(Compare("k", "=", 2)))),
    ],
)
def test_unlike_kinds_are_neither_equal_nor_different(predicate):
    assert not matches(predicate, {"k": "text"})


def test_truth_is_no_number():
    assert not matches(Compare("k", "=", 1), {"k": True})
    assert not matches(Like("k", "1"), {"k": 1})


def test_what_is_known_decides_in_spite_of_what_is_not():
    unknown = Compare("k", "=", 1)
    assert matches(Or((unknown, Compare("k", "=", "a"))), {"k": "a"})
    assert matches(Not(And((unknown, Compare("k", "=", "b")))), {"k": "a"})
    assert matches(In("k", (1, "a")), {"k": "a"})


def test_like_takes_no_long_time_to_say_no():
    assert not matches(Like("k", "%a" * 200 + "%b"), {"k": "a" * 5000})


def test_a_row_without_the_column_and_a_parameter_without_a_value_are_errors():
    with pytest.raises(KeyError):
        matches(Compare("k", "=", 1), {})
    with pytest.raises(ValueError, match="parameter 'p' has no value"):
        matches(Compare("k", "=", Parameter("p")), {"k": 1})


@pytest.mark.parametrize(
    "like", [Like("k", "a!b", "!"), Like("k", "a!", "!"), Like("k", "a", "!!"), Like("k", "a", "")]
)
def test_an_escape_before_nothing_is_an_error(like):
    with pytest.raises(ValueError, match="escape"):
        matches(like, {"k": "a"})


def test_columns_and_conjuncts():
    predicate = And((Compare("a", "=", 1), Or((In("b", (1,)), Not(Like("a", "%"))))))
    assert list(columns(predicate)) == ["a", "b", "a"]
    assert conjuncts(predicate) == predicate.parts
    assert conjuncts(predicate.parts[1]) == (predicate.parts[1],)
    assert conjuncts(None) == ()
