"""The log as a streaming source, without Spark: what is asked of a reader, in the order that Spark asks."""

import json
import pickle
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable

from tolerant.spark import source
from tolerant.spark.source import LogReader, LogSource, Range
from tolerant.transport import Deleted, SqliteLog
from tolerant.transport.topics import POSITIONS


@pytest.fixture
def log(tmp_path: Path) -> SqliteLog:
    opened = SqliteLog(tmp_path / "log.db", now=lambda: 1, create=True)
    yield opened
    opened.close()
    source.opened.cache_clear()


def reader(log: SqliteLog, checkpoint: str = "c", **limits: int) -> LogReader:
    options = {"uri": log.uri, "topics": json.dumps(["updates.s", "queries"]), "checkpoint": checkpoint}
    options |= {name: str(value) for name, value in limits.items()}
    return LogSource(options).streamReader(None)


def append(log: SqliteLog, *topics: str) -> list[int]:
    return [log.append(topic, pa.record_batch({"topic": [topic]})) for topic in topics]


def read(a_reader: LogReader, start: int, end: int) -> list[tuple[str, int]]:
    ranges = a_reader.partitions({"position": start}, {"position": end})
    batches = [batch for part in ranges for batch in a_reader.read(pickle.loads(pickle.dumps(part)))]
    return [(row["topic"], row["position"]) for batch in batches for row in batch.to_pylist()]


def test_batches_are_ranges_of_positions(log: SqliteLog) -> None:
    append(log, "updates.s", "queries", "updates.other", "updates.s")
    a_reader = reader(log)
    start = a_reader.initialOffset()
    end = a_reader.latestOffset(start, a_reader.getDefaultReadLimit())
    assert (start, end) == ({"position": 0}, {"position": 4})
    first = read(a_reader, 0, 4)
    assert first == [("updates.s", 1), ("queries", 2), ("updates.s", 4)]
    append(log, "updates.s")
    assert read(reader(log), 0, 4) == first
    assert read(a_reader, 4, 5) == [("updates.s", 5)]
    assert a_reader.partitions({"position": 5}, {"position": 5}) == []


def test_nothing_new_is_no_new_offset(log: SqliteLog) -> None:
    append(log, "updates.s", "answers.q", "answers.q")
    a_reader = reader(log)
    assert a_reader.latestOffset({"position": 1}, a_reader.getDefaultReadLimit()) == {"position": 1}


def test_a_backlog_comes_in_pieces(log: SqliteLog, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source, "_CHUNK", 2)
    append(log, *["updates.s"] * 10)
    a_reader = reader(log, entries=4)
    limit = a_reader.getDefaultReadLimit()
    assert a_reader.latestOffset({"position": 0}, limit) == {"position": 4}
    assert a_reader.latestOffset({"position": 4}, limit) == {"position": 8}
    assert a_reader.latestOffset({"position": 0}, ReadAllAvailable()) == {"position": 10}
    assert len(read(a_reader, 0, 7)) == 7
    assert [batch.num_rows for batch in a_reader.read(Range(0, 5))] == [2, 2, 1]
    by_size = reader(log, bytes=1)
    assert by_size.latestOffset({"position": 0}, by_size.getDefaultReadLimit()) == {"position": 1}


def test_available_now_ends(log: SqliteLog) -> None:
    append(log, *["updates.s"] * 3)
    a_reader = reader(log)
    a_reader.prepareForTriggerAvailableNow()
    append(log, *["updates.s"] * 3)
    assert a_reader.latestOffset({"position": 0}, ReadAllAvailable()) == {"position": 3}
    assert a_reader.latestOffset({"position": 3}, ReadAllAvailable()) == {"position": 3}


def test_commit_records_the_position(log: SqliteLog, monkeypatch: pytest.MonkeyPatch) -> None:
    log.register("c", "s", ["updates.s"])
    a_reader = reader(log)
    a_reader.commit({"position": 7})
    assert log.latest(POSITIONS, "c").version == 7
    a_reader.commit({"position": 9})
    assert log.latest(POSITIONS, "c").version == 7
    monkeypatch.setattr(source, "_RECORD_EVERY", 0)
    a_reader.commit({"position": 9})
    a_reader.commit({"position": 9})
    assert log.latest(POSITIONS, "c").version == 9
    reader(log, checkpoint="").commit({"position": 99})


def test_what_retention_took_is_not_stepped_over_in_silence(log: SqliteLog) -> None:
    append(log, *["updates.s"] * 5)
    assert log.trim("updates.s", before=2, limit=3) == 3
    a_reader = reader(log)
    assert read(a_reader, 0, 5) == [("updates.s", 4), ("updates.s", 5)]
    assert read(a_reader, 3, 5) == [("updates.s", 4), ("updates.s", 5)]
    with pytest.raises(Deleted, match=r"up to position 2, and retention has deleted entries up to 3: .*empty"):
        read(a_reader, 2, 5)


def test_a_reader_travels(log: SqliteLog) -> None:
    append(log, "updates.s")
    a_reader = reader(log)
    a_reader.latestOffset({"position": 0}, ReadAllAvailable())
    assert read(pickle.loads(pickle.dumps(a_reader)), 0, 1) == [("updates.s", 1)]
