"""The source of a pipeline's streaming query: Spark plans ranges of positions, and the shard is applied in `read`.

A batch is a range of positions, and the log gives the same entries for the same range for ever (until retention,
which waits for the snapshots), so a batch that is run again reads exactly what it read before. The rows are the
outputs of the shards.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxBytes, SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

from tolerant.pipeline.entry_by_entry import Careful
from tolerant.pipeline.hosting import ShardFactory, pack_outputs
from tolerant.pipeline.shard_host import AppliedBatch, LogInput, ShardHost
from tolerant.pipeline.snapshot_files import SnapshotFiles
from tolerant.pipeline.splitter import Splitter
from tolerant.spark.worker_memory import settle
from tolerant.transport import PipelineLog
from tolerant.transport.log import START
from tolerant.transport.opening import shared_log

SCHEMA = "shard INT, `end` BIGINT, outputs BINARY, digest BINARY, one_by_one BOOLEAN, needed BIGINT"
"""The columns of the source: those of `AppliedBatch`, the outputs packed."""

ENTRIES = 20_000
"""The most entries that one batch takes, unless told otherwise."""

BYTES = 64 << 20
"""The most payload bytes that one batch takes, unless told otherwise."""

_ARROW = pa.schema(
    [
        ("shard", pa.int32()),
        ("end", pa.int64()),
        ("outputs", pa.binary()),
        ("digest", pa.binary()),
        ("one_by_one", pa.bool_()),
        ("needed", pa.int64()),
    ]
)
_ALL = 1 << 62


@dataclass(frozen=True)
class HostedShard:
    """What a worker needs to know to host a shard; travels to it with the source.

    run: names this run of the shard, as no other is named. uri: of the log. snapshots: the folder of the shard's
    snapshots. entries, size: the most per batch.
    """

    run: str
    pipeline: str
    shard: int
    uri: str
    topics: tuple[str, ...]
    checkpoint: str
    snapshots: Path
    factory: ShardFactory
    split: Splitter | None = None
    careful: Careful | None = None
    entries: int = ENTRIES
    size: int = BYTES


@cache
def opened(uri: str) -> PipelineLog:
    """The log at `uri`, opened once in this process: workers live through many batches."""
    settle()
    return shared_log(uri)


_HOSTS: dict[str, ShardHost] = {}


def host_of(hosted: HostedShard) -> ShardHost:
    """The host of a shard in this process, where its core stays in memory between batches."""
    if hosted.run not in _HOSTS:
        source = LogInput(opened(hosted.uri), hosted.pipeline, hosted.checkpoint, hosted.topics, hosted.shard)
        snapshots = SnapshotFiles(hosted.snapshots)
        _HOSTS[hosted.run] = ShardHost(
            hosted.shard, hosted.factory, source, snapshots, hosted.split, hosted.careful, settle
        )
    return _HOSTS[hosted.run]


def source_of(hosted: HostedShard) -> type[DataSource]:
    """The data source of a shard, to be registered with Spark under its own name."""

    class HostingSource(DataSource):  # type: ignore[misc]
        @classmethod
        def name(cls) -> str:
            return hosted.run

        def schema(self) -> str:
            return SCHEMA

        def streamReader(self, schema: StructType) -> ShardReader:
            return ShardReader(hosted)

    return HostingSource


class Range(InputPartition):  # type: ignore[misc]
    """What one task does: apply the entries after `start` up to `end`."""

    def __init__(self, start: int, end: int) -> None:
        self.start = start
        self.end = end


class ShardReader(DataSourceStreamReader, SupportsTriggerAvailableNow):  # type: ignore[misc]
    """Plans batches as ranges of positions, in the driver's helper process, and applies shards, in the workers."""

    def __init__(self, hosted: HostedShard) -> None:
        self._hosted = hosted
        self._target: int | None = None

    def initialOffset(self) -> dict[str, int]:
        """The beginning of the log, or of what retention has left of it."""
        return {"position": START}

    def getDefaultReadLimit(self) -> ReadLimit:
        """So that a backlog is taken in pieces."""
        return ReadMaxBytes(self._hosted.size)

    def latestOffset(self, start: dict[str, int], limit: ReadLimit) -> dict[str, int]:
        """How far the next batch goes: it moves only if there are entries of our topics."""
        hosted = self._hosted
        entries, size = (_ALL, _ALL) if isinstance(limit, ReadAllAvailable) else (hosted.entries, hosted.size)
        reached = opened(hosted.uri).advance(hosted.topics, start["position"], entries, size)
        if self._target is not None:
            reached = max(min(reached, self._target), start["position"])
        return {"position": reached}

    def prepareForTriggerAvailableNow(self) -> None:
        """Stop at what the log holds now."""
        self._target = opened(self._hosted.uri).end()

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> list[Range]:
        """One range: the query hosts one shard, whose input has one order."""
        begin, last = start["position"], end["position"]
        return [Range(begin, last)] if last > begin else []

    def read(self, partition: Range) -> Iterator[pa.RecordBatch]:
        """Apply a range to a shard; one row."""
        applied = host_of(self._hosted).apply(partition.start, partition.end)
        yield applied_row(applied)


def applied_row(applied: AppliedBatch) -> pa.RecordBatch:
    """A batch of a shard as the row that travels to the driver."""
    row = applied.shard, applied.end, pack_outputs(applied.outputs), applied.digest, applied.one_by_one, applied.needed
    return pa.record_batch(
        [pa.array([value], field.type) for value, field in zip(row, _ARROW, strict=True)], schema=_ARROW
    )


def forget_hosts() -> None:
    """Forget every core, as a new worker would."""
    _HOSTS.clear()
