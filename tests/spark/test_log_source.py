"""The source of a pipeline, without Spark: what is asked of a reader, in the order that Spark asks."""

import pickle
from pathlib import Path

import pyarrow as pa
import pytest
from chain_core import Chain, expected
from pyspark.sql.streaming.datasource import ReadAllAvailable

from tolerant.pipeline.shard_host import AppliedBatch
from tolerant.spark import source
from tolerant.spark.sink import applied_batches
from tolerant.spark.source import HostedShard, ShardReader, source_of
from tolerant.transport import SqliteLog, rows


@pytest.fixture
def log(tmp_path: Path) -> SqliteLog:
    opened = SqliteLog(tmp_path / "log.db", now=lambda: 1, create=True)
    yield opened
    opened.close()
    source.opened.cache_clear()
    source.forget_hosts()


def hosted(log: SqliteLog, **limits: int) -> HostedShard:
    folder = log.path.parent / "snapshots"
    return HostedShard("run", "s", 0, log.uri, ("updates.s", "queries"), "c", folder, Chain, **limits)


def reader(log: SqliteLog, **limits: int) -> ShardReader:
    return source_of(hosted(log, **limits))({}).streamReader(None)


def append(log: SqliteLog, *topics: str) -> list[int]:
    return [log.append(topic, pa.record_batch({"topic": [topic]})) for topic in topics]


def apply(a_reader: ShardReader, start: int, end: int) -> list[AppliedBatch]:
    ranges = a_reader.partitions({"position": start}, {"position": end})
    batches = [batch for part in ranges for batch in a_reader.read(pickle.loads(pickle.dumps(part)))]
    return applied_batches(pa.Table.from_batches(batches)) if batches else []


def published(applied: AppliedBatch) -> list[dict[str, int]]:
    return [rows.unpack(output.payload).to_pylist()[0] for output in applied.outputs]


def test_batches_are_ranges_of_positions(log: SqliteLog) -> None:
    append(log, "updates.s", "queries", "updates.other", "updates.s")
    a_reader = reader(log)
    start = a_reader.initialOffset()
    end = a_reader.latestOffset(start, a_reader.getDefaultReadLimit())
    assert (start, end) == ({"position": 0}, {"position": 4})
    (first,) = apply(a_reader, 0, 4)
    assert published(first) == expected(log.read(["updates.s", "queries"]))
    assert (first.end, first.needed, first.one_by_one) == (4, 0, False)
    append(log, "updates.s")
    (again,) = apply(reader(log), 0, 4)  # the core in memory is ahead: it is not used
    assert again == first
    assert a_reader.partitions({"position": 5}, {"position": 5}) == []


def test_a_second_batch_goes_on_with_the_core_in_memory(log: SqliteLog) -> None:
    append(log, *["updates.s"] * 5)
    outputs = [row for start, end in ((0, 2), (2, 5)) for row in published(apply(reader(log), start, end)[0])]
    assert outputs == expected(log.read("updates.s"))


def test_nothing_new_is_no_new_offset(log: SqliteLog) -> None:
    append(log, "updates.s", "answers.q", "answers.q")
    a_reader = reader(log)
    assert a_reader.latestOffset({"position": 1}, a_reader.getDefaultReadLimit()) == {"position": 1}


def test_a_backlog_comes_in_pieces(log: SqliteLog) -> None:
    append(log, *["updates.s"] * 10)
    a_reader = reader(log, entries=4)
    limit = a_reader.getDefaultReadLimit()
    assert a_reader.latestOffset({"position": 0}, limit) == {"position": 4}
    assert a_reader.latestOffset({"position": 4}, limit) == {"position": 8}
    assert a_reader.latestOffset({"position": 0}, ReadAllAvailable()) == {"position": 10}
    by_size = reader(log, size=1)
    assert by_size.latestOffset({"position": 0}, by_size.getDefaultReadLimit()) == {"position": 1}


def test_available_now_ends(log: SqliteLog) -> None:
    append(log, *["updates.s"] * 3)
    a_reader = reader(log)
    a_reader.prepareForTriggerAvailableNow()
    append(log, *["updates.s"] * 3)
    assert a_reader.latestOffset({"position": 0}, ReadAllAvailable()) == {"position": 3}
    assert a_reader.latestOffset({"position": 3}, ReadAllAvailable()) == {"position": 3}


def test_a_reader_travels(log: SqliteLog) -> None:
    append(log, "updates.s")
    a_reader = reader(log)
    a_reader.latestOffset({"position": 0}, ReadAllAvailable())
    (applied,) = apply(pickle.loads(pickle.dumps(a_reader)), 0, 1)
    assert published(applied) == expected(log.read("updates.s"))
