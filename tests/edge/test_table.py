"""Rows of a table, from an application to the log."""

import math
import threading
import time

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import csv, parquet

from tolerant.edge import SourceError, Table, change_buffer, find_table, load_table
from tolerant.edge import table as table_module
from tolerant.kernels.versions import counter_of, epoch_of
from tolerant.relations import Relation
from tolerant.sql import StatementError, encode, parse
from tolerant.testing import FailingLog
from tolerant.transport import MemoryLog, SqliteLog
from tolerant.transport.changes import read_changes
from tolerant.transport.rows import STATEMENTS, unpack

STOCK = parse("CREATE TABLE stock (id INT, name STRING, price DOUBLE, live BOOLEAN) KEY (id)")
PAIRS = parse("CREATE TABLE pairs (host STRING, size FLOAT, n BIGINT) KEY (host, size)")
ROW = {"id": 7, "name": "bolt", "price": 2.5, "live": True}


def define(log):
    for table in (STOCK, PAIRS):
        row = {"kind": "table", "key": table.name, "request": "", "text": "", "body": encode(table)}
        log.append("queries", pa.RecordBatch.from_pylist([row], STATEMENTS))
    return log


@pytest.fixture
def log():
    return define(MemoryLog())


def broken_texts():
    """Two texts of which the second is no UTF-8."""
    return pa.StringArray.from_buffers(2, pa.py_buffer(np.array([0, 1, 2], np.int32)), pa.py_buffer(b"a\xff"))


def rows(log, table=STOCK):
    return [row for entry in log.read(f"changes.{table.name}") for row in unpack(entry.payload).to_pylist()]


def relation(log, table=STOCK):
    held = Relation(table.columns)
    for entry in log.read(f"changes.{table.name}"):
        held.apply(read_changes(unpack(entry.payload), table.columns).changes)
    columns = held.rows()
    listed = zip(*(columns[column.name].tolist() for column in table.columns), strict=True)
    return dict(zip(held.keys().tolist(), listed, strict=True))


def test_what_is_said_is_in_the_log_when_the_table_is_closed(log):
    with Table("stock", log, "shop", clock=lambda: 1000) as table:
        assert table.insert(ROW) == 1000
        assert table.insert(id=8, name="nut", price=1, live=False) == 1001
        assert table.update(ROW, price=3.0) == 1002
        assert table.delete(8) == 1003
    said = rows(log)
    assert [(row["kind"], row["key"], row["at"], row["through"]) for row in said] == [
        ("insert", "7", 1000, 1000),
        ("insert", "8", 1001, 1001),
        ("delete", "7", 1002, 1001),
        ("insert", "7", 1002, 1002),
        ("delete", "8", 1003, 1003),
    ]
    assert {row["source"] for row in said} == {"shop"}
    assert [counter_of(row["sequence"]) for row in said] == [1, 2, 3, 4, 5]
    assert {epoch_of(row["sequence"]) for row in said} == {1}
    assert said[1]["row.price"] == 1.0
    assert said[2]["row.price"] is None
    assert relation(log) == {"7": (7, "bolt", 3.0, True)}


def test_many_rows_are_one_transaction_in_several_appends(log, monkeypatch):
    monkeypatch.setattr(change_buffer, "PIECE", 100)
    n = 250
    many = {"id": np.arange(n), "name": ["x"] * n, "price": np.ones(n, np.float32), "live": pa.array([True] * n)}
    with Table("stock", log, clock=lambda: 5) as table:
        table.insert(ROW)
        table.insert_many(many)
        table.insert_many(pa.table(many).slice(0, 0))
        table.update(ROW)
    batches = [unpack(entry.payload) for entry in log.read("changes.stock")]
    assert [batch.num_rows for batch in batches] == [1, 100, 100, 50, 2]
    assert [batch.column("through")[-1].as_py() for batch in batches] == [5, 5, 5, 6, 8]
    assert {at for batch in batches[1:4] for at in batch.column("at").to_pylist()} == {6}
    assert len(relation(log)) == n


def test_rows_go_by_themselves_soon_after(log):
    with Table("stock", log) as table:
        table.insert(ROW)
        for _ in range(500):
            if rows(log):
                break
            threading.Event().wait(0.01)
        assert [row["key"] for row in rows(log)] == ["7"]


