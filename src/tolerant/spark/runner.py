"""Runs the pipelines of all streams that a log knows: starts them, gives them time, sees that they are well, and stops.

Two threads: one appends clock rows and looks whether somebody else has taken over; the caller's, in `run`, follows the
statements of the log and the health of the pipelines.
"""

from __future__ import annotations

import json
import shutil
import threading
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Literal

import pyarrow as pa

from tolerant.spark.hosting import Hosted
from tolerant.sql import Catalogue, CreateStream, CreateTable, Drop, Outcome, Statement, decode, encode
from tolerant.streams import SECOND, Stream
from tolerant.transport import Fence, Fenced, PipelineLog
from tolerant.transport.log import START
from tolerant.transport.rows import NO_TIME, REPLIES, clock_batch, unpack

if TYPE_CHECKING:
    from tolerant.spark.pipeline import Pipeline

FactoryMaker = Callable[[Stream, int, str], Callable[[int], Hosted]]
"""From a stream, the pipeline's epoch and the id of its checkpoint to what makes its shards."""

CLOCK = 0.1
"""Seconds between two clock rows."""

_RETENTION = 30.0  # seconds between two looks for rows that have become too old


class PipelineFailed(Exception):
    """A pipeline cannot go on; the message says which, and why."""


@dataclass
class Running:
    """A stream's pipeline while it runs."""

    stream: Stream
    fence: Fence
    checkpoint: str
    pipeline: Pipeline
    last_clock: int = field(default=NO_TIME)

    @property
    def topic(self) -> str:
        """Where the stream's rows and clock rows stand."""
        return f"updates.{self.stream.name}"


