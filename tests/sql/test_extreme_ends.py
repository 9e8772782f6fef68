"""Ends at the edges of their types: a statement, a file and a program accept the same, and mean the same by it."""

import math
import random

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

from tolerant.relations import RangeSelection
from tolerant.sql import StatementError, Subscribe, column_ranges, parameter_types, parse, render, subscription_row
from tolerant.sql.subscriptions import SubscriptionFile, bound_columns
from tolerant.sql.templates import bound_parameters
from tolerant.transport.subscriptions import read_subscription_rows, subscription_ids

STOCK = parse("CREATE TABLE stock (id BIGINT, x DOUBLE, n BIGINT) KEY (id)")
QUERIES = {
    "area": "SELECT * FROM stock WHERE x BETWEEN a AND b",
    "wide": "SELECT * FROM stock WHERE n BETWEEN a AND b",
    "least": "SELECT MIN(x) FROM stock WHERE x BETWEEN a AND b",
    "counted": "SELECT COUNT(*) FROM stock WHERE n BETWEEN a AND b",
    "mixed": "SELECT * FROM stock WHERE n BETWEEN a AND b AND x BETWEEN -1 AND b",
}
WHOLE = [near + off for near in (0, 2**53, -(2**53), 2**63 - 2, -(2**63) + 1) for off in (-1, 0, 1)]
FLOATS = [0.0, -0.0, 0.5, 1e300, -1e300, 5e-324, 2.0**53, 2.0**63, math.inf, -math.inf, math.nan]


def template(name):
    return parse(f"CREATE QUERY {name}(a, b) AS {QUERIES[name]}")


def accepted(query, ends):
    """The row of a statement with these ends; None: it is refused."""
    statement = Subscribe(query.name, ends)
    try:
        bound_parameters(statement, query, STOCK)
        assert parse(render(statement)) == statement
        return subscription_row(statement, query, STOCK)
    except StatementError:
        return None


@pytest.mark.parametrize("name", QUERIES)
def test_a_statement_a_file_and_a_program_accept_the_same(name, tmp_path):
    query, chance = template(name), random.Random(name)
    types = parameter_types(query, STOCK)
    of = {"BIGINT": WHOLE, "DOUBLE": FLOATS}
    pairs = [tuple(chance.choice(of[kind]) for kind in types.values()) for _ in range(400)]
    path = tmp_path / "ends.parquet"
    schema = pa.schema([(end, {"BIGINT": pa.int64(), "DOUBLE": pa.float64()}[kind]) for end, kind in types.items()])
    columns = [pa.array(values, schema.field(at).type) for at, values in enumerate(zip(*pairs, strict=True))]
    parquet.write_table(pa.table(columns, schema=schema), path)
    said = [accepted(query, pair) for pair in pairs]
    file = SubscriptionFile(path, query, STOCK)
    ids = [number for batch in file for number in batch.column("id").to_pylist()]
    assert ids == [row.column("id")[0].as_py() for row in said if row is not None]
    assert file.refused == said.count(None)
    assert 0 < file.refused < len(pairs)
    for (a, b), row in zip(pairs[:100], said, strict=False):
        try:
            given = bound_columns(query, STOCK, {"a": [a], "b": [b]})
        except StatementError:
            assert row is None, (a, b)
        else:
            assert row is not None, (a, b)
            assert subscription_ids(given).tolist() == row.column("id").to_pylist()


def test_what_lies_between_is_what_python_says():
    query, chance = template("wide"), random.Random(1)
    for _ in range(300):
        low, high = sorted(chance.choices(WHOLE, k=2))
        if accepted(query, (low, high)) is None:
            assert not -(2**63) <= low <= high < 2**63
            continue
        _, ids, ends = read_subscription_rows(accepted(query, (low, high)), parameter_types(query, STOCK))
        selection = RangeSelection(column_ranges(query, STOCK))
        selection.add_many(ids, ends)
        rows = [value for value in WHOLE if -(2**63) <= value < 2**63]
        found, _ = selection.matching({"n": np.array(rows, np.int64)})
        assert [rows[at] for at in found.tolist()] == [value for value in rows if low <= value <= high]


@pytest.mark.parametrize(
    ("text", "is_accepted"),
    [
        ("9223372036854775807", True),
        ("9223372036854775808", False),
        ("-9223372036854775808", True),
        ("-9223372036854775809", False),
        ("-99999999999999999999", False),
        ("0009223372036854775807", True),
    ],
)
def test_the_ends_of_64_bits_in_a_statement(text, is_accepted):
    query = template("wide")
    ends = f"{text}, 9223372036854775807" if text.startswith("-") else f"0, {text}"
    statement = parse(f"SUBSCRIBE wide({ends})")
    assert (accepted(query, statement.values) is not None) is is_accepted