def test_a_table_and_its_log_on_disk(tmp_path):
    uri = f"sqlite:///{tmp_path}/log.db"
    define(SqliteLog(tmp_path / "log.db", create=True)).close()
    with Table("stock", uri) as table:
        table.insert(ROW)
    with Table("stock", uri) as table:
        assert table.epoch == 2
        table.delete("7")
    log = SqliteLog(tmp_path / "log.db", create=True)
    assert [row["kind"] for row in rows(log)] == ["insert", "delete"]
    log.close()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"price": math.nan}, "column 'price' must be DOUBLE, got nan"),
        ({"price": math.inf}, "column 'price' must be DOUBLE, got inf"),
        ({"price": "2"}, "column 'price' must be DOUBLE, got '2'"),
        ({"price": None}, "column 'price' must be DOUBLE, got None"),
        ({"id": 2**31}, "column 'id' must be INT, got 2147483648"),
        ({"id": 1.5}, "column 'id' must be INT, got 1.5"),
        ({"id": True}, "column 'id' must be INT, got True"),
        ({"live": 1}, "column 'live' must be BOOLEAN, got 1"),
        ({"name": 7}, "column 'name' must be STRING, got 7"),
        ({"colour": 7}, "table 'stock' has no column 'colour'"),
    ],
)
def test_rows_that_do_not_fit_are_refused(log, change, message):
    with Table("stock", log) as table:
        with pytest.raises(ValueError, match=message):
            table.insert({**ROW, **change})
        with pytest.raises(ValueError, match=message):
            table.update({**ROW, **change})
    assert rows(log) == []


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"price": [1.0, math.nan]}, "column 'price' must be DOUBLE, got nan at row 1"),
        ({"price": [math.inf, 1.0]}, "column 'price' must be DOUBLE, got inf at row 0"),
        ({"price": ["1", "2"]}, "column 'price' must be DOUBLE, got string"),
        ({"price": [1.0, None]}, "column 'price' must be DOUBLE, got None at row 1"),
        ({"price": [1.0, "a"]}, "column 'price' must be DOUBLE, got 'a' at row 1"),
        ({"id": [1, 2**31]}, "column 'id' must be INT, got 2147483648 at row 1"),
        ({"name": ["a", "\ud800"]}, r"column 'name' must be STRING in valid Unicode, got '\\ud800' at row 1"),
        ({"name": broken_texts()}, "column 'name' must be STRING: Invalid UTF8"),
        ({"id": [1.0, 2.0]}, "column 'id' must be INT, got double"),
        ({"live": [1, 0]}, "column 'live' must be BOOLEAN, got int64"),
        ({"id": [1]}, "columns must be equally long"),
        ({"colour": [1, 2]}, "table 'stock' has no column 'colour'"),
    ],
)
def test_many_rows_that_do_not_fit_are_refused(log, change, message):
    good = {"id": [1, 2], "name": ["a", "b"], "price": [1.0, 2.0], "live": [True, False]}
    with Table("stock", log) as table:
        with pytest.raises(ValueError, match=message):
            table.insert_many({**good, **change})
        with pytest.raises(ValueError, match="column 'live' is missing"):
            table.insert_many(pa.table(good).drop_columns(["live"]))
        with pytest.raises(ValueError, match="rows must be a mapping from columns to arrays"):
            table.insert_many(iter([ROW]))
    assert rows(log) == []


def test_keys_are_one_however_they_are_given(log):
    with Table("pairs", log) as table:
        table.insert(host="a", size=0.1, n=1)
        table.insert_many({"host": ['b"', "c"], "size": [0, -0.0], "n": [2, 3]})
        keys = [row["key"] for row in rows_after(table, log)]
        assert keys == ['["a",0.10000000149011612]', '["b\\"",0.0]', '["c",0.0]']
        table.delete(("a", 0.1))
        table.delete(('b"', 0))
        table.delete('["c",-0.0]')
        for wrong in ("c", ("c",), ("c", "0"), 7, ("c", 0, 0)):
            with pytest.raises(ValueError, match="must be"):
                table.delete(wrong)
    assert relation(log, PAIRS) == {}


def rows_after(table, log):
    table.flush()
    return rows(log, PAIRS)


