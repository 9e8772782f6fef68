"""Subscriptions from statements and files: what is good goes on, what is bad is told by its number."""

import math

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import csv, parquet

from tolerant.relations import ColumnRange
from tolerant.sql import (
    StatementError,
    column_ranges,
    parameter_types,
    parse,
    read_subscriptions,
    subscription_row,
)
from tolerant.sql import typed_files as module
from tolerant.sql.typed_files import TypedFile
from tolerant.transport.subscriptions import read_subscription_rows, subscription_ids

STOCK = parse("CREATE TABLE stock (id INT, x DOUBLE, size INT) KEY (id)")
AREA = parse("CREATE QUERY area(low, high) AS SELECT * FROM stock WHERE x BETWEEN low AND high")
BOTH = parse("CREATE QUERY both(a, b) AS SELECT * FROM stock WHERE size BETWEEN a AND 9 AND x BETWEEN -1 AND b")


def read(path, query=AREA):
    types = parameter_types(query, STOCK)
    file = read_subscriptions(path, query, STOCK)
    found = [read_subscription_rows(batch, types) for batch in file]
    columns = {name: [v for _, _, given in found for v in given[name].tolist()] for name in types}
    assert file.accepted == len(columns[next(iter(types))])
    return columns, file


def test_what_a_template_is_to_those_who_answer_it():
    assert parameter_types(BOTH, STOCK) == {"a": "BIGINT", "b": "DOUBLE"}
    assert column_ranges(BOTH, STOCK) == (ColumnRange("size", "INT", "a", 9), ColumnRange("x", "DOUBLE", -1, "b"))


def test_a_statement_is_one_row():
    subscribe = subscription_row(parse("SUBSCRIBE area(20, 60)"), AREA, STOCK)
    assert subscribe.to_pylist() == [
        {
            "kind": "subscribe",
            "template": "area",
            "id": int(subscription_ids({"low": pa.array([20.0]), "high": pa.array([60.0])})[0]),
            "parameter.low": 20.0,
            "parameter.high": 60.0,
        }
    ]
    unsubscribe = subscription_row(parse("UNSUBSCRIBE area(20.0, 6e1)"), AREA, STOCK)
    assert unsubscribe.column("id") == subscribe.column("id")
    assert unsubscribe.column("kind").to_pylist() == ["unsubscribe"]


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_a_file_in_pieces(tmp_path, suffix, monkeypatch):
    monkeypatch.setattr(module, "PIECE", 100)
    low = np.arange(1000) / 4
    table = pa.table({"high": low + 1, "name": ["x"] * 1000, "low": low})
    path = tmp_path / f"subs.{suffix}"
    csv.write_csv(table, path) if suffix == "csv" else parquet.write_table(table, path)
    columns, file = read(path)
    assert columns == {"low": low.tolist(), "high": (low + 1).tolist()}
    assert (file.refused, file.reasons) == (0, ())
    assert [batch.num_rows for batch in read_subscriptions(path, AREA, STOCK)] == [100] * 10


def test_bad_rows_of_a_csv_file_are_refused_by_number(tmp_path):
    path = tmp_path / "subs.csv"
    path.write_text("low,high\n1,2\n,3\n4,abc\n9,8\n5\n nan,6\n-inf,7\n1_0,20\n8,9\n1,2,3\n3,3\n")
    columns, file = read(path)
    assert columns == {"low": [1.0, -math.inf, 8.0, 3.0], "high": [2.0, 7.0, 9.0, 3.0]}
    assert file.reasons == (
        (2, "low is missing"),
        (3, "high must be DOUBLE, found 'abc'"),
        (4, "the range of x is empty: low = 9.0 is above high = 8.0"),
        (5, "1 fields, expected 2"),
        (6, "low must be DOUBLE, found ' nan'"),
        (8, "low must be DOUBLE, found '1_0'"),
        (10, "3 fields, expected 2"),
    )
    assert file.refused == 7


def test_bad_rows_of_a_parquet_file_are_refused_by_number(tmp_path):
    path = tmp_path / "subs.parquet"
    parquet.write_table(
        pa.table({"a": [1.0, 2.5, None, math.nan, 10.0, 9.0, 1e300], "b": [0, 0, 0, 0, 0, -2, 0]}), path
    )
    columns, file = read(path, BOTH)
    assert columns == {"a": [1], "b": [0.0]}
    assert file.reasons == (
        (2, "a must be BIGINT, found 2.5"),
        (3, "a is missing"),
        (4, "a must be BIGINT, found nan"),
        (5, "the range of size is empty: a = 10 is above 9"),
        (6, "the range of x is empty: -1 is above b = -2.0"),
        (7, "a must be BIGINT, found 1e+300"),
    )


def test_numbers_are_right_over_blocks_and_only_the_first_are_listed(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "_BLOCK", 4096)
    monkeypatch.setattr(module, "PIECE", 97)
    lines, bad = ["low,high"], []
    for number in range(1, 20_001):
        is_short, is_swapped = number % 701 == 0, number % 503 == 0
        if is_short or is_swapped:
            bad.append(number)
        lines.append(f"{number}" if is_short else f"{number},{number - is_swapped}")
    path = tmp_path / "subs.csv"
    path.write_text("\n".join(lines))
    columns, file = read(path)
    assert file.refused == len(bad)
    assert [number for number, _ in file.reasons] == bad[: module.LISTED]
    assert columns["low"] == [number for number in range(1, 20_001) if number not in set(bad)]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("lo,high\n1,2\n", "subs.csv: expected a column low, found lo, high"),
        ("low,low,high\n1,2,3\n", "subs.csv: expected a column low, found low, low, high"),
        ("", "subs.csv cannot be read"),
        (None, "there is no file subs.csv"),
    ],
)
def test_files_that_cannot_be_used(tmp_path, content, message):
    if content is not None:
        (tmp_path / "subs.csv").write_text(content)
    with pytest.raises(StatementError, match=message):
        list(read_subscriptions(tmp_path / "subs.csv", AREA, STOCK))


def test_a_parquet_column_of_another_sort_is_refused_as_a_whole(tmp_path):
    path = tmp_path / "subs.parquet"
    parquet.write_table(pa.table({"low": ["1"], "high": [2.0]}), path)
    with pytest.raises(StatementError, match=r"subs.parquet, column low: expected DOUBLE, found string"):
        list(read_subscriptions(path, AREA, STOCK))
    path.write_bytes(b"no parquet")
    with pytest.raises(StatementError, match=r"subs.parquet cannot be read"):
        list(read_subscriptions(path, AREA, STOCK))


def test_every_type_from_text(tmp_path):
    path = tmp_path / "all.csv"
    path.write_text('s,i,n,b,f,d\n007,7,-9000000000,TRUE,1.5,1e3\n,2147483648,1,yes,2,inf\n"a,b",7.0,1,false,2,3\n')
    types = {"s": "STRING", "i": "INT", "n": "BIGINT", "b": "BOOLEAN", "f": "FLOAT", "d": "DOUBLE"}
    file = TypedFile(path, types)
    (columns,) = file
    assert [columns[name].to_pylist() for name in types] == [
        ["007", "a,b"],
        [7, 7],
        [-9000000000, 1],
        [True, False],
        [1.5, 2.0],
        [1000.0, 3.0],
    ]
    assert file.reasons == [(2, "i must be INT, found '2147483648'")]
