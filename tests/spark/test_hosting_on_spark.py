"""Hosting on real Spark: whatever dies, each output stands in the log once, and says what it would have said."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from chain_core import TOPIC, Chain, DiesOnce, Refusing, expected
from pyspark.sql import SparkSession

from tolerant.pipeline.splitter import splitter
from tolerant.spark.pipeline import AVAILABLE_NOW, Pipeline, PipelineSpec, _look_for_no_others, start
from tolerant.streams import Column, Stream, StreamOptions
from tolerant.transport import Fence, Fenced, SqliteLog, rows

pytestmark = pytest.mark.spark


@pytest.fixture
def log(tmp_path: Path) -> SqliteLog:
    opened = SqliteLog(tmp_path / "log.db", create=True)
    yield opened
    opened.close()


def feed(log: SqliteLog, count: int) -> None:
    for i in range(count):
        log.append("updates.s", pa.record_batch({"value": [i]}))


def said(log: SqliteLog) -> list[dict[str, int]]:
    return [rows.unpack(entry.payload).to_pylist()[0] for entry in log.read(TOPIC)]


def run(spark: SparkSession, log: SqliteLog, factory: Any = Chain, **options: Any) -> Pipeline:
    """Take all that the log holds, as one pipeline on one checkpoint."""
    directory = log.path.parent / "checkpoint"
    fence = options.pop("fence", None)
    spec = PipelineSpec("test", ["updates.s"], factory, trigger=AVAILABLE_NOW, **options)
    pipeline = start(spark, log, spec, directory, "c", fence=fence)
    pipeline.wait()
    return pipeline


def test_a_worker_that_dies(spark: SparkSession, log: SqliteLog, tmp_path: Path) -> None:
    feed(log, 9)
    factory = DiesOnce(tmp_path / "scar", at=5)
    assert run(spark, log, factory, entries=2).failure is not None
    assert (tmp_path / "scar").exists()
    assert run(spark, log, factory, entries=2).failure is None
    assert said(log) == expected(log.read("updates.s"))


class ForgetfulLog(SqliteLog):
    """Writes a batch, and then is cut off before it can say so."""

    forgets = True

    def append_once(self, *arguments: Any) -> bool:
        done = super().append_once(*arguments)
        if self.forgets and arguments[1] == 1:
            raise ConnectionError("cut off")
        return done


def test_a_batch_that_was_written_but_not_committed(spark: SparkSession, tmp_path: Path) -> None:
    log = ForgetfulLog(tmp_path / "log.db", create=True)
    feed(log, 9)
    assert isinstance(run(spark, log, entries=3).failure, ConnectionError)
    log.forgets = False
    assert run(spark, log, entries=3).failure is None
    assert said(log) == expected(log.read("updates.s"))
    done = [row for entry in log.read("batches.test") for row in rows.unpack(entry.payload).to_pylist()]
    assert [row["end"] for row in done] == [entry.position for entry in log.read("updates.s")[2::3]]
    log.close()


def test_a_core_that_raises_ends_the_pipeline(spark: SparkSession, log: SqliteLog) -> None:
    feed(log, 3)
    failed = run(spark, log, Refusing)
    assert "the third entry stands at" in str(failed.failure)
    assert failed.ended
    assert said(log) == []


def test_a_pipeline_that_was_taken_over_writes_nothing(spark: SparkSession, log: SqliteLog) -> None:
    feed(log, 2)
    mine = Fence("pipeline/s", log.next_epoch("pipeline/s"))
    log.next_epoch("pipeline/s")
    assert isinstance(run(spark, log, fence=mine).failure, Fenced)
    assert said(log) == []


def test_shards_see_all_statements_and_their_own_rows(spark: SparkSession, log: SqliteLog) -> None:
    columns = (Column("host", "STRING"), Column("rate", "DOUBLE"))
    stream = Stream("s", columns, ("host",), options=StreamOptions(shards=2, shard="host"))
    for i in range(6):
        host = f"host-{i}"
        update = rows.updates_batch(kind="update", keys=[host], at=[i], source="x", sequence=[i + 1], through=i)
        log.append("updates.s", update)
        log.append("updates.s", rows.clock_batch(i))
    assert run(spark, log, partitioning=splitter(stream), entries=5).failure is None
    out = said(log)
    for shard in (0, 1):
        mine = [row for row in out if row["shard"] == shard]
        assert [row["count"] for row in mine] == list(range(1, 13))


def test_a_pipeline_stops_in_the_middle(spark: SparkSession, log: SqliteLog) -> None:
    running = start(
        spark, log, PipelineSpec("test", ["updates.s"], Chain, entries=2), log.path.parent / "checkpoint", "c"
    )
    while len(said(log)) < 10:
        assert not running.ended, running.failure
        feed(log, 1)
        time.sleep(0.01)
    running.stop()
    assert running.ended
    run(spark, log)
    assert said(log) == expected(log.read("updates.s"))


def test_a_killed_driver(spark: SparkSession, log: SqliteLog, tmp_path: Path) -> None:
    here = Path(__file__).parent
    command = [sys.executable, here / "hosting_child.py", f"sqlite:///{log.path}", tmp_path / "checkpoint"]
    path = os.pathsep.join(filter(None, [str(here), os.environ.get("PYTHONPATH")]))
    environment = os.environ | {"PYTHONPATH": path}
    child = subprocess.Popen(command, start_new_session=True, env=environment, stderr=subprocess.DEVNULL)
    try:
        while len(said(log)) < 20:
            assert child.poll() is None
            feed(log, 1)
            time.sleep(0.02)
    finally:
        os.killpg(child.pid, signal.SIGKILL)
        child.wait()
    feed(log, 5)
    failure = run(spark, log).failure
    assert failure is None, str(failure)
    assert said(log) == expected(log.read("updates.s"))


def test_no_process_looks_for_data_sources_of_other_packages(
    spark: SparkSession, caplog: pytest.LogCaptureFixture
) -> None:
    """On this Spark; where its inside is another, it looks, and only the log says so."""
    caplog.set_level("INFO", logger="tolerant.spark.pipeline")
    _look_for_no_others(spark)
    assert caplog.text == ""
    manager = getattr(spark._jvm.org.apache.spark.sql.execution.datasources, "DataSourceManager$")
    assert getattr(manager, "MODULE$").dataSourceBuilders().isDefined()
