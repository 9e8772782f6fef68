"""The runner with pipelines that only pretend, to watch its own doings: clock, statements, health, retention."""

import json
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from tolerant.kernels.versions import epoch_of
from tolerant.spark import heartbeats, pipeline, runner, session
from tolerant.spark.checkpoints import checkpoint_id
from tolerant.spark.failures import reason
from tolerant.spark.occupancy import PipelineRuns
from tolerant.spark.retention import retention, tidy
from tolerant.spark.runner import PipelineFailed, Runner
from tolerant.sql import Catalogue, encode, parse
from tolerant.streams import SECOND
from tolerant.transport import Fenced, LogError, MemoryLog, rows
from tolerant.transport.common import wall_clock
from tolerant.transport.heartbeats import alive, latest_heartbeat, outage
from tolerant.transport.topics import EPOCHS, POSITIONS

STREAM = "CREATE STREAM traffic (host STRING, rate DOUBLE) KEY (host) WITH (retention = '1 h')"
OTHER = "CREATE STREAM other (host STRING, rate DOUBLE) KEY (host)"


@dataclass
class Query:
    isActive: bool = True
    error: Exception | None = None

    def exception(self) -> Exception | None:
        return self.error


@dataclass
class Sink:
    failure: Exception | None = None
    batch: int = 0
    is_written: bool = False


@dataclass
class FakePipeline:
    """The handle of a pipeline whose Spark query and sink do what a test says."""

    log: MemoryLog
    spec: Any
    folder: Path
    checkpoint: str
    query: Query = field(default_factory=Query)
    sink: Sink = field(default_factory=Sink)
    stopped: bool = False
    done: int = 1

    position: int = 0

    is_ready, ended = pipeline.Pipeline.is_ready, pipeline.Pipeline.ended
    failure, is_written = pipeline.Pipeline.failure, pipeline.Pipeline.is_written

    @property
    def queries(self) -> tuple[pipeline.ShardQuery, ...]:
        return (pipeline.ShardQuery(self.query, self.sink),)

    def stop(self) -> None:
        self.stopped = True


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[FakePipeline]:
    """The pipelines that were started."""
    made: list[FakePipeline] = []

    def start(spark: None, log: MemoryLog, spec: Any, folder: Path, checkpoint: str, **options: Any) -> FakePipeline:
        made.append(FakePipeline(log, spec, folder, checkpoint))
        return made[-1]

    monkeypatch.setattr(pipeline, "start", start)
    monkeypatch.setattr(session, "session", lambda *arguments, **options: None)
    monkeypatch.setattr(runner, "CLOCK", 0.005)
    monkeypatch.setattr(runner, "_TIDY", 0.01)
    return made


@pytest.fixture
def log() -> MemoryLog:
    return MemoryLog()


def say(log: MemoryLog, text: str, request: str = "r") -> None:
    statement = parse(text)
    row = {"kind": statement.kind, "key": statement.about, "request": request, "text": text, "body": encode(statement)}
    log.append("queries", pa.RecordBatch.from_pylist([row], rows.STATEMENTS))


def factory(stream: Any, epoch: int, checkpoint: str) -> Any:
    return (stream.name, epoch, checkpoint)


class Background:
    """A runner on a thread of its own; what it raised is in `error`."""

    def __init__(self, log: MemoryLog, folder: Path, **options: Any) -> None:
        self.runner = Runner(log, folder, factory=factory, **options)
        self.error: BaseException | None = None
        self.thread = threading.Thread(target=self._work)
        self.thread.start()

    def _work(self) -> None:
        try:
            with self.runner:
                self.runner.run()
        except BaseException as error:
            self.error = error

    def end(self) -> None:
        self.runner.stop()
        self.thread.join(20)
        assert not self.thread.is_alive()


@pytest.fixture
def begin(log: MemoryLog, tmp_path: Path, started: list[FakePipeline]) -> Iterator[Callable[..., Background]]:
    running: list[Background] = []

    def start(folder: str = "checkpoints", **options: Any) -> Background:
        running.append(Background(log, tmp_path / folder, **options))
        return running[-1]

    yield start
    for one in running:
        one.end()


