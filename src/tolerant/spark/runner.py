"""Runs the pipelines of all streams and tables of a log: starts them, appends clock rows, recovers what fails, stops.

Three threads: one appends clock rows and checks that no other process has taken over; one deletes what is too old; the
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

from tolerant.pipeline.entry_by_entry import Careful, Suspect
from tolerant.pipeline.hosting import Hosted
from tolerant.pipeline.inputs import (
    QueryRelation,
    Relation,
    clocks_of,
    input_topics,
    partitioning_of,
    served_relations,
)
from tolerant.spark.checkpoints import checkpoint_id, checkpoint_in
from tolerant.spark.failures import reason
from tolerant.spark.heartbeats import HeartbeatWriter
from tolerant.spark.java import JavaNotFound
from tolerant.spark.occupancy import PATIENCE, FolderLock, PipelineRuns, live_owner
from tolerant.spark.pipeline_handle import PipelineHandle
from tolerant.spark.recovery import Recovery, put_into_quarantine, suspected
from tolerant.spark.retention import tidy
from tolerant.sql import (
    CreateStream,
    CreateTable,
    Drop,
    JoinInput,
    Statement,
)
from tolerant.sql.catalogue_reader import AppliedStatement, CatalogueReader
from tolerant.sql.pipeline_ids import PipelineId
from tolerant.sql.pipeline_inputs import Views
from tolerant.streams import SECOND, Stream
from tolerant.transport import Fence, Fenced, LogError, PipelineLog
from tolerant.transport.common import check_fence, wall_clock
from tolerant.transport.heartbeats import latest_heartbeat
from tolerant.transport.quarantine import quarantined
from tolerant.transport.rows import NO_TIME, REPLIES, pack
from tolerant.transport.topics import (
    EPOCHS,
    REPLIES_TOPIC,
)
from tolerant.views.capacity import Promise

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tolerant.spark.pipeline import Pipeline, PipelineSpec
    from tolerant.spark.views.pipeline import ViewPipeline

FactoryMaker = Callable[[Relation, int, str], Callable[[int], Hosted]]
"""From a definition, the pipeline's epoch and the id of its checkpoint to the factory of its shards."""

CLOCK = 0.1
"""Seconds between two clock rows."""

_TIDY = 30.0  # seconds between two deletions of rows that have become too old


class PipelineFailed(Exception):
    """Raised when a pipeline cannot continue; the message says which, and why."""


@dataclass
class Running:
    """A pipeline while it runs, with what is needed to start it again."""

    relation: Relation
    fence: Fence
    checkpoint: str
    pipeline: PipelineHandle
    careful: Careful | None = None
    recovery: Recovery = field(default_factory=Recovery)

    def clocks(self, at: int) -> dict[str, pa.RecordBatch]:
        """A clock row of this pipeline for each topic that its rows are in."""
        return clocks_of(self.relation, at, self.fence.epoch, self.checkpoint)


