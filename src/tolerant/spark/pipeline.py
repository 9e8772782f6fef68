"""Runs a pipeline as one streaming query: log → source → (splitter) → hosted shards → sink → log."""

from __future__ import annotations

import json
import logging
import threading
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from py4j.protocol import Py4JError
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming import StreamingQuery

from tolerant.pipeline.entry_by_entry import Careful
from tolerant.pipeline.hosting import Hosted
from tolerant.pipeline.splitter import SPLIT_SCHEMA, Splitter
from tolerant.spark.phases import StartPhase
from tolerant.spark.processor import OUTPUT, HostProcessor
from tolerant.spark.sink import LogSink
from tolerant.spark.source import BYTES, ENTRIES, LogSource
from tolerant.transport import Fence, Fenced, PipelineLog

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
class Pipeline:
    """A running streaming query, as a `PipelineHandle`, and the sink that knows why it failed."""

    query: StreamingQuery
    sink: LogSink

    @property
    def done(self) -> int:
        """How many batches this run has written."""
        return self.sink.done

    @property
    def is_ready(self) -> bool:
        """Whether it has written its first batch."""
        return self.done > 0

    @property
    def ended(self) -> bool:
        """Whether it has ended by itself; at once when it is fenced, which Spark learns later."""
        return isinstance(self.sink.failure, Fenced) or not self.query.isActive

    @property
    def failure(self) -> Exception | None:
        """The error of the last batch, or why Spark ended the query."""
        if self.sink.failure is not None:
            return self.sink.failure
        return None if self.query.isActive else self.query.exception()

    @property
    def is_written(self) -> bool:
        """Whether the outputs of the last batch are in the log: then its entries must apply as they did."""
        return self.sink.is_written

    def stop(self, wait: float = 30.0) -> None:
        """Finish the batch under way, if that takes no longer than `wait` seconds, and end."""
        self.sink.close(wait)
        self.query.stop()


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
    options = {"uri": absolute(log), "topics": json.dumps(sorted(spec.topics)), "checkpoint": checkpoint}
    options |= {"entries": str(spec.entries), "bytes": str(spec.size), "quarantine": spec.name}
    log.register(checkpoint, spec.name, spec.topics)
    with StartPhase("registering the data source"):
        _look_for_no_others(spark)
        spark.dataSource.register(LogSource)
    with StartPhase("loading the data source"):
        source = spark.readStream.format(LogSource.name()).options(**options).load()
    run = f"{spec.name}/{uuid.uuid4()}"
    if spec.partitioning is not None:
        spec.partitioning.careful = careful
    with _BUILDING, _settings(spark, spec.shards):
        routed = _routed(source, spec.partitioning)
        with StartPhase("checking the query"), _workers_of_its_own(spark, run):
            hosted = _host(routed, HostProcessor(spec.factory, run, careful))
        sink = LogSink(log, checkpoint, fence)
        writer = hosted.writeStream.queryName(run).outputMode("append").foreachBatch(sink)
        writer = writer.option("checkpointLocation", str(Path(checkpoint_dir).absolute()))
        when = {"availableNow": True} if spec.trigger == AVAILABLE_NOW else {"processingTime": spec.trigger}
        return Pipeline(writer.trigger(**when).start(), sink)


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


def _routed(source: DataFrame, split: Splitter | None) -> DataFrame:
    if split is None:
        return source.withColumn("shard", F.lit(0))
    return source.mapInArrow(split, SPLIT_SCHEMA)


def _host(routed: DataFrame, processor: HostProcessor) -> DataFrame:
    return routed.groupBy("shard").transformWithStateInPandas(
        statefulProcessor=processor, outputStructType=OUTPUT, outputMode="Append", timeMode="None"
    )


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
def _settings(spark: SparkSession, shards: int) -> Iterator[None]:
    """The session's settings as a pipeline wants them; its query takes them over when it starts."""
    wanted = _FEW_ROWS | {"spark.sql.shuffle.partitions": str(shards)}
    before = {name: spark.conf.get(name) for name in wanted}
    for name, value in wanted.items():
        spark.conf.set(name, value)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is not None:
                spark.conf.set(name, value)