def test_a_log_that_fails_for_a_while_loses_nothing_and_repeats_are_dropped(log):
    failing = FailingLog(log, lambda call: call.method == "append" and call.number in (0, 2), after=True)
    with Table("stock", failing, clock=lambda: 1) as table:
        for number in range(3):
            table.insert({**ROW, "id": number})
            table.flush()
    assert [row["key"] for row in rows(log)] == ["0", "0", "1", "1", "2"]
    assert list(relation(log)) == ["0", "1", "2"]


def test_a_log_that_stays_out_of_reach_is_told(log, monkeypatch):
    monkeypatch.setattr(table_module, "PATIENCE", 0.0)
    failing = FailingLog(log, lambda call: call.method == "append")
    table = Table("stock", failing, clock=lambda: 1)
    table.insert(ROW)
    with pytest.raises(SourceError, match="could not append 1 rows"):
        table.flush(0.01)
    time.sleep(0.01)
    with pytest.raises(SourceError, match="for longer than"):
        table.insert(ROW)
    with pytest.raises(SourceError):
        table.close(0.01)
    with pytest.raises(SourceError, match="is closed"):
        table.insert(ROW)


@pytest.mark.parametrize("clock", [None, lambda: 1])
def test_a_second_of_the_same_name_stops_the_first(log, clock):
    first = Table("stock", log, "shop", clock=clock)
    with Table("stock", log, "shop"):
        first._changes.insert("7", (7, "bolt", 1.0, True), 1)
        with pytest.raises(SourceError, match="another has started"):
            first.flush()
        with pytest.raises(SourceError, match="rows of table 'stock' are lost: another has started"):
            first.close()
        first.close()
    assert rows(log) == []


def test_a_table_that_there_is_not(log):
    with pytest.raises(LookupError, match=r"there is no table stok; did you mean stock\? There are: pairs, stock"):
        find_table(log, "stok", timeout=0.0)


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_loading_a_file(log, tmp_path, suffix):
    n = 70_000
    ids = np.arange(n)
    content = pa.table({"price": ids / 2, "id": ids, "more": ids, "name": ids.astype(str), "live": ids % 2 == 0})
    path = tmp_path / f"stock.{suffix}"
    csv.write_csv(content, path) if suffix == "csv" else parquet.write_table(content, path)
    loaded = load_table(log, STOCK, path)
    assert (loaded.inserted, loaded.refused, loaded.reasons) == (n, 0, ())
    held = relation(log)
    assert len(held) == n
    assert held["69999"] == (69999, "69999", 34999.5, False)
    assert all(unpack(entry.payload).num_rows <= 65_536 for entry in log.read("changes.stock"))
    load_table(log, STOCK, path)
    assert relation(log) == held


def test_loading_refuses_rows_by_number(log, tmp_path):
    path = tmp_path / "stock.csv"
    path.write_text("id,name,price,live\n1,a,2,true\n2,b,inf,true\nx,c,1,true\n4,,1,FALSE\n")
    loaded = load_table(log, STOCK, path)
    assert loaded.inserted == 2
    assert loaded.reasons == ((2, "price must be DOUBLE, found 'inf'"), (3, "id must be INT, found 'x'"))
    assert relation(log) == {"1": (1, "a", 2.0, True), "4": (4, "", 1.0, False)}
    with pytest.raises(StatementError, match="expected a column size"):
        load_table(log, parse("CREATE TABLE t (id INT, size INT) KEY (id)"), path)


HALF = "bolt\ud800"  # half of a surrogate pair: no UTF-8 has it


def test_half_of_a_surrogate_pair_is_refused_at_once_and_harms_nothing_else(log):
    with Table("stock", log, "shop") as table:
        table.insert(ROW)
        for refused in (table.insert, table.update):
            with pytest.raises(ValueError, match=r"column 'name' must be STRING in valid Unicode.* in row .*'id': 8"):
                refused({**ROW, "id": 8, "name": HALF})
        with pytest.raises(ValueError, match=r"row 1: column 'name' must be STRING in valid Unicode"):
            table.insert_many([{**ROW, "id": 9}, {**ROW, "id": 10, "name": HALF}])
        with Table("pairs", log, "shop") as pairs, pytest.raises(ValueError, match="'host' must be STRING in valid"):
            pairs.delete((HALF, 1.0))
        table.insert({**ROW, "id": 11})
        table.flush()
    assert sorted(relation(log)) == ["11", "7"]


