"""Runs a pipeline on Spark: one streaming query for each shard, log → shard, in the source → sink → log."""

from __future__ import annotations

import contextlib
import logging
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from py4j.protocol import Py4JError
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession
from pyspark.sql.streaming import StreamingQuery

from tolerant.pipeline.entry_by_entry import Careful
from tolerant.pipeline.hosting import Hosted
from tolerant.pipeline.splitter import Splitter
from tolerant.spark.phases import StartPhase
from tolerant.spark.sink import LogSink, Progress
from tolerant.spark.source import BYTES, ENTRIES, HostedShard, source_of
from tolerant.transport import Fence, Fenced, PipelineLog
from tolerant.transport.topics import batches_topic

_LOGGER = logging.getLogger(__name__)

AVAILABLE_NOW = "available now"
"""The trigger that takes what the log holds at the start, and ends."""

_BUILDING = threading.Lock()

_FEW_ROWS = {
    # A batch is a few rows, each of them a packed payload: Spark need not plan it twice or compile code for it.
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
}


@dataclass(frozen=True)
class PipelineSpec:
    """What a pipeline does.

    name: its id (`sql.pipeline_ids`); entries in its quarantine topic are skipped.
    topics: what it reads.
    factory: makes the shard with a number.
    partitioning: how rows are split between shards; None: there is one shard.
    trigger: how often a batch begins ("200 milliseconds"; "0 seconds": as soon as the last is done), or
        `AVAILABLE_NOW`.
    entries, size: the most entries and bytes per batch.
    """

    name: str
    topics: Sequence[str]
    factory: Callable[[int], Hosted]
    partitioning: Splitter | None = None
    trigger: str = "0 seconds"
    entries: int = ENTRIES
    size: int = BYTES

    @property
    def shards(self) -> int:
        """How many shards it has."""
        return 1 if self.partitioning is None else self.partitioning.shards


@dataclass(frozen=True)
class ShardQuery:
    """The streaming query that hosts a shard, and the sink that knows why it failed."""

    query: StreamingQuery
    sink: LogSink


@dataclass(frozen=True)
class Pipeline:
    """A running pipeline, as a `PipelineHandle`: a streaming query for each shard."""

    queries: tuple[ShardQuery, ...]
    progress: Progress

    @property
    def done(self) -> int:
        """How many batches this run has written: those of the shard that has written fewest."""
        return min(own.sink.done for own in self.queries)

    @property
    def is_ready(self) -> bool:
        """Whether each shard has written its first batch."""
        return self.done > 0

    @property
    def position(self) -> int:
        """All shards have applied the log up to here, and their outputs are in it."""
        return self.progress.position

    @property
    def ended(self) -> bool:
        """Whether it has ended by itself; at once when it is fenced, which Spark learns later."""
        return any(isinstance(own.sink.failure, Fenced) or not own.query.isActive for own in self.queries)

    @property
    def failure(self) -> Exception | None:
        """The error of the last batch, or why Spark ended a query."""
        failures = [own.sink.failure for own in self.queries]
        failures += [own.query.exception() for own in self.queries if not own.query.isActive]
        return next((failure for failure in failures if failure is not None), None)

    @property
    def is_written(self) -> bool:
        """Whether the outputs of the batch that failed are in the log: then its entries must apply as they did."""
        return any(own.sink.is_written for own in self.queries if own.sink.failure or not own.query.isActive)

    def stop(self, wait: float = 30.0) -> None:
        """Finish the batches under way, if that takes no longer than `wait` seconds, and end."""
        end = time.monotonic() + wait
        for own in self.queries:
            own.sink.close(max(0.0, end - time.monotonic()))
        for own in self.queries:
            own.query.stop()

    def wait(self) -> None:
        """Returns when all queries have ended by themselves; `failure` says why."""
        for own in self.queries:
            with contextlib.suppress(StreamingQueryException):
                own.query.awaitTermination()


