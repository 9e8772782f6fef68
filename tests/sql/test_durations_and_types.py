"""Durations lead back from their text; types know their values."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sql_strategies import RELAXED

from tolerant.sql import StatementError
from tolerant.sql.durations import LONGEST, duration_text, read_duration
from tolerant.sql.types import TYPES, canonical_type, comparable, is_value


@given(st.integers(0, LONGEST))
@RELAXED
def test_a_duration_is_read_back_as_it_was(microseconds):
    assert read_duration(duration_text(microseconds)) == microseconds


@pytest.mark.parametrize(
    ("text", "microseconds"),
    [("500 ms", 500_000), ("10 s", 10_000_000), (" 5min ", 300_000_000), ("24 h", 86_400_000_000), ("0.001 ms", 1)],
)
def test_durations(text, microseconds):
    assert read_duration(text) == microseconds


@pytest.mark.parametrize(
    "text", ["", "5", "s", "5 x", "-5 s", "5 s s", "1e3 s", "0.0001 ms", "9999999 d", "٥ s", "5 S", "5 µs"]
)
def test_what_is_no_duration(text):
    with pytest.raises(ValueError, match="expected"):
        read_duration(text)


@given(st.text(max_size=12))
@RELAXED
def test_any_text_is_a_duration_or_a_value_error(text):
    try:
        duration = read_duration(text)
    except ValueError:
        return
    assert 0 <= duration <= LONGEST


def test_types_have_other_names():
    assert [canonical_type(name) for name in TYPES] == list(TYPES)
    assert [canonical_type(name) for name in ("text", "Integer", "long", "bool", "real")] == [
        "STRING",
        "INT",
        "BIGINT",
        "BOOLEAN",
        "FLOAT",
    ]
    with pytest.raises(StatementError, match="expected a type"):
        canonical_type("BLOB")


@pytest.mark.parametrize(
    ("type_name", "good", "bad"),
    [
        ("STRING", ["", "a"], [1, None, True]),
        ("INT", [0, -(2**31), 2**31 - 1], [2**31, 1.0, "1", True, None]),
        ("BIGINT", [2**63 - 1, -(2**63)], [2**63, 1.0, True]),
        ("DOUBLE", [1, 1.5, -1e300], [float("nan"), float("inf"), 10**400, "1", True, None]),
        ("BOOLEAN", [True, False], [0, 1, "true", None]),
    ],
)
def test_values_of_types(type_name, good, bad):
    assert all(is_value(type_name, value) for value in good)
    assert not any(is_value(type_name, value) for value in bad)


def test_numbers_compare_with_numbers_alone():
    assert comparable("INT", 1.5)
    assert comparable("BIGINT", 2**70)
    assert not comparable("INT", "1")
    assert not comparable("INT", True)
    assert not comparable("STRING", 1)
    assert not comparable("BOOLEAN", 1)