class Runner:
    """The pipelines of a log. `folder` keeps their checkpoints; `clock` says who gives them time: this process by the
    wall clock, or whoever appends clock rows to the log (a replay in trace time).

    ```python
    with Runner(log, Path("checkpoints")) as runner:
        runner.run(seconds=60)
    ```
    """

    def __init__(
        self,
        log: PipelineLog,
        folder: Path,
        *,
        master: str = "local[2]",
        trigger: str = "0 seconds",
        clock: Literal["wall", "log"] = "wall",
        factory: FactoryMaker | None = None,
    ) -> None:
        self._log, self._folder = log, folder
        self._master, self._trigger, self._clock = master, trigger, clock
        self._factory = factory
        self._catalogue = Catalogue()
        self._position = START
        self._begun = log.end()
        self._running: dict[str, Running] = {}
        self._fenced: list[str] = []
        self._stopping = threading.Event()
        self._ticking = threading.Thread(target=self._tick, name="clock", daemon=True)
        self._trimmed = time.monotonic()

    # -- a life ------------------------------------------------------------------------------------------------

    def run(self, seconds: float | None = None, ready: Callable[[list[str]], None] | None = None) -> None:
        """Run until `stop` is called or the time is over. `ready` is told the streams once their pipelines run.

        Raises:
            PipelineFailed: a pipeline cannot go on, or another process has taken it over.
        """
        self._follow()
        self._ticking.start()
        if ready:
            ready(sorted(self._running))
        end = None if seconds is None else time.monotonic() + seconds
        while not self._stopping.wait(CLOCK):
            self._follow()
            self._look()
            self._trim()
            if end is not None and time.monotonic() >= end:
                return

    def stop(self) -> None:
        """Let `run` return; any thread or signal handler may call it."""
        self._stopping.set()

    def close(self) -> None:
        """Stop the pipelines; each finishes the batch under way."""
        self._stopping.set()
        if self._ticking.is_alive():
            self._ticking.join()
        for running in self._running.values():
            running.pipeline.stop()
        self._running = {}

    def __enter__(self) -> Runner:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # -- time --------------------------------------------------------------------------------------------------

    def _tick(self) -> None:
        while not self._stopping.wait(CLOCK):
            for running in list(self._running.values()):
                if self._newest_epoch(running.fence) > running.fence.epoch:
                    self._fenced.append(running.stream.name)
                    return
                if self._clock == "wall":
                    self._append_clock(running)

    def _append_clock(self, running: Running) -> None:
        running.last_clock = max(time.time_ns() // 1000, running.last_clock)  # the wall clock may step back
        self._log.append(running.topic, clock_batch(running.last_clock, running.fence.epoch, running.checkpoint))

    def _newest_epoch(self, fence: Fence) -> int:
        record = self._log.latest("epochs", fence.name)
        return record.version if record else 0

    # -- statements ----------------------------------------------------------------------------------------------

    def _follow(self) -> None:
        """Take the statements that have come since, and start and stop pipelines as they say."""
        replies = []
        for entry in self._log.read("queries", self._position):
            self._position = entry.position
            for row in _statement_rows(entry.payload):
                try:
                    statement = decode(row["body"])
                except ValueError:
                    continue  # a pipeline says so
                outcome = self._catalogue.apply(statement)
                if entry.position > self._begun and _is_ours(statement):
                    replies.append(_reply(row["request"], statement, outcome))
        self._start_and_stop()
        if replies:
            self._log.append("replies", pa.RecordBatch.from_pylist(replies, REPLIES))

    def _start_and_stop(self) -> None:
        for name in [
            name for name, running in self._running.items() if self._catalogue.streams.get(name) != running.stream
        ]:
            dropped = self._running.pop(name)
            dropped.pipeline.stop()
            self._log.forget(dropped.checkpoint)
            shutil.rmtree(self._folder / name, ignore_errors=True)
        for name, stream in self._catalogue.streams.items():
            if name not in self._running:
                self._running[name] = self._start(stream)

    def _start(self, stream: Stream) -> Running:
        from tolerant.spark.kinds import shard_factory
        from tolerant.spark.pipeline import start
        from tolerant.spark.session import session

        folder = self._folder / stream.name
        checkpoint = checkpoint_id(folder, stream)
        name = f"pipeline/{stream.name}"
        fence = Fence(name, self._log.next_epoch(name, checkpoint))
        topic = f"updates.{stream.name}"
        # Whatever the state says, grants are numbered under the new epoch from here on.
        self._log.append(topic, clock_batch(NO_TIME, fence.epoch, checkpoint))
        make = self._factory or shard_factory
        pipeline = start(
            session(self._master),
            self._log,
            ["queries", topic],
            make(stream, fence.epoch, checkpoint),
            folder / "spark",
            checkpoint,
            name=stream.name,
            stream=stream,
            fence=fence,
            trigger=self._trigger,
        )
        return Running(stream, fence, checkpoint, pipeline)

    # -- health --------------------------------------------------------------------------------------------------

    def _look(self) -> None:
        for name in self._fenced:
            raise PipelineFailed(f"stream {name}: another process runs it now, under a newer epoch; this one stops")
        for name, running in self._running.items():
            query, failure = running.pipeline.query, running.pipeline.sink.failure
            if isinstance(failure, Fenced):
                raise PipelineFailed(f"stream {name}: {failure}")
            if not query.isActive:
                error = failure or query.exception() or "it ended without saying why"
                raise PipelineFailed(f"stream {name}: the pipeline failed: {_first_line(error)}")

    def _trim(self) -> None:
        """Delete rows that everybody has passed and that are older than their stream keeps them."""
        if time.monotonic() - self._trimmed < _RETENTION:
            return
        self._trimmed = time.monotonic()
        now = time.time_ns() // 1000
        for name, running in self._running.items():
            queries = [f"answers.{query.name}" for query in self._catalogue.queries_over(name)]
            for topic in (running.topic, f"dead.{name}", *queries):
                self._log.trim(topic, now - running.stream.options.retention)
        if self._running:
            self._log.trim("replies", now - max(r.stream.options.retention for r in self._running.values()))


def checkpoint_id(folder: Path, stream: Stream) -> str:
    """The id of a stream's checkpoint folder: it tells two pipelines of one stream apart.

    A folder that is another stream's, one of the same name that was dropped, is emptied first.
    """
    file, definition = folder / "tolerant.json", encode(CreateStream(stream))
    if file.exists():
        held = json.loads(file.read_text())
        if held["stream"] == definition:
            return str(held["checkpoint"])
        shutil.rmtree(folder)
    folder.mkdir(parents=True, exist_ok=True)
    checkpoint = str(uuid.uuid4())
    scratch = folder / f"tolerant.{checkpoint}"
    scratch.write_text(json.dumps({"checkpoint": checkpoint, "stream": definition}))
    scratch.rename(file)
    return checkpoint


def _statement_rows(payload: bytes) -> list[dict[str, str]]:
    try:
        rows: list[dict[str, str]] = unpack(payload).to_pylist()
    except ValueError:
        return []
    return [row for row in rows if row.keys() >= {"body", "request"}]


def _is_ours(statement: Statement) -> bool:
    """Whether the runner, not a pipeline, says what became of it."""
    if isinstance(statement, Drop):
        return statement.what != "query"
    return isinstance(statement, CreateStream | CreateTable)


def _reply(request: str, statement: Statement, outcome: Outcome) -> dict[str, object]:
    return {
        "request": request,
        "key": statement.about,
        "accepted": outcome.accepted,
        "message": outcome.message,
        "at": int(time.time() * SECOND),
    }


def _first_line(error: object) -> str:
    text = str(error).strip() or type(error).__name__
    return text.splitlines()[0][:500]