def start(
    spark: SparkSession,
    log: PipelineLog,
    spec: PipelineSpec,
    checkpoint_dir: Path | str,
    checkpoint: str,
    *,
    fence: Fence | None = None,
    careful: Careful | None = None,
) -> Pipeline:
    """Start a pipeline, which continues from `checkpoint_dir`.

    `checkpoint`: the id of that directory. `fence`: the epoch under which it writes. `careful`: how to find the entry
    at which the batch to come has failed before.
    """
    log.register(checkpoint, spec.name, [*spec.topics, batches_topic(spec.name)])
    with StartPhase("registering the data source"):
        _look_for_no_others(spark)
    progress, folder, run = Progress(spec.shards), Path(checkpoint_dir).absolute(), f"{spec.name}/{uuid.uuid4()}"
    queries = []
    for shard in range(spec.shards):
        hosted = HostedShard(
            run=f"{run}/{shard}",
            pipeline=spec.name,
            shard=shard,
            uri=absolute(log),
            topics=tuple(sorted(spec.topics)),
            checkpoint=checkpoint,
            snapshots=folder / "snapshots" / str(shard),
            factory=spec.factory,
            split=spec.partitioning,
            careful=careful,
            entries=spec.entries,
            size=spec.size,
        )
        sink = LogSink(log, hosted, fence, progress)
        query = _start_query(spark, hosted, sink, folder / "queries" / str(shard), spec.trigger)
        queries.append(ShardQuery(query, sink))
    return Pipeline(tuple(queries), progress)


def _start_query(spark: SparkSession, hosted: HostedShard, sink: LogSink, folder: Path, trigger: str) -> StreamingQuery:
    with _BUILDING, _settings(spark), _workers_of_its_own(spark, hosted.run):
        with StartPhase("loading the data source"):
            source = source_of(hosted)
            spark.dataSource.register(source)
            rows = spark.readStream.format(source.name()).load()
        writer = rows.writeStream.queryName(hosted.run).outputMode("append").foreachBatch(sink)
        writer = writer.option("checkpointLocation", str(folder))
        when = {"availableNow": True} if trigger == AVAILABLE_NOW else {"processingTime": trigger}
        return writer.trigger(**when).start()


def _look_for_no_others(spark: SparkSession) -> None:
    """Let Spark do without a Python process that looks whether other packages bring data sources: we have our own.

    Where Spark's inside is not as in 4.3, it looks.
    """
    jvm = spark._jvm
    try:
        manager = _scala_object(jvm.org.apache.spark.sql.execution.datasources, "DataSourceManager")
        if manager.dataSourceBuilders().isEmpty():
            none = _scala_object(jvm.scala.collection.immutable, "Map").empty()
            getattr(manager, "dataSourceBuilders_$eq")(jvm.scala.Option.apply(none))
    except (Py4JError, TypeError) as error:
        _LOGGER.info("Spark looks for data sources of other packages: %s", error)


def _scala_object(package: Any, name: str) -> Any:
    return getattr(getattr(package, f"{name}$"), "MODULE$")


def absolute(log: PipelineLog) -> str:
    """The URI as every process understands it, whatever directory it works in."""
    prefix = "sqlite:///"
    return f"{prefix}{Path(log.uri.removeprefix(prefix)).absolute()}" if log.uri.startswith(prefix) else log.uri


@contextmanager
def _workers_of_its_own(spark: SparkSession, run: str) -> Iterator[None]:
    """Let the pipeline's cores live in Python workers that no other pipeline uses.

    Spark hands out idle workers in turn, to whoever asks, but keeps those with different environments apart. In a
    shared pool each worker would come to hold a copy of each core, out of date whenever it is needed.
    """
    environment = spark.sparkContext.environment
    environment["TOLERANT_PIPELINE"] = run
    try:
        yield
    finally:
        del environment["TOLERANT_PIPELINE"]


@contextmanager
def _settings(spark: SparkSession) -> Iterator[None]:
    """The session's settings as a pipeline wants them; its query takes them over when it starts."""
    before = {name: spark.conf.get(name) for name in _FEW_ROWS}
    for name, value in _FEW_ROWS.items():
        spark.conf.set(name, value)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is not None:
                spark.conf.set(name, value)
