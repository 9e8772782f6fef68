"""The hosting that was before: the log's entries through a Python source into `transformWithStateInPandas`, whose state
store holds a snapshot, the entries since as deltas, and a stamp. What hosting in the source is measured against.
"""

from __future__ import annotations

import gc
import json
import os
import uuid
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming import StatefulProcessor, StatefulProcessorHandle, StreamingQuery

from entry_source import EntrySource
from tolerant.pipeline.hosting import Hosted, pack_outputs, unpack_outputs
from tolerant.transport import PipelineLog
from tolerant.transport.log import Entry
from tolerant.transport.rows import pack, unpack_trusted

_ENTRIES = pa.schema(
    [("topic", pa.string()), ("partition", pa.int32()), ("position", pa.int64()), ("payload", pa.binary())]
)
_SETTINGS = {
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.shuffle.partitions": "1",
    "spark.sql.streaming.stateStore.providerClass": (
        "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
    ),
    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
    "spark.sql.streaming.stateStore.checkpointFormatVersion": "2",
}
_CORES: dict[str, tuple[bytes, Hosted]] = {}


def start(
    spark: SparkSession,
    log: PipelineLog,
    topics: Sequence[str],
    factory: Callable[[int], Hosted],
    folder: Path,
    trigger: dict[str, Any] | None = None,
    entries: int = 20_000,
) -> StreamingQuery:
    """Start the pipeline of one shard."""
    run = str(uuid.uuid4())
    for name, value in _SETTINGS.items():
        spark.conf.set(name, value)
    spark.dataSource.register(EntrySource)
    options = {"uri": log.uri, "topics": json.dumps(list(topics)), "entries": str(entries)}
    source = spark.readStream.format(EntrySource.name()).options(**options).load().withColumn("shard", F.lit(0))
    environment = spark.sparkContext.environment
    environment["TOLERANT_PIPELINE"] = run
    hosted = source.groupBy("shard").transformWithStateInPandas(
        OperatorProcessor(factory, run), outputStructType="outputs BINARY", outputMode="Append", timeMode="None"
    )
    del environment["TOLERANT_PIPELINE"]

    def write(outputs: DataFrame, batch: int) -> None:
        packed = outputs.toArrow().column("outputs").to_pylist()
        log.append_once(run, batch, [entry for part in packed for entry in unpack_outputs(part)])

    writer = hosted.writeStream.outputMode("append").foreachBatch(write)
    return (
        writer.option("checkpointLocation", str(folder)).trigger(**(trigger or {"processingTime": "0 seconds"})).start()
    )


class OperatorProcessor(StatefulProcessor):
    """Runs the shard that `factory` makes."""

    def __init__(self, factory: Callable[[int], Hosted], run: str) -> None:
        self._factory, self._run = factory, run

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Name the state variables."""
        self._snapshot = handle.getValueState("snapshot", "data BINARY")
        self._deltas = handle.getListState("deltas", "data BINARY")
        self._stamp = handle.getValueState("stamp", "name BINARY, snapshot BIGINT, deltas BIGINT, count BIGINT")

    def handleInputRows(self, key: Any, rows: Iterator[pd.DataFrame], timerValues: Any) -> Iterator[pd.DataFrame]:
        """Apply a batch of the shard's entries; the outputs as one row."""
        entries = _entries(rows)
        stored = self._stamp.get()
        core = self._current(stored)
        snapshot, weight, count = (0, 0, 0) if stored is None else map(int, stored[1:])
        if stored is None:
            first = core.snapshot()
            self._snapshot.update((first,))
            snapshot = len(first)
        outputs = core.apply(entries)
        delta = _packed(entries)
        if weight + len(delta) > max(4 * snapshot, 512 << 10) or count > 1_000:
            whole = core.snapshot()
            self._snapshot.update((whole,))
            self._deltas.clear()
            snapshot, weight, count = len(whole), 0, 0
        else:
            self._deltas.appendValue((delta,))
            weight, count = weight + len(delta), count + 1
        name = os.urandom(16)
        self._stamp.update((name, snapshot, weight, count))
        _CORES[self._run] = (name, core)
        if outputs:
            yield pd.DataFrame({"outputs": [pack_outputs(outputs)]})

    def _current(self, stored: Any) -> Hosted:
        cached = _CORES.pop(self._run, None)
        if cached is not None and stored is not None and cached[0] == bytes(stored[0]):
            return cached[1]
        core = self._factory(0)
        if stored is not None:
            core.restore(bytes(self._snapshot.get()[0]))
            for (delta,) in self._deltas.get():
                core.apply(
                    [Entry(*row) for row in zip(*unpack_trusted(bytes(delta)).to_pydict().values(), strict=True)]
                )
        gc.collect()
        gc.freeze()
        return core

    def close(self) -> None:
        """Nothing is kept open."""


def _entries(rows: Iterator[pd.DataFrame]) -> list[Entry]:
    columns = ("topic", "partition", "position", "payload")
    entries = [
        Entry(topic, int(partition), int(position), bytes(payload))
        for frame in rows
        for topic, partition, position, payload in zip(*(frame[name] for name in columns), strict=True)
    ]
    entries.sort(key=lambda entry: entry.position)
    return entries


def _packed(entries: Sequence[Entry]) -> bytes:
    columns = [pa.array([getattr(entry, field.name) for entry in entries], field.type) for field in _ENTRIES]
    return pack(pa.record_batch(columns, schema=_ENTRIES))
