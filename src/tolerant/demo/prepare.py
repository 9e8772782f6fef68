"""Prepares what makes starts quick, once: `python -m tolerant.demo.prepare`, run by `tools/venv.sh`.

Hot loops of streams with tolerances are compiled by a short demo in one process, source and shard, so that every loop
meets the arrays that it will meet; other kinds of query compile theirs when they are first used. Then a pipeline runs
on Spark until its first answer, and the classes that Java has loaded until then are kept in an archive
(`tolerant.spark.class_archive`).
"""

from __future__ import annotations

import os
import sys
import threading
from pathlib import Path
from tempfile import TemporaryDirectory

from tolerant.client import StatementClient, load_catalogue
from tolerant.demo.sources import time_of
from tolerant.demo.traffic import STREAM, Shape, generate, statements
from tolerant.edge import Source
from tolerant.kinds.bounded.shard import BoundedShard
from tolerant.spark import Runner
from tolerant.streams import Stream
from tolerant.traces import Trace
from tolerant.transport import Log, MemoryLog, PipelineLog, open_log
from tolerant.transport.log import START
from tolerant.transport.rows import clock_batch
from tolerant.transport.topics import QUERIES, updates_topic


def warm(shape: Shape | None = None) -> None:
    """Compile what sources and shards of a stream with tolerances run, on a small trace."""
    shape = shape or Shape(ticks=60, hosts=2)
    trace, log = generate(shape), MemoryLog()
    create, queries = statements(shape)
    _say(log, create)
    _play(log, load_catalogue(log).streams[STREAM], trace, queries)


def _play(log: Log, stream: Stream, trace: Trace, queries: str) -> None:
    shard, position, now = BoundedShard(stream, 0, 1, "warm"), START, time_of(0)
    with Source(STREAM, log, name="warm", clock=lambda: now) as source:
        handles = source.register(trace.items)
        for tick in range(trace.ticks):
            now = time_of(tick)
            source.set_many(handles, trace.values[tick])
            source.advance(now)
            log.append(updates_topic(STREAM), clock_batch(now))
            if tick == 1:
                _say(log, queries)
            entries = log.read([updates_topic(STREAM), QUERIES], position)
            position = entries[-1].position
            log.append_packed([(output.topic, output.payload) for output in shard.apply(entries)])
    BoundedShard(stream, 0, 1, "warm").restore(shard.snapshot())


def record_classes() -> Path | None:
    """The archive of Spark's classes, made by a pipeline that runs until its first answers; None: there was one.

    Raises:
        JavaNotFound: there is no Java.
        PipelineFailed: Spark does not run.
        OSError, SubprocessError: this Java keeps no such archive, or there is no place for it.
    """
    from tolerant.spark.class_archive import archive, remove_outdated
    from tolerant.spark.java import java_home
    from tolerant.spark.session import end_java, session

    home = java_home()
    file = archive(home)
    if file.exists():
        return None
    file.parent.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(prefix="tolerant-") as folder:
        recorded = file.with_suffix(f".{os.getpid()}")
        try:
            session(worker_log=Path(folder) / "workers.log", recorded=recorded)
            try:
                _answer_once(Path(folder))
            finally:
                end_java()
            os.replace(recorded, file)
            remove_outdated(home)
        finally:
            recorded.unlink(missing_ok=True)
    return file


def ready_log(folder: Path) -> PipelineLog:
    """A log in `folder` from which a pipeline can answer at once: statements, rows of a source, a clock row."""
    shape = Shape(ticks=30, hosts=2)
    trace, now = generate(shape), time_of(0)
    create, queries = statements(shape)
    log = open_log(f"sqlite:///{folder / 'log.db'}", create=True)
    _say(log, create)
    with Source(STREAM, log, name="prepare", clock=lambda: now) as source:
        handles = source.register(trace.items)
        for tick in range(trace.ticks):
            now = time_of(tick)
            source.set_many(handles, trace.values[tick])
            if tick == 1:
                _say(log, queries)
    for _ in range(2):  # the first clock row of anybody waits for one that bears it out
        log.append(updates_topic(STREAM), clock_batch(now))
    return log


def _answer_once(folder: Path) -> None:
    """Run a pipeline until it has answered."""
    log = ready_log(folder)

    def ready(_: list[str]) -> None:
        log.append(updates_topic(STREAM), clock_batch(time_of(40)))
        threading.Timer(1.0, runner.stop).start()  # a second batch goes another way than the first

    with Runner(log, folder / "checkpoint", clock="log") as runner:
        runner.run(seconds=300, ready=ready)
    log.close()


def _say(log: Log, text: str) -> None:
    StatementClient(log).register(text)


def main() -> None:
    """Compile, and record; without an archive everything works, only later."""
    warm()
    try:
        record_classes()
    except Exception as error:
        print(f"Spark will start from its jars, which takes longer: {error}", file=sys.stderr)


if __name__ == "__main__":
    main()
