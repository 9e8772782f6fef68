"""What is said survives the log and SQL: `decode(encode(s)) == s == parse(render(s))`."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sql_strategies import RELAXED, STATEMENTS

from tolerant.sql import AggregateSelect, AlterQuery, CreateQuery, Weight, decode, encode, parse, render


@given(STATEMENTS)
@RELAXED
def test_encode_and_decode(statement):
    text = encode(statement)
    assert decode(text) == statement
    assert encode(decode(text)) == text
    assert "\n" not in text


@given(STATEMENTS)
@RELAXED
def test_render_and_parse(statement):
    assert parse(render(statement)) == statement


def test_weights_travel():
    weight = Weight("w", "weight", (("host", "host"),), ((("a",), 1.0), (("b",), -2.5)))
    query = CreateQuery("q", (), AggregateSelect("t", "sum", weight=weight, within=1.0))
    assert decode(encode(query)) == query


def test_integers_stay_integers_where_both_may_stand_and_become_numbers_where_only_those_may():
    assert repr(decode('{"is":"Subscribe","name":"q","values":[1,1.0,true,"1"]}').values) == "(1, 1.0, True, '1')"
    assert repr(decode('{"is":"AlterQuery","name":"q","within":3}')) == "AlterQuery(name='q', within=3.0)"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "not an encoded statement"),
        ("[]", "expected an object"),
        ('{"is":"Nonsense"}', "expected an object"),
        ('{"is":["AlterQuery"]}', "expected an object"),
        ('{"is":"Column","name":"a","type":"INT"}', "expected an object"),
        ('{"is":"AlterQuery","name":"q"}', "missing"),
        ('{"is":"AlterQuery","name":"q","within":"3"}', "statement.within: expected float"),
        ('{"is":"AlterQuery","name":"q","within":true}', "statement.within: expected float"),
        ('{"is":"AlterQuery","name":"q","within":NaN}', "NaN is no number"),
        ('{"is":"AlterQuery","name":"q","within":1e999}', "statement.within: expected a finite number"),
        ('{"is":"AlterQuery","name":"q","within":1,"by":2}', "has no field 'by'"),
        ('{"is":"Drop","what":"table top","name":"q"}', "statement.what"),
        ('{"is":"Subscribe","name":"q","values":[[1]]}', r"statement.values\[0\]"),
        (
            '{"is":"CreateTable","name":"t","columns":[{"is":"Drop"}],"key":[]}',
            r"statement.columns\[0\]: expected Column",
        ),
        ("[" * 100_000, "not an encoded statement"),
    ],
)
def test_what_is_no_statement_is_a_value_error_that_says_where(text, message):
    with pytest.raises(ValueError, match=message):
        decode(text)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)


@given(STATEMENTS, st.data())
@RELAXED
def test_a_damaged_body_is_another_statement_or_a_value_error(statement, data):
    body = json.loads(encode(statement))
    _damage(body, data)
    text = json.dumps(body)
    try:
        again = decode(text)
    except ValueError:
        return
    assert decode(encode(again)) == again


def _damage(node, data):
    """Put anything in the place of something, at any depth."""
    while True:
        keys = list(node) if isinstance(node, dict) else list(range(len(node)))
        if not keys:
            return
        key = data.draw(st.sampled_from(keys))
        if isinstance(node[key], dict | list) and data.draw(st.booleans()):
            node = node[key]
            continue
        node[key] = data.draw(JSON)
        return


def test_an_old_body_without_a_newer_field_takes_its_default():
    assert decode(
        '{"is":"CreateQuery","name":"q","parameters":[],"select":{"is":"AggregateSelect","stream":"t","fn":"sum"}}'
    ) == (CreateQuery("q", (), AggregateSelect("t", "sum")))
    assert encode(AlterQuery("q", 1.0, text="ALTER …", line=7)) == encode(AlterQuery("q", 1.0))
