"""The entries of a log as a streaming source of Spark, for plain jobs: `spark.readStream.format("entries")`.

A batch is a range of positions, and the log gives the same entries for the same range for ever (until retention,
which waits for the checkpoint), so a batch that is run again reads exactly what it read before. Rows are whole packed
entries.

Options: `uri`; `topics`, a JSON list; `entries` and `bytes`, the most that one batch takes.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxBytes, SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

from tolerant.transport import PipelineLog
from tolerant.transport.log import START, Entry
from tolerant.transport.opening import shared_log

SCHEMA = "partition INT, position BIGINT, topic STRING, payload BINARY"
"""The columns of the source: those of `Entry`."""

ENTRIES = 20_000
"""The most entries that one batch takes, unless told otherwise."""

BYTES = 64 << 20
"""The most payload bytes that one batch takes, unless told otherwise."""

_ARROW = pa.schema(
    [("partition", pa.int32()), ("position", pa.int64()), ("topic", pa.string()), ("payload", pa.binary())]
)
_CHUNK = 2_000  # entries that are read and handed to Spark at a time
_ALL = 1 << 62

# Spark's Python processes, which are started later, must find this file as well.
os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [str(Path(__file__).parent), os.environ.get("PYTHONPATH")]))


@cache
def opened(uri: str) -> PipelineLog:
    """The log at `uri`, opened once in this process: workers live through many batches."""
    return shared_log(uri)


def entries_batch(entries: list[Entry]) -> pa.RecordBatch:
    """Entries as rows of the source."""
    columns = ([getattr(entry, field.name) for entry in entries] for field in _ARROW)
    return pa.record_batch([pa.array(c, f.type) for c, f in zip(columns, _ARROW, strict=True)], schema=_ARROW)


class EntrySource(DataSource):
    """The data source `entries`; see the module."""

    @classmethod
    def name(cls) -> str:
        """What `format` calls it."""
        return "entries"

    def schema(self) -> str:
        """The columns."""
        return SCHEMA

    def streamReader(self, schema: StructType) -> EntryReader:
        """The reader, made in the driver's helper process; a copy of it goes to the workers."""
        options = self.options
        return EntryReader(
            options["uri"],
            tuple(json.loads(options["topics"])),
            int(options.get("entries", ENTRIES)),
            int(options.get("bytes", BYTES)),
        )


class Range(InputPartition):
    """What one task reads: the entries after `start` up to `end`."""

    def __init__(self, start: int, end: int) -> None:
        self.start = start
        self.end = end


class EntryReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Plans batches as ranges of positions, and reads them."""

    def __init__(self, uri: str, topics: tuple[str, ...], entries: int, size: int) -> None:
        self._uri = uri
        self._topics = topics
        self._entries = entries
        self._size = size
        self._target: int | None = None

    def initialOffset(self) -> dict[str, int]:
        """The beginning of the log, or of what retention has left of it."""
        return {"position": START}

    def getDefaultReadLimit(self) -> ReadLimit:
        """So that a backlog is taken in pieces."""
        return ReadMaxBytes(self._size)

    def latestOffset(self, start: dict[str, int], limit: ReadLimit) -> dict[str, int]:
        """How far the next batch goes: it moves only if there are entries of our topics."""
        entries, size = (_ALL, _ALL) if isinstance(limit, ReadAllAvailable) else (self._entries, self._size)
        reached = opened(self._uri).advance(self._topics, start["position"], entries, size)
        if self._target is not None:
            reached = max(min(reached, self._target), start["position"])
        return {"position": reached}

    def prepareForTriggerAvailableNow(self) -> None:
        """Stop at what the log holds now."""
        self._target = opened(self._uri).end()

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> list[Range]:
        """One range: the log has one order."""
        begin, last = start["position"], end["position"]
        return [Range(begin, last)] if last > begin else []

    def read(self, partition: Range) -> Iterator[pa.RecordBatch]:
        """The entries of a range, in order, a few thousand at a time."""
        log = opened(self._uri)
        position = partition.start
        while position < partition.end:
            entries = [e for e in log.read(self._topics, position, _CHUNK) if e.position <= partition.end]
            if not entries:
                return
            position = entries[-1].position
            yield entries_batch(entries)

    def commit(self, end: dict[str, int]) -> None:
        """Nothing is recorded."""
