from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tolerant.traces import Trace, random_walk

REAL = Path(__file__).resolve().parents[2] / "shared" / "data"


def write(folder, name, text):
    path = folder / name
    path.write_text(text)
    return path


def test_a_trace_keeps_names_and_values():
    trace = Trace(["x", "y"], [[1, 2], [3, 4], [5, 6]])
    assert trace.items == ("x", "y")
    assert trace.ticks == 3
    assert trace.values.dtype == np.float64


@pytest.mark.parametrize(
    ("items", "values", "message"),
    [
        (["x"], [[1, 2]], r"shape \(ticks, 1 items\)"),
        (["x"], [1, 2], "shape"),
        (["x"], np.zeros((0, 1)), "at least one tick"),
        ([], np.zeros((3, 0)), "at least one tick and one item"),
        (["x", "y", "x"], [[1, 2, 3]], "'x' twice"),
        (["x", "y"], [[1, 2], [3, np.inf]], "inf of 'y' at tick 1"),
        (["x", "y"], [[np.nan, -np.inf]], "-inf of 'y' at tick 0"),
    ],
)
def test_a_malformed_trace_says_what_is_wrong(items, values, message):
    with pytest.raises(ValueError, match=message):
        Trace(items, values)


def test_without_gaps_nothing_is_copied():
    trace = random_walk(3, 10)
    assert trace.filled() is trace.values


@given(st.lists(st.lists(st.sampled_from([np.nan, 1.0, 2.0, 3.0]), min_size=3, max_size=3), min_size=1))
def test_the_last_reading_holds(values):
    filled = Trace("xyz", values).filled()
    for column in range(3):
        last = np.nan
        for tick, row in enumerate(values):
            last = last if np.isnan(row[column]) else row[column]
            np.testing.assert_equal(filled[tick, column], last)


def test_walks_go_up_and_down_by_their_steps():
    trace = random_walk(["slow", "fast"], 1000, [0.5, 2], seed=3)
    assert trace.items == ("slow", "fast")
    assert trace.values[0].tolist() == [0, 0]
    assert np.unique(np.abs(np.diff(trace.values, axis=0)), axis=0).tolist() == [[0.5, 2]]
    assert (random_walk(["slow", "fast"], 1000, [0.5, 2], seed=3).values == trace.values).all()
    assert (random_walk(["slow", "fast"], 1000, [0.5, 2], seed=4).values != trace.values).any()
    assert random_walk(2, 1).values.tolist() == [[0, 0]]


@pytest.mark.parametrize("arguments", [(0, 5), ([], 5), (2, 0), (2, 5, [1]), (2, 5, -1), (2, 5, np.nan)])
def test_a_malformed_walk_is_refused(arguments):
    with pytest.raises(ValueError):
        random_walk(*arguments)


def test_reads_wide_and_long_csv_alike(tmp_path):
    wide = Trace.read(write(tmp_path, "wide.csv", "at,x,y\n10,1,2.5\n20,,3.5\n30,4,\n"))
    long = Trace.read(
        write(tmp_path, "long.csv", "item,value,at\nx,1,10\nx,4,30\ny,2.5,10\ny,3.5,20\n"),
    )
    assert wide.items == long.items == ("x", "y")
    np.testing.assert_equal(wide.values, [[1, 2.5], [np.nan, 3.5], [4, np.nan]])
    np.testing.assert_equal(long.values, wide.values)


def test_reads_long_parquet_with_times(tmp_path):
    at = pa.array([2, 1, 2], pa.timestamp("us"))
    pq.write_table(pa.table({"at": at, "item": ["b", "a", "a"], "value": [1, 2, 3]}), tmp_path / "long.parquet")
    trace = Trace.read(tmp_path / "long.parquet")
    assert trace.items == ("b", "a")
    np.testing.assert_equal(trace.values, [[np.nan, 2], [1, 3]])


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("trace.txt", "x\n1\n", "'.txt'"),
        ("trace.csv", "", "trace.csv"),
        ("trace.csv", "x,y\n", "at least one tick"),
        ("trace.csv", "at\n1\n", "one item"),
        ("trace.csv", "x,y\n1,red\n", "column 'y' must hold numbers, got string"),
        ("trace.csv", "x,x\n1,2\n", "'x' twice"),
        ("trace.csv", "x,y\n1,inf\n", "inf of 'y' at tick 0"),
        ("trace.csv", "at,item,value\n1,x,2\n2,x,3\n1,x,4\n", "row 3: item x has a value at 1 already"),
        ("trace.csv", "at,item,value\n,x,2\n", "column 'at' has 1 empty"),
        ("trace.parquet", "no parquet", "trace.parquet"),
    ],
)
def test_a_malformed_file_says_which_and_what(tmp_path, name, text, message):
    with pytest.raises(ValueError, match=message):
        Trace.read(write(tmp_path, name, text))


@pytest.mark.skipif(not REAL.is_dir(), reason="the folder of real traces is not there")
@pytest.mark.parametrize(
    ("name", "shape"),
    [
        ("markets-minute", (12_000, 25)),
        ("stocks-daily", (8_313, 20)),
        ("cloud-5min", (4_000, 16)),
        ("weather-hourly", (8_714, 15)),
        ("melbourne-daily-max", (3_650, 1)),
    ],
)
def test_reads_the_real_traces(name, shape):
    trace = Trace.read(REAL / f"{name}.parquet")
    assert trace.values.shape == shape
    assert not np.isnan(trace.values).any()
