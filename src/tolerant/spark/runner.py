"""Runs the pipelines of all streams and tables that a log knows: starts them, gives them time, sees that they are well,
and stops.

Three threads: one appends clock rows and looks whether somebody else has taken over; one deletes what is too old; the
caller's, in `run`, follows the statements of the log and the health of the pipelines.
"""

from __future__ import annotations

import contextlib
import shutil
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Literal

import pyarrow as pa

from tolerant.spark.careful import Careful, Suspect
from tolerant.spark.checkpoints import checkpoint_id, checkpoint_in
from tolerant.spark.failures import reason
from tolerant.spark.heartbeats import HeartbeatWriter
from tolerant.spark.hosting import Hosted
from tolerant.spark.java import JavaNotFound
from tolerant.spark.occupancy import PATIENCE, FolderLock, PipelineRuns, last_clock, live_rival
from tolerant.spark.recovery import Recovery, put_into_quarantine, suspected
from tolerant.spark.retention import tidy
from tolerant.sql import (
    Catalogue,
    CreateStream,
    CreateTable,
    Drop,
    Outcome,
    Pair,
    Statement,
    decode,
    home_of,
)
from tolerant.sql.homes import Views, is_of_views, pair_of, tables_of
from tolerant.streams import SECOND, Stream
from tolerant.transport import Fence, Fenced, LogError, PipelineLog, changes, plans, pulls, subscriptions
from tolerant.transport.common import check_fence, wall_clock
from tolerant.transport.log import EPOCHS, QUERIES, START
from tolerant.transport.quarantine import quarantined
from tolerant.transport.rows import NO_TIME, REPLIES, clock_batch, pack
from tolerant.transport.statements import read_statement_rows
from tolerant.views.capacity import Promise

if TYPE_CHECKING:
    from tolerant.spark.pipeline import Pipeline
    from tolerant.spark.views.pipeline import ViewPipeline

Relation = Stream | CreateTable | Pair | Views
"""What a pipeline runs for."""

FactoryMaker = Callable[[Relation, int, str], Callable[[int], Hosted]]
"""From a stream, table or pair, the pipeline's epoch and the id of its checkpoint to what makes its shards."""

CLOCK = 0.1
"""Seconds between two clock rows."""

_TIDY = 30.0  # seconds between two looks for rows that have become too old


class PipelineFailed(Exception):
    """A pipeline cannot go on; the message says which, and why."""


@dataclass
class Running:
    """A stream's, table's, pair's or views' pipeline while it runs."""

    relation: Relation
    fence: Fence
    checkpoint: str
    pipeline: Pipeline | ViewPipeline
    careful: Careful | None = None
    recovery: Recovery = field(default_factory=Recovery)

    def clocks(self, at: int) -> dict[str, pa.RecordBatch]:
        """A clock row of this pipeline for each topic that its rows stand in."""
        return clocks_of(self.relation, at, self.fence.epoch, self.checkpoint)


def clocks_of(relation: Relation, at: int, epoch: int, checkpoint: str) -> dict[str, pa.RecordBatch]:
    """The topics of a relation's rows, and for each a clock row as the others there are."""
    if isinstance(relation, Stream):
        return {f"updates.{relation.name}": clock_batch(at, epoch, checkpoint)}
    tables = relation.tables if isinstance(relation, Pair | Views) else (relation,)
    return {changes.topic_of(table.name): changes.clock_row(table.columns, at, epoch, checkpoint) for table in tables}