def wait(condition: Callable[[], Any]) -> None:
    for _ in range(4_000):
        if condition():
            return
        time.sleep(0.005)
    raise TimeoutError


def clocks(log: MemoryLog, stream: str = "traffic") -> list[dict[str, Any]]:
    return [row for entry in log.read(f"updates.{stream}") for row in rows.unpack(entry.payload).to_pylist()]


def replies(log: MemoryLog) -> dict[str, tuple[bool, str]]:
    found = [row for entry in log.read("replies") for row in rows.unpack(entry.payload).to_pylist()]
    return {row["request"]: (row["accepted"], row["message"]) for row in found}


def test_a_pipeline_that_is_starting_is_alive(
    log: MemoryLog, begin: Callable[..., Background], started: list[FakePipeline], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Spark may take longer to start than a heartbeat is trusted."""

    during: list[bool] = []

    def start_slowly(*arguments: Any, **options: Any) -> None:
        first = latest_heartbeat(log, "traffic")
        wait(lambda: latest_heartbeat(log, "traffic") != first)
        during.append(alive(log, "traffic", wall_clock()))

    monkeypatch.setattr(heartbeats, "INTERVAL", 0)
    monkeypatch.setattr(session, "session", start_slowly)
    say(log, STREAM)
    begin()
    wait(lambda: started)
    assert during == [True]


def test_streams_are_started_with_their_epoch_and_checkpoint(
    log: MemoryLog, begin: Callable[..., Background], started: list[FakePipeline], tmp_path: Path
) -> None:
    say(log, STREAM)
    first = begin()
    wait(lambda: started)
    first.end()
    begin()
    wait(lambda: len(started) == 2)
    assert [pipeline.spec.factory[1] for pipeline in started] == [1, 2]
    assert len({pipeline.spec.factory[2] for pipeline in started}) == 1
    assert started[0].stopped
    second = started[1]
    assert second.log is log
    assert sorted(second.spec.topics) == ["queries", "updates.traffic"]
    assert second.folder == tmp_path / "checkpoints/traffic/spark"
    assert log.latest(EPOCHS, "pipeline/traffic").body.decode() == second.checkpoint


def test_clock_rows_carry_epoch_and_checkpoint_and_never_go_back(
    log: MemoryLog, begin: Callable[..., Background], started: list[FakePipeline], monkeypatch: pytest.MonkeyPatch
) -> None:
    say(log, STREAM)
    times = iter(range(10**18, 0, -(10**9)))
    monkeypatch.setattr(runner.time, "time_ns", lambda: next(times))
    begin()
    wait(lambda: len(clocks(log)) > 5)
    announced, *ticks = clocks(log)
    assert announced["at"] == rows.NO_TIME
    assert {(epoch_of(row["sequence"]), row["source"]) for row in clocks(log)} == {(1, started[0].checkpoint)}
    assert [row["at"] for row in ticks] == sorted(row["at"] for row in ticks)


def test_with_a_clock_in_the_log_only_the_epoch_is_announced(log: MemoryLog, begin: Callable[..., Background]) -> None:
    say(log, STREAM)
    begin(clock="log")
    wait(lambda: clocks(log))
    time.sleep(0.05)
    assert [row["at"] for row in clocks(log)] == [rows.NO_TIME]


def test_statements_while_it_runs(
    log: MemoryLog, begin: Callable[..., Background], started: list[FakePipeline]
) -> None:
    say(log, STREAM, "before")
    begin()
    wait(lambda: started)
    say(log, OTHER, "create")
    say(log, OTHER.replace("host", "machine"), "conflict")
    say(log, "CREATE TABLE w (host STRING, weight DOUBLE) KEY (host) FROM 'w.csv'", "table")
    say(log, "CREATE QUERY q AS SELECT SUM(rate) FROM other WITHIN 1", "query")
    wait(lambda: "table" in replies(log))
    assert [pipeline.spec.name for pipeline in started] == ["traffic", "other"]
    say(log, "DROP QUERY q", "drop query")
    say(log, "DROP STREAM other", "drop")
    say(log, "DROP STREAM nothing", "drop nothing")
    wait(lambda: "drop nothing" in replies(log))
    wait(lambda: started[1].stopped)
    told = replies(log)
    assert set(told) == {"create", "conflict", "table", "drop", "drop nothing"}
    assert [told[r][0] for r in ("create", "conflict", "table", "drop", "drop nothing")] == [
        True,
        False,
        True,
        True,
        False,
    ]
    assert not started[0].stopped


def test_a_pair_of_tables_has_a_pipeline_and_time_in_both_topics(
    log: MemoryLog, begin: Callable[..., Background], started: list[FakePipeline]
) -> None:
    for table in ("r", "s"):
        say(log, f"CREATE TABLE {table} (k BIGINT, a DOUBLE) KEY (k)")
    say(log, "CREATE QUERY q AS SELECT * FROM s JOIN r ON s.k = r.k KEEP 5 ROWS")
    begin()
    wait(lambda: len(log.read("changes.r")) > 3 and len(log.read("changes.s")) > 3)
    assert [pipeline.spec.name for pipeline in started] == ["r~s"]
    assert sorted(started[0].spec.topics) == ["changes.r", "changes.s", "queries", "subscriptions.r~s"]
    say(log, "CREATE QUERY p AS SELECT * FROM r WHERE a BETWEEN 1 AND 2")
    wait(lambda: len(started) == 2)
    assert started[1].spec.name == "r"
    say(log, "DROP QUERY q")
    say(log, "DROP QUERY p")
    say(log, "DROP TABLE r", "drop")
    wait(lambda: started[0].stopped and started[1].stopped)
    wait(lambda: replies(log).get("drop", (False,))[0])


def test_a_dropped_stream_that_comes_again_begins_anew(
    log: MemoryLog, begin: Callable[..., Background], started: list[FakePipeline]
) -> None:
    say(log, STREAM)
    begin()
    wait(lambda: started)
    say(log, "DROP STREAM traffic")
    wait(lambda: started[0].stopped)
    say(log, STREAM.replace("1 h", "2 h"))
    wait(lambda: len(started) == 2)
    assert started[0].checkpoint != started[1].checkpoint


def test_what_is_not_a_statement_is_passed_over(
    log: MemoryLog, begin: Callable[..., Background], started: list[FakePipeline]
) -> None:
    log.append_packed([("queries", b"junk")])
    log.append("queries", pa.record_batch({"x": [1]}))
    row = {"kind": "stream", "key": "", "request": "", "text": "", "body": "{}"}
    log.append("queries", pa.RecordBatch.from_pylist([row], rows.STATEMENTS))
    say(log, STREAM)
    running = begin()
    wait(lambda: started)
    running.end()
    assert [pipeline.spec.name for pipeline in started] == ["traffic"]
    assert running.error is None


def test_a_newer_epoch_ends_the_older_run(
    log: MemoryLog, begin: Callable[..., Background], started: list[FakePipeline]
) -> None:
    say(log, STREAM)
    first = begin("one")
    wait(lambda: started)
    second = begin("two", take_over=True)
    first.thread.join(20)
    assert isinstance(first.error, PipelineFailed)
    assert "pipeline/traffic has been taken over" in str(first.error)
    assert started[0].stopped
    assert second.error is None


def test_a_pipeline_that_a_replay_gives_its_time_is_not_taken_over_by_accident(
    log: MemoryLog, begin: Callable[..., Background], started: list[FakePipeline]
) -> None:
    say(log, STREAM)
    first = begin("one", clock="log")
    wait(lambda: started)
    second = begin("two")
    second.thread.join(20)
    assert isinstance(second.error, PipelineRuns)
    assert "on another checkpoint folder" in str(second.error)
    assert "its last heartbeat is" in str(second.error)
    assert first.error is None
    assert len(started) == 1


def test_a_sink_that_was_fenced_says_so(
    log: MemoryLog, begin: Callable[..., Background], started: list[FakePipeline]
) -> None:
    say(log, STREAM)
    running = begin()
    wait(lambda: started)
    started[0].sink.failure = Fenced("taken over")
    running.thread.join(20)
    assert str(running.error) == "taken over"


def test_a_failed_pipeline_is_told_in_a_line(
    log: MemoryLog, begin: Callable[..., Background], started: list[FakePipeline]
) -> None:
    say(log, STREAM)
    say(log, OTHER)
    running = begin()
    wait(lambda: len(started) == 2)
    started[1].sink.failure = RuntimeError(
        "An error\nTraceback (most recent call last):\n  File\nKeyError: 'x'\n\tat java"
    )
    started[1].query.isActive = False
    wait(lambda: len(started) == 3)
    started[2].sink.failure, started[2].done = started[1].sink.failure, 0
    started[2].query.isActive = False
    running.thread.join(20)
    assert str(running.error) == "stream other: the pipeline failed: KeyError: 'x'"
    assert started[0].stopped


def test_spark_that_has_gone_does_not_hang(
    log: MemoryLog, begin: Callable[..., Background], started: list[FakePipeline]
) -> None:
    class Gone:
        @property
        def isActive(self) -> bool:
            raise ConnectionRefusedError("connection refused")

    say(log, STREAM)
    running = begin()
    wait(lambda: started)
    started[0].query = Gone()  # type: ignore[assignment]
    running.thread.join(20)
    assert "Spark has gone: connection refused" in str(running.error)


def test_a_log_that_fails_ends_the_run(
    log: MemoryLog, begin: Callable[..., Background], started: list[FakePipeline], monkeypatch: pytest.MonkeyPatch
) -> None:
    say(log, STREAM)
    running = begin()
    wait(lambda: started)

    def full(*arguments: Any) -> int:
        raise LogError("the disk is full")

    monkeypatch.setattr(log, "append", full)
    running.thread.join(20)
    assert isinstance(running.error, PipelineFailed)
    assert "the disk is full" in str(running.error)


def test_a_pipeline_that_cannot_be_started(
    log: MemoryLog, begin: Callable[..., Background], started: list[FakePipeline], monkeypatch: pytest.MonkeyPatch
) -> None:
    def start(*arguments: Any, **options: Any) -> None:
        raise RuntimeError("no such master")

    monkeypatch.setattr(pipeline, "start", start)
    say(log, STREAM)
    running = begin()
    running.thread.join(20)
    assert str(running.error) == "stream traffic: the pipeline could not be started: no such master"


def test_heartbeats_tell_how_far_each_pipeline_has_processed(
    log: MemoryLog,
    begin: Callable[..., Background],
    started: list[FakePipeline],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(heartbeats, "INTERVAL", 10_000)
    say(log, STREAM)
    running = begin()
    wait(lambda: len(clocks(log)) > 3)
    assert latest_heartbeat(log, "traffic").processed == 0
    started[0].position = log.end()
    wait(lambda: latest_heartbeat(log, "traffic").processed > 0)
    heartbeat = latest_heartbeat(log, "traffic")
    assert heartbeat.processed <= heartbeat.at
    assert not heartbeat.stopped
    running.end()
    assert latest_heartbeat(log, "traffic").stopped
    assert outage(log, "traffic", heartbeat.at).stopped


def test_it_ends_by_itself(log: MemoryLog, tmp_path: Path, started: list[FakePipeline]) -> None:
    say(log, STREAM)
    told: list[list[str]] = []
    with Runner(log, tmp_path, factory=factory) as short:
        short.run(0.02, told.append)
    assert told == [["traffic"]]
    assert started[0].stopped


def test_checkpoints_keep_their_id_until_the_stream_is_another(tmp_path: Path) -> None:
    stream, changed = parse(STREAM).stream, parse(STREAM.replace("1 h", "2 h")).stream
    first = checkpoint_id(tmp_path / "c", stream, "log")
    (tmp_path / "c" / "offsets").touch()
    assert checkpoint_id(tmp_path / "c", stream, "log") == first
    assert checkpoint_id(tmp_path / "c", changed, "log") != first
    assert not (tmp_path / "c" / "offsets").exists()


def test_a_checkpoint_of_another_log_is_not_gone_on_with(tmp_path: Path) -> None:
    stream = parse(STREAM).stream
    first = checkpoint_id(tmp_path / "checkpoints" / "c", stream, "log")
    (tmp_path / "checkpoints" / "c" / "offsets").touch()
    assert checkpoint_id(tmp_path / "checkpoints" / "c", stream, "another") != first
    assert not (tmp_path / "checkpoints" / "c" / "offsets").exists()
    for path in (tmp_path / "checkpoints", tmp_path / "checkpoints" / "c"):
        assert path.stat().st_mode & 0o777 == 0o700
    assert (tmp_path / "checkpoints" / "c" / "tolerant.json").stat().st_mode & 0o777 == 0o600


def test_a_checkpoint_of_the_hosting_before_is_emptied(tmp_path: Path) -> None:
    """It has no snapshots, and the log does not keep the records of its batches."""
    stream = parse(STREAM).stream
    first = checkpoint_id(tmp_path / "c", stream, "log")
    file = tmp_path / "c" / "tolerant.json"
    fields = json.loads(file.read_text())
    del fields["format"]
    file.write_text(json.dumps(fields))
    (tmp_path / "c" / "spark").mkdir()
    assert checkpoint_id(tmp_path / "c", stream, "log") != first
    assert [path.name for path in (tmp_path / "c").iterdir()] == ["tolerant.json"]


def test_how_long_topics_are_kept() -> None:
    statements = [STREAM, OTHER, "CREATE QUERY q AS SELECT SUM(rate) FROM traffic WITHIN 1"]
    catalogue = Catalogue(map(parse, statements))
    hour = 3600 * SECOND
    for topic in ("updates.traffic", "dead_letters.traffic", "grants.traffic", "answers.q", "current.q"):
        assert retention(topic, catalogue) == hour
    for topic in ("updates.other", "replies", "answers.gone", "positions", "updates.gone"):
        assert retention(topic, catalogue) == 24 * hour
    assert retention("updates.other", Catalogue()) == 24 * hour


def test_old_rows_go_however_many_they_are() -> None:
    moment = [1_000]
    log = MemoryLog(lambda: moment[0])
    log.append_packed([("updates.traffic", b""), ("answers.q", b"")] * 2_000)
    log.append_packed([("queries", b"")])
    log.register("c", "traffic", ["updates.traffic"])
    catalogue = Catalogue([parse(STREAM)])
    never = threading.Event()
    assert tidy(log, catalogue, 3600 * SECOND, never) == 0
    log.pass_position("c", 1_000)
    assert tidy(log, catalogue, 3600 * SECOND + 1_001, never) == 500
    assert tidy(log, catalogue, 24 * 3600 * SECOND + 1_001, never) == 2_000
    assert len(log.read("updates.traffic")) == 1_500
    assert log.latest(POSITIONS, "c") is not None
    assert log.topics() == ["positions", "queries", "updates.traffic"]


PYTHON = """An error
Traceback (most recent call last):
  File "a"
py4j.protocol.Py4JJavaError: An error occurred
Traceback (most recent call last):
  File "b"
tolerant.transport.log.Deleted: retention has deleted entries

	at org.apache.spark
"""
JAVA = """Job aborted
	at org.apache.spark
Caused by: org.apache.spark.SparkException: [X] wrapped
Caused by: java.io.IOException: No space left
	at java.base
"""


@pytest.mark.parametrize(
    ("said", "told"),
    [
        (PYTHON, "Deleted: retention has deleted entries"),
        (JAVA, "IOException: No space left"),
        ("plain\nmore", "plain"),
        (KeyError(), "KeyError"),
    ],
)
def test_reasons(said: object, told: str) -> None:
    assert reason(said) == told