class Runner:
    """Runs the pipelines of a log. `folder` keeps their checkpoints. `clock`: who appends clock rows, this process by
    the wall clock ("wall") or another ("log": a replay in trace time). `take_over`: take pipelines over from another
    process that runs them. `tell` is called with messages about the start, failures and recovery.

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
        self._factory, self._take_over, self._tell = factory, take_over, tell
        self._lock = FolderLock(folder)
        self._own: set[str] = set()  # the checkpoints that this process has used
        self._statements = CatalogueReader(log)
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
        """Run until `stop` is called or the time is over. `ready` is called with the ids of the pipelines once all of
        them are in service.

        Raises:
            PipelineFailed: a pipeline cannot continue, or another process has taken it over.
            PipelineRuns: another process runs a pipeline, and it is not to be taken over.
        """
        for thread in self._threads:
            thread.start()  # a pipeline that is starting is alive
        self._follow()
        self._tell("Waiting for the first batch")
        end = None if seconds is None else time.monotonic() + seconds
        while not self._stopping.wait(CLOCK):
            self._check_health()
            self._follow()
            if ready and all(running.pipeline.is_ready for running in self._running.values()):
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
        for stopped in running.values():
            # The others must be stopped even if Spark has gone, or this pipeline's failure comes up again.
            with contextlib.suppress(Exception):
                stopped.pipeline.stop()
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
        """Repeat the work; if it fails, `run` raises."""
        try:
            while not self._stopping.wait(pause):
                work()
        except Exception as error:
            self._failure = error

    def _tick(self) -> None:
        running = list(self._running.values())
        for own in running:
            check_fence(own.fence, self._newest_epoch(own.fence))
        with self._heartbeat_lock:
            if self._clock == "wall":
                self._append_clocks(running)
            self._heartbeats.beat(wall_clock(), {own.relation.name: own.pipeline.position for own in running})

    def _tidy(self) -> None:
        tidy(self._log, self._statements.catalogue.copy(), wall_clock(), self._stopping)

    def _append_clocks(self, running: list[Running]) -> None:
        """Append one row per topic, however many pipelines read it: a table's clock row counts whoever wrote it."""
        self._last_clock = max(wall_clock(), self._last_clock)  # the wall clock may step back
        rows = {topic: row for own in running for topic, row in own.clocks(self._last_clock).items()}
        if rows:
            position = self._log.append_packed([(topic, pack(row)) for topic, row in rows.items()])
            self._heartbeats.clock_appended(position, self._last_clock)

    def _newest_epoch(self, fence: Fence) -> int:
        record = self._log.latest(EPOCHS, fence.name)
        return record.version if record else 0

    # -- statements ----------------------------------------------------------------------------------------------

    def _follow(self) -> None:
        """Apply the statements appended since, start and stop pipelines accordingly, and reply."""
        replies = []
        for applied in self._statements.advance():
            if applied.position > self._begun and _is_ours(applied.statement):
                replies.append(_reply(applied))
        self._start_and_stop()
        if replies:
            self._log.append(REPLIES_TOPIC, pa.RecordBatch.from_pylist(replies, REPLIES))

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
        """What needs a pipeline: every stream, and the tables, pairs and views that there have been queries over."""
        return served_relations(self._statements.catalogue, [PipelineId.parse(name) for name in self._running])

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
        """Check that no other process runs the pipeline, or that it is to be taken over.

        Raises:
            PipelineRuns: another process runs it.
        """
        if not self._lock.take() and (process := self._lock.owner()) is not None:
            heartbeat = latest_heartbeat(self._log, relation.name)
            other = f"process {process} runs it on the same checkpoint folder, {self._folder}"
        else:
            owner = live_owner(self._log, relation.name, {*self._own, checkpoint_in(folder)})
            if owner is None:
                return
            checkpoint, heartbeat = owner
            other = f"another process runs it, on another checkpoint folder (checkpoint {checkpoint})"
        seconds = 0.0 if heartbeat is None else max(0, wall_clock() - heartbeat.at) / SECOND
        age = f"its last heartbeat is {seconds:.1f} s old" if heartbeat else "it has written no heartbeat yet"
        if not self._take_over:
            raise PipelineRuns(
                f"{_label(relation)}: {other}; {age}. End that process, or take it over with --take-over"
            )
        self._tell(f"Taking over {_label(relation)}: {other}; {age}")

    def _launch(self, relation: Relation, fence: Fence, checkpoint: str, careful: Careful | None) -> PipelineHandle:
        """Start a pipeline on its checkpoint."""
        first = "" if self._running else ", and Spark for it, which takes some seconds"
        self._tell(f"Starting {_label(relation)}{first}")
        if isinstance(relation, Views):
            return self._start_views(relation, fence, checkpoint, careful)
        try:
            return self._start_query(relation, fence, checkpoint, careful)
        except (JavaNotFound, LogError):
            raise  # they say themselves what to do
        except Exception as error:
            raise PipelineFailed(f"{_label(relation)}: the pipeline could not be started: {reason(error)}") from error

    def _start_query(self, relation: QueryRelation, fence: Fence, checkpoint: str, careful: Careful | None) -> Pipeline:
        from tolerant.spark.pipeline import start

        spec = self._spec(relation, fence.epoch, checkpoint)
        folder = self._folder / relation.name / "spark"
        return start(self._session(), self._log, spec, folder, checkpoint, fence=fence, careful=careful)

    def _spec(self, relation: QueryRelation, epoch: int, checkpoint: str) -> PipelineSpec:
        from tolerant.kinds import shard_factory
        from tolerant.spark.pipeline import PipelineSpec, absolute

        make = self._factory or partial(shard_factory, log=absolute(self._log))
        factory, partitioning = make(relation, epoch, checkpoint), partitioning_of(relation)
        return PipelineSpec(relation.name, input_topics(relation), factory, partitioning, self._trigger)

    def _start_views(self, views: Views, fence: Fence, checkpoint: str, careful: Careful | None) -> ViewPipeline:
        from tolerant.spark.views.engine import SparkEngine
        from tolerant.spark.views.pipeline import ViewPipeline

        spark = self._session()
        pipeline = ViewPipeline(
            lambda: SparkEngine(spark),
            self._log,
            views,
            self._folder / views.name,
            checkpoint,
            fence,
            careful,
            promises=self._promises,
            tell=self._tell,
        )
        pipeline.start()
        return pipeline

    def _session(self) -> SparkSession:
        from tolerant.spark.session import session

        worker_log = self._folder.absolute() / "workers.log"
        return session(self._master, worker_log=worker_log, inherited=self._lock.fileno())

    # -- health --------------------------------------------------------------------------------------------------

    def _check_health(self) -> None:
        if self._failure is not None:
            raise PipelineFailed(str(self._failure)) from self._failure
        for running in self._running.values():
            label = _label(running.relation)
            try:
                ended, error = running.pipeline.ended, running.pipeline.failure
            except Exception as gone:
                raise PipelineFailed(f"{label}: Spark has gone: {reason(gone)}") from gone
            if isinstance(error, Fenced):
                raise PipelineFailed(str(error)) from error
            if ended:
                self._recover(running, label, error or RuntimeError("it stopped without an error; see workers.log"))

    def _recover(self, running: Running, label: str, error: Exception) -> None:
        """Run a batch that failed again entry by entry, or let the pipeline skip an entry, or give up."""
        relation, now = running.relation, time.time_ns() // 1000
        careful = Careful(str((self._folder / relation.name / "applying").absolute()), self._log.end())
        suspect = suspected(error, careful.suspect() if running.careful else None)
        skipped = quarantined(self._log, relation.name)
        decision = running.recovery.decide(error, suspect, bool(running.pipeline.done), skipped, now)
        if decision.what == "stop":
            raise PipelineFailed(f"{label}: the pipeline failed: {decision.reason}") from error
        if decision.what == "quarantine":
            if running.pipeline.is_written:
                raise PipelineFailed(f"{label}: {decision.reason}, though the batch has been applied before") from error
            if put_into_quarantine(self._log, relation.name, decision, running.fence, now) is None:
                raise PipelineFailed(f"{label}: {decision.reason}, and the log no longer has the entry") from error
            self._tell(f"{label}: QUARANTINED {_place(suspect)}: {decision.reason}. It is skipped from now on")
        else:
            self._tell(f"{label}: a batch failed ({decision.reason}); it is run again, one entry at a time")
        careful.clear()
        with contextlib.suppress(Exception):  # what has failed may fail to stop
            running.pipeline.stop()
        running.careful = careful if decision.what == "retry" else None
        running.pipeline = self._launch(relation, running.fence, running.checkpoint, running.careful)


def _place(suspect: Suspect | None) -> str:
    return f"entry {suspect.position} of {suspect.topic}" if suspect else "an entry"


def _label(relation: Relation) -> str:
    if isinstance(relation, Views):
        return f"views {relation.name}"
    kind = "stream" if isinstance(relation, Stream) else "tables" if isinstance(relation, JoinInput) else "table"
    return f"{kind} {relation.name}"


def _is_ours(statement: Statement) -> bool:
    """Whether the runner, not a pipeline, replies to it."""
    if isinstance(statement, Drop):
        return statement.what != "query"
    return isinstance(statement, CreateStream | CreateTable)


def _reply(applied: AppliedStatement) -> dict[str, object]:
    return {
        "request": applied.request,
        "key": applied.statement.about,
        "accepted": applied.outcome.accepted,
        "message": applied.outcome.message,
        "at": int(time.time() * SECOND),
    }