class Runner:
    """The pipelines of a log. `folder` keeps their checkpoints; `clock` says who gives them time: this process by the
    wall clock, or whoever appends clock rows to the log (a replay in trace time). `take_over`: take pipelines over from
    another process that runs them. `tell` hears in words how the start goes on, and what has failed and is recovered.

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
        take_over: bool = False,
        tell: Callable[[str], None] = lambda text: None,
    ) -> None:
        self._log, self._folder = log, folder
        self._master, self._trigger, self._clock = master, trigger, clock
        self._factory, self._take_over, self._say = factory, take_over, tell
        self._lock = FolderLock(folder)
        self._own: set[str] = set()  # the checkpoints that this process has used
        self._catalogue = Catalogue()
        self._position = START
        self._begun = log.end()
        self._running: dict[str, Running] = {}
        self._promises: dict[str, Promise] = {}  # of all views, which share one Spark
        self._last_clock = NO_TIME
        self._heartbeats, self._heartbeat_lock = HeartbeatWriter(log, clock == "log"), threading.Lock()
        self._failure: Exception | None = None  # of the other threads
        self._stopping = threading.Event()
        self._threads = [
            threading.Thread(target=self._every, args=(pause, work), name=work.__name__, daemon=True)
            for pause, work in ((CLOCK, self._tick), (_TIDY, self._tidy))
        ]

    # -- a life ------------------------------------------------------------------------------------------------

    def run(self, seconds: float | None = None, ready: Callable[[list[str]], None] | None = None) -> None:
        """Run until `stop` is called or the time is over. `ready` is told the streams once their pipelines have done
        their first batch.

        Raises:
            PipelineFailed: a pipeline cannot go on, or another process has taken it over.
            PipelineRuns: another process runs a pipeline, and it is not to be taken over.
        """
        self._follow()
        for thread in self._threads:
            thread.start()
        self._say("Waiting for the first batch")
        end = None if seconds is None else time.monotonic() + seconds
        while not self._stopping.wait(CLOCK):
            self._look()
            self._follow()
            if ready and all(map(self._is_ready, self._running.values())):
                ready(sorted(self._running))
                ready = None
            if end is not None and time.monotonic() >= end:
                return

    def stop(self) -> None:
        """Let `run` return; any thread or signal handler may call it."""
        self._stopping.set()

    def close(self) -> None:
        """Stop the pipelines; each finishes the batch under way."""
        self._stopping.set()
        for thread in self._threads:
            if thread.is_alive():
                thread.join()
        running, self._running = self._running, {}
        for one in running.values():
            # The others must be stopped even if Spark has gone, or this pipeline's failure comes up again.
            with contextlib.suppress(Exception):
                one.pipeline.stop()
        with contextlib.suppress(LogError):
            self._heartbeats.stop(wall_clock())
        self._lock.close()

    def __enter__(self) -> Runner:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # -- time --------------------------------------------------------------------------------------------------

    def _every(self, pause: float, work: Callable[[], None]) -> None:
        """Do the work again and again; if it fails, `run` will say so."""
        try:
            while not self._stopping.wait(pause):
                work()
        except Exception as error:
            self._failure = error

    def _tick(self) -> None:
        running = list(self._running.values())
        for one in running:
            check_fence(one.fence, self._newest_epoch(one.fence))
        with self._heartbeat_lock:
            if self._clock == "wall":
                self._append_clocks(running)
            self._heartbeats.beat(wall_clock())

    def _tidy(self) -> None:
        tidy(self._log, self._catalogue.copy(), wall_clock(), self._stopping)

    def _append_clocks(self, running: list[Running]) -> None:
        """One row for each topic, however many pipelines read it: that of a table counts whoever wrote it."""
        self._last_clock = max(wall_clock(), self._last_clock)  # the wall clock may step back
        rows = {topic: row for one in running for topic, row in one.clocks(self._last_clock).items()}
        if rows:
            position = self._log.append_packed([(topic, pack(row)) for topic, row in rows.items()])
            self._heartbeats.clock_appended(position, self._last_clock)

    def _newest_epoch(self, fence: Fence) -> int:
        record = self._log.latest(EPOCHS, fence.name)
        return record.version if record else 0

    # -- statements ----------------------------------------------------------------------------------------------

    def _follow(self) -> None:
        """Take the statements that have come since, and start and stop pipelines as they say."""
        replies = []
        for entry in self._log.read(QUERIES, self._position):
            self._position = entry.position
            for request, body in _statement_rows(entry.payload):
                try:
                    statement = decode(body)
                except ValueError:
                    continue  # a pipeline says so
                outcome = self._catalogue.apply(statement)
                if entry.position > self._begun and _is_ours(statement):
                    replies.append(_reply(request, statement, outcome))
        self._start_and_stop()
        if replies:
            self._log.append("replies", pa.RecordBatch.from_pylist(replies, REPLIES))

    def _start_and_stop(self) -> None:
        wanted = self._relations()
        for name in [name for name, running in self._running.items() if wanted.get(name) != running.relation]:
            dropped = self._running.pop(name)
            dropped.pipeline.stop()
            with self._heartbeat_lock:
                self._heartbeats.end(name)
            self._log.forget(dropped.checkpoint)
            shutil.rmtree(self._folder / name, ignore_errors=True)
        for name, relation in wanted.items():
            if name not in self._running and not self._stopping.is_set():
                self._running[name] = self._start(relation)

    def _relations(self) -> dict[str, Relation]:
        """What needs a pipeline: every stream, and the tables, pairs and views that queries have been asked about."""
        asked = {home_of(query.select) for query in self._catalogue.queries.values()} | self._running.keys()
        found: dict[str, Relation] = {}
        for home in sorted(asked):
            tables = [self._catalogue.tables[name] for name in tables_of(home) if name in self._catalogue.tables]
            if len(tables) < len(tables_of(home)):
                continue
            if is_of_views(home):
                found[home] = Views(tuple(tables))
            elif len(tables) <= 2:
                found[home] = self._pair(home, tables) if len(tables) == 2 else tables[0]
        return {**self._catalogue.streams, **found}

    def _pair(self, home: str, tables: list[CreateTable]) -> Pair:
        selects = (query.select for query in self._catalogue.queries.values())
        return pair_of(home, tables, next((select for select in selects if home_of(select) == home), None))

    def _start(self, relation: Relation) -> Running:
        folder = self._folder / relation.name
        self._check_free(relation, folder)
        checkpoint = checkpoint_id(folder, relation, self._log.id)
        self._own.add(checkpoint)
        name = f"pipeline/{relation.name}"
        fence = Fence(name, self._log.next_epoch(name, checkpoint))
        with self._heartbeat_lock:
            self._heartbeats.start(relation.name, fence.epoch, checkpoint, wall_clock())
        # Whatever the state says, grants are numbered under the new epoch from here on.
        announced = clocks_of(relation, NO_TIME, fence.epoch, checkpoint)
        for topic, row in announced.items():
            self._log.append(topic, row)
        if not self._lock.take(PATIENCE):  # with the new epoch the other process ends by itself
            raise PipelineFailed(f"process {self._lock.owner()} still runs on {self._folder}: end it")
        return Running(relation, fence, checkpoint, self._launch(relation, fence, checkpoint, None))

    def _check_free(self, relation: Relation, folder: Path) -> None:
        """Nothing, if no other process runs the pipeline, or if it is to be taken over.

        Raises:
            PipelineRuns: one does.
        """
        topics = list(clocks_of(relation, NO_TIME, 0, ""))
        if not self._lock.take() and (process := self._lock.owner()) is not None:
            clock = last_clock(self._log, relation.name, topics)
            other = f"process {process} runs it on the same checkpoint folder, {self._folder}"
        else:
            clock = live_rival(self._log, relation.name, topics, {*self._own, checkpoint_in(folder)})
            if clock is None:
                return
            other = f"another process runs it, on another checkpoint folder (checkpoint {clock.checkpoint})"
        age = f"its last clock row is {clock.age / SECOND:.1f} s old" if clock else "it has written no clock row yet"
        if not self._take_over:
            raise PipelineRuns(f"{_what(relation)}: {other}; {age}. End that process, or take it over with --take-over")
        self._say(f"Taking over {_what(relation)}: {other}; {age}")

    def _launch(
        self, relation: Relation, fence: Fence, checkpoint: str, careful: Careful | None
    ) -> Pipeline | ViewPipeline:
        """Start the query of a pipeline on its checkpoint."""
        from tolerant.spark.kinds import shard_factory
        from tolerant.spark.pipeline import absolute, start
        from tolerant.spark.session import session
        from tolerant.spark.spreading import PairSplit

        first = "" if self._running else ", and Spark for it, which takes some seconds"
        self._say(f"Starting {_what(relation)}{first}")
        if isinstance(relation, Views):
            return self._start_views(relation, fence, checkpoint, careful)
        topics = [QUERIES, *clocks_of(relation, NO_TIME, fence.epoch, checkpoint)]
        if not isinstance(relation, Stream):
            topics.append(subscriptions.topic_of(relation.name))
        elif relation.polled:
            topics.append(pulls.topic_of(relation.name))
        elif relation.networked:
            topics.append(plans.reports_topic(relation.name))
        make = self._factory or partial(shard_factory, log=absolute(self._log))
        try:
            return start(
                session(
                    self._master,
                    mutterings=self._folder.absolute() / "workers.log",
                    inherited=self._lock.fileno(),
                ),
                self._log,
                topics,
                make(relation, fence.epoch, checkpoint),
                self._folder / relation.name / "spark",
                checkpoint,
                name=relation.name,
                stream=relation if isinstance(relation, Stream) else None,
                split=PairSplit(relation) if isinstance(relation, Pair) and relation.shards > 1 else None,
                fence=fence,
                trigger=self._trigger,
                careful=careful,
            )
        except (JavaNotFound, LogError):
            raise  # they say themselves what to do
        except Exception as error:
            raise PipelineFailed(f"{_what(relation)}: the pipeline could not be started: {reason(error)}") from error

    def _start_views(self, views: Views, fence: Fence, checkpoint: str, careful: Careful | None) -> ViewPipeline:
        from tolerant.spark.session import session
        from tolerant.spark.views.engine import SparkEngine
        from tolerant.spark.views.pipeline import ViewPipeline

        log = self._folder.absolute() / "workers.log"
        spark = session(self._master, mutterings=log, inherited=self._lock.fileno())
        folder = self._folder / views.name
        pipeline = ViewPipeline(
            lambda: SparkEngine(spark), self._log, views, folder, checkpoint, fence, careful, promises=self._promises
        )
        pipeline.start()
        return pipeline

    @staticmethod
    def _is_ready(running: Running) -> bool:
        """Whether a pipeline has done its first batch, and views can be asked for in the time that they promise."""
        practised = not isinstance(running.relation, Views) or running.pipeline.ready.is_set()  # type: ignore[union-attr]
        return bool(running.pipeline.done) and practised

    # -- health --------------------------------------------------------------------------------------------------

    def _look(self) -> None:
        if self._failure is not None:
            raise PipelineFailed(str(self._failure)) from self._failure
        for running in self._running.values():
            what = _what(running.relation)
            ended, error = self._health(running, what)
            if isinstance(error, Fenced):
                raise PipelineFailed(str(error)) from error
            if ended:
                self._recover(running, what, error or RuntimeError("nobody knows why"))

    def _recover(self, running: Running, what: str, error: Exception) -> None:
        """Run a batch that failed again carefully, or let the pipeline skip an entry, or give up."""
        relation, now = running.relation, time.time_ns() // 1000
        careful = Careful(str((self._folder / relation.name / "applying").absolute()), self._log.end())
        suspect = suspected(error, careful.suspect() if running.careful else None)
        skipped = quarantined(self._log, relation.name)
        decision = running.recovery.decide(error, suspect, bool(running.pipeline.done), skipped, now)
        if decision.what == "stop":
            raise PipelineFailed(f"{what}: the pipeline failed: {decision.reason}") from error
        if decision.what == "quarantine":
            if not isinstance(relation, Views) and self._is_written(running):
                raise PipelineFailed(f"{what}: {decision.reason}, though the batch has been applied before") from error
            if put_into_quarantine(self._log, relation.name, decision, running.fence, now) is None:
                raise PipelineFailed(f"{what}: {decision.reason}, and the log no longer has the entry") from error
            self._say(f"{what}: QUARANTINED {_place(suspect)}: {decision.reason}. It is skipped from now on")
        else:
            self._say(f"{what}: a batch failed ({decision.reason}); it is run again, one entry at a time")
        careful.clear()
        with contextlib.suppress(Exception):  # what has failed may fail to stop
            running.pipeline.stop()
        running.careful = careful if decision.what == "retry" else None
        running.pipeline = self._launch(relation, running.fence, running.checkpoint, running.careful)

    def _is_written(self, running: Running) -> bool:
        """Whether the outputs of the batch that failed stand in the log: then its entries must apply as they did."""
        batch = running.pipeline.sink.batch  # type: ignore[union-attr]
        return self._log.last_batch(running.checkpoint) >= batch

    def _health(self, running: Running, what: str) -> tuple[bool, Exception | None]:
        """Whether a pipeline has ended, and what went wrong."""
        pipeline = running.pipeline
        if isinstance(running.relation, Views):
            return pipeline.ended, pipeline.failure  # type: ignore[union-attr]
        failure = pipeline.sink.failure  # type: ignore[union-attr]
        if isinstance(failure, Fenced):
            return True, failure
        try:
            ended = not pipeline.query.isActive  # type: ignore[union-attr]
            return ended, failure or (pipeline.query.exception() if ended else None)  # type: ignore[union-attr]
        except Exception as gone:
            raise PipelineFailed(f"{what}: Spark has gone: {reason(gone)}") from gone


def _place(suspect: Suspect | None) -> str:
    return f"entry {suspect.position} of {suspect.topic}" if suspect else "an entry"


def _what(relation: Relation) -> str:
    if isinstance(relation, Views):
        return f"views {relation.name}"
    kind = "stream" if isinstance(relation, Stream) else "tables" if isinstance(relation, Pair) else "table"
    return f"{kind} {relation.name}"


def _statement_rows(payload: bytes) -> list[tuple[str, str]]:
    try:
        return read_statement_rows(payload)[0]
    except ValueError:
        return []


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
