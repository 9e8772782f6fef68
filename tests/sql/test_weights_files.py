"""Weights read from files: what is taken, and what is said of files that cannot be used."""

import pyarrow as pa
import pytest
from pyarrow import parquet

from tolerant.sql import Catalogue, StatementError, parse, parse_many, with_files

DEFINITIONS = """
CREATE STREAM traffic (host STRING, kind STRING, rate DOUBLE) KEY (host, kind);
CREATE STREAM meters (id INT, live BOOLEAN, level DOUBLE) KEY (id, live);
CREATE TABLE weights (host STRING, weight DOUBLE) KEY (host) FROM 'weights.csv';
CREATE TABLE prices (kind STRING, host STRING, price FLOAT) KEY (kind, host) FROM 'data/prices.parquet';
CREATE TABLE factors (id INT, live BOOLEAN, factor INT) KEY (id, live) FROM 'factors.csv';
"""
CATALOGUE = Catalogue(parse_many(DEFINITIONS))
WEIGHTED = parse(
    "CREATE QUERY q AS SELECT SUM(t.rate * w.weight) FROM traffic t JOIN weights w ON t.host = w.host WITHIN 1"
)
PRICED = parse(
    "CREATE QUERY q AS SELECT SUM(t.rate * p.price) FROM traffic t JOIN prices p USING (host, kind) WITHIN 1"
)
SCALED = parse(
    "CREATE QUERY q AS SELECT SUM(m.level * f.factor) FROM meters m JOIN factors f USING (id, live) WITHIN 1"
)


def values(query, directory):
    return with_files(query, CATALOGUE, directory).select.weight.values


def test_csv_rows_come_sorted_with_their_types(tmp_path):
    (tmp_path / "weights.csv").write_text('note,weight,host\nx,2,b\ny,-0.5,007\n"a\nb",1e3,"a,""b"""\n')
    assert values(WEIGHTED, tmp_path) == ((("007",), -0.5), (('a,"b"',), 1000.0), (("b",), 2.0))


def test_csv_of_numbers_and_truths(tmp_path):
    (tmp_path / "factors.csv").write_text("id,live,factor\n7,true,3\n-7,FALSE,4\n")
    assert values(SCALED, tmp_path) == (((-7, False), 4.0), ((7, True), 3.0))


def test_text_that_looks_like_nothing_is_text(tmp_path):
    (tmp_path / "weights.csv").write_text("host,weight\nNULL,1\nNA,2\n,3\n")
    assert values(WEIGHTED, tmp_path) == ((("",), 3.0), (("NA",), 2.0), (("NULL",), 1.0))


def test_parquet_keys_stand_in_the_order_of_the_join(tmp_path):
    (tmp_path / "data").mkdir()
    table = pa.table({"price": pa.array([1.5, 2.5], pa.float32()), "kind": ["in", "in"], "host": ["b", "a"]})
    parquet.write_table(table, tmp_path / "data" / "prices.parquet")
    assert PRICED.select.weight.on == (("host", "host"), ("kind", "kind"))
    assert values(PRICED, str(tmp_path)) == ((("a", "in"), 2.5), (("b", "in"), 1.5))


def test_a_query_without_weights_stays_as_it_is(tmp_path):
    query = parse("CREATE QUERY q AS SELECT SUM(rate) FROM traffic WITHIN 1")
    assert with_files(query, CATALOGUE, tmp_path) is query


def test_a_query_with_files_is_accepted_with_its_text(tmp_path):
    (tmp_path / "weights.csv").write_text("host,weight\na,1\n")
    filled = with_files(WEIGHTED, CATALOGUE, tmp_path)
    assert filled.text == WEIGHTED.text
    assert CATALOGUE.copy().apply(filled).changed


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("host,wait\na,1\n", "weights.csv: expected a column weight, found host, wait"),
        ("host,weight\na,1\nb,heavy\n", "weights.csv, row 2, column weight: expected DOUBLE, found 'heavy'"),
        ("host,weight\na,nan\n", "weights.csv, row 1, column weight: expected DOUBLE, found 'nan'"),
        ("host,weight\na,inf\n", "weights.csv, row 1, column weight: expected DOUBLE, found 'inf'"),
        ("host,weight\na,\n", "weights.csv, row 1, column weight: expected DOUBLE, found ''"),
        ("host,weight\na,1\nb,2\na,3\n", "weights.csv, row 3: the key host = 'a' stands in row 1 already"),
        ("host,weight\na,1,2\n", "weights.csv cannot be read"),
        ("", "weights.csv cannot be read"),
    ],
)
def test_a_file_that_cannot_be_used(tmp_path, content, message):
    (tmp_path / "weights.csv").write_text(content)
    with pytest.raises(StatementError) as error:
        values(WEIGHTED, tmp_path)
    assert message in str(error.value)


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ("x,true,1", "row 1, column id: expected INT, found 'x'"),
        ("99999999999,true,1", "row 1, column id: expected INT, found '99999999999'"),
        ("1,yes,1", "row 1, column live: expected BOOLEAN, found 'yes'"),
        ("1,true,1.5", "row 1, column factor: expected INT, found '1.5'"),
    ],
)
def test_each_type_is_checked(tmp_path, row, message):
    (tmp_path / "factors.csv").write_text(f"id,live,factor\n{row}\n")
    with pytest.raises(StatementError) as error:
        values(SCALED, tmp_path)
    assert message in str(error.value)


@pytest.mark.parametrize(
    ("price", "message"),
    [
        (pa.array([None], pa.float64()), "prices.parquet, row 1, column price: expected FLOAT, found None"),
        (pa.array([float("nan")]), "prices.parquet, row 1, column price: expected FLOAT, found nan"),
        (pa.array(["1"]), "prices.parquet, row 1, column price: expected FLOAT, found '1'"),
    ],
)
def test_parquet_is_checked_too(tmp_path, price, message):
    (tmp_path / "data").mkdir()
    parquet.write_table(pa.table({"kind": ["in"], "host": ["a"], "price": price}), tmp_path / "data" / "prices.parquet")
    with pytest.raises(StatementError) as error:
        values(PRICED, tmp_path)
    assert message in str(error.value)


def test_no_file_and_no_parquet(tmp_path):
    with pytest.raises(StatementError, match=r"there is no file weights\.csv"):
        values(WEIGHTED, tmp_path)
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "prices.parquet").write_text("not parquet")
    with pytest.raises(StatementError, match=r"prices\.parquet cannot be read"):
        values(PRICED, tmp_path)
    (tmp_path / "weights.csv").mkdir()
    with pytest.raises(StatementError, match=r"weights\.csv cannot be read"):
        values(WEIGHTED, tmp_path)