def test_closing_raises_if_what_was_said_is_lost(log):
    table = Table("stock", log, "shop")
    with table._lock:
        table._changes.insert("7", (7, HALF, 1.0, True), 1)  # as if it had not been refused
    with pytest.raises(SourceError, match="has failed"):
        table.flush()
    with pytest.raises(SourceError, match="rows of table 'stock' are lost: 'utf-8' codec"):
        table.close()


MANY = {"id": [1, 2], "name": ["a", "b"], "price": [1.5, 2.0], "live": [True, False]}
AS_ROWS = [dict(zip(MANY, row, strict=True)) for row in zip(*MANY.values(), strict=True)]


class Capsule:
    """What any library hands over that speaks Arrow's C interface."""

    def __init__(self, table):
        self._table = table

    def __arrow_c_stream__(self, requested_schema=None):
        return self._table.__arrow_c_stream__(requested_schema)


def pandas_frame():
    return pytest.importorskip("pandas").DataFrame(MANY)


def some_rows_of_pandas():
    frame = pandas_frame()
    return pytest.importorskip("pandas").concat([frame, frame]).iloc[2:]


def polars_categories():
    polars = pytest.importorskip("polars")
    return polars.DataFrame(MANY, schema_overrides={"name": polars.Categorical})


HOLDERS = {
    "mapping": lambda: MANY,
    "dicts": lambda: AS_ROWS,
    "tuples": lambda: [tuple(row.values()) for row in AS_ROWS],
    "arrow": lambda: pa.table(MANY),
    "batch": lambda: pa.record_batch(MANY),
    "reader": lambda: pa.table(MANY).to_reader(),
    "pandas": pandas_frame,
    "pandas, some of the rows": some_rows_of_pandas,
    "pandas, categories": lambda: pandas_frame().astype({"name": "category"}),
    "capsule": lambda: Capsule(pa.table(MANY).cast(pa.table(MANY).schema.set(1, pa.field("name", pa.string_view())))),
    "polars": lambda: pytest.importorskip("polars").DataFrame(MANY),
    "polars, some of the rows": lambda: pytest.importorskip("polars").DataFrame([*AS_ROWS, *AS_ROWS])[2:],
    "polars, categories": polars_categories,
}
"""Makers of what may hold many rows; a library that is not installed is a test that says that it was skipped."""


@pytest.mark.parametrize("holder", HOLDERS)
def test_many_rows_come_from_whatever_holds_them(log, holder):
    given = HOLDERS[holder]()
    with Table("stock", log) as table:
        table.insert_many(given)
    assert relation(log) == {"1": (1, "a", 1.5, True), "2": (2, "b", 2.0, False)}


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ([AS_ROWS[0], {**AS_ROWS[1], "price": "dear"}], "row 1: column 'price' must be DOUBLE, got 'dear'"),
        ([AS_ROWS[0], {"id": 2}], "row 1: column 'name' is missing"),
        ([AS_ROWS[0], {**AS_ROWS[1], "colour": 1}], "row 1: table 'stock' has no column 'colour'"),
        ([(1, "a", 1.5, True), (2, "b", 2.0)], r"row 1: a row must be a mapping or a tuple \(id, name, price, live\)"),
        ([(1, "a", 1.5, True), 7], "row 1: a row must be a mapping or a tuple"),
        (pa.table({**MANY, "price": [1.0, None]}), "column 'price' must be DOUBLE, got None at row 1"),
        (pa.table({**MANY, "id": [1, 2**31]}), "column 'id' must be INT, got 2147483648 at row 1"),
        (pa.table([[1], [2]], names=["id", "id"]), "columns must have different names"),
        ("rows", "rows must be a mapping"),
    ],
)
def test_nothing_of_many_rows_is_taken_if_one_is_bad(log, given, message):
    with Table("stock", log) as table, pytest.raises(ValueError, match=message):
        table.insert_many(given)
    assert rows(log) == []


def test_no_rows_are_no_error(log):
    with Table("stock", log) as table:
        table.insert_many([])
    assert rows(log) == []


def test_a_frame_of_pandas_with_a_missing_value_is_refused_with_row_and_column(log):
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({**MANY, "name": ["a", None]})
    with (
        Table("stock", log) as table,
        pytest.raises(ValueError, match="column 'name' must be STRING, got None at row 1"),
    ):
        table.insert_many(frame)
    assert rows(log) == []
