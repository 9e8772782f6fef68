"""One pipeline: log → source → (splitter) → hosted shards → sink → log, as one streaming query."""

from __future__ import annotations

import json
import threading
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming import StreamingQuery

from tolerant.spark.careful import Careful
from tolerant.spark.hosting import Hosted
from tolerant.spark.processor import OUTPUT, HostProcessor
from tolerant.spark.sink import LogSink
from tolerant.spark.source import BYTES, ENTRIES, LogSource
from tolerant.spark.splitter import SPLIT_SCHEMA, Splitter, splitter
from tolerant.streams import Stream
from tolerant.transport import Fence, PipelineLog

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
class Pipeline:
    """A running pipeline: Spark's query, and the sink that knows why it failed."""

    query: StreamingQuery
    sink: LogSink

    @property
    def done(self) -> int:
        """How many batches this run has written."""
        return self.sink.done

    def stop(self, wait: float = 30.0) -> None:
        """Finish the batch under way, if that takes no longer than `wait` seconds, and end."""
        self.sink.close(wait)
        self.query.stop()


def start(
    spark: SparkSession,
    log: PipelineLog,
    topics: Sequence[str],
    factory: Callable[[int], Hosted],
    checkpoint_dir: Path | str,
    checkpoint: str,
    *,
    name: str,
    stream: Stream | None = None,
    split: Splitter | None = None,
    fence: Fence | None = None,
    trigger: str = "0 seconds",
    entries: int = ENTRIES,
    size: int = BYTES,
    careful: Careful | None = None,
) -> Pipeline:
    """Start hosting the shards that `factory` makes on the entries of `topics`; it goes on from `checkpoint_dir`.

    `checkpoint`: the id of that directory. `stream`: with more than one shard in its options, rows are split between
    them; `split`: what else splits rows. `trigger`: how often a batch begins ("200 milliseconds"; "0 seconds": as soon
    as the last is done), or `AVAILABLE_NOW`. `entries` and `size`: the most that one batch takes. `careful`: how to
    find the entry that the batch to come has failed at before. Entries in `quarantine.<name>` are skipped.
    """
    options = {"uri": absolute(log), "topics": json.dumps(sorted(topics)), "checkpoint": checkpoint}
    options |= {"entries": str(entries), "bytes": str(size), "quarantine": name}
    log.register(checkpoint, stream.name if stream else name, topics)
    spark.dataSource.register(LogSource)
    source = spark.readStream.format(LogSource.name()).options(**options).load()
    sink = LogSink(log, checkpoint, fence)
    run = f"{name}/{uuid.uuid4()}"
    if split is None and stream is not None and stream.options.shards > 1:
        split = splitter(stream)
    if split is not None:
        split.careful = careful
    with _BUILDING, _settings(spark, 1 if split is None else split.shards):
        routed = _routed(source, split)
        with _workers_of_its_own(spark, run):
            hosted = _host(routed, HostProcessor(factory, run, careful))
        writer = hosted.writeStream.queryName(run).outputMode("append").foreachBatch(sink)
        writer = writer.option("checkpointLocation", str(Path(checkpoint_dir).absolute()))
        when = {"availableNow": True} if trigger == AVAILABLE_NOW else {"processingTime": trigger}
        return Pipeline(writer.trigger(**when).start(), sink)


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
