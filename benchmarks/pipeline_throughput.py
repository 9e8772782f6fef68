"""Rows a second through the real pipeline, against a plain Spark job that keeps last values and aggregates them again.

100,000 items, 1,000 overlapping queries of 100 items each, batches of equal size, local[2], SQLite log. Rows are of
items that some query is about: the others are never sent. Both jobs read the same entries of the same log, batch by
batch; the time of a batch is what Spark itself reports for it. The bar, five times the plain job, says nothing about
the size of a batch nor how many moments its rows are of (ours publishes answers for each moment, the plain job once a
batch), so it is held against every case.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from side_by_side import Comparison, Figure, Timing, arguments, report
from tolerant.client import missing, read, send, standing
from tolerant.edge.core import SourceCore
from tolerant.spark.kinds.bounded import BoundedShard
from tolerant.spark.pipeline import start
from tolerant.spark.session import session
from tolerant.spark.source import LogSource
from tolerant.streams import SECOND
from tolerant.transport import Log, open_log, rows
from tolerant.transport.log import START

QUERY_ITEMS = 100
TOPIC = "updates.items"


def main() -> None:
    quick = arguments(__doc__ or "").quick
    items, queries, batches = (10_000, 100, 4) if quick else (100_000, 1_000, 8)
    cases = [(5_000, 1), (5_000, 10)] if quick else [(50_000, 1), (50_000, 10), (300_000, 10)]
    spark = session("local[2]", app="throughput")
    figures = []
    for batch_rows, moments in cases:
        with tempfile.TemporaryDirectory() as folder:
            bench = Bench(spark, Path(folder), items, queries)
            ours = bench.tolerant(batch_rows, batches, moments)
            plain = bench.plain(batches)
        name = f"{batch_rows:,} rows of {moments} moment{'s' if moments > 1 else ''}"
        timings = (Timing("tolerant", tuple(ours)), Timing("plain Spark", tuple(plain)))
        print(Comparison(f"a batch of {name}", timings).text(batch_rows))
        speed, theirs = batch_rows / statistics.median(ours), batch_rows / statistics.median(plain)
        figures += [
            Figure(f"{name}: tolerant", speed, "rows/s"),
            Figure(f"{name}: plain Spark", theirs, "rows/s"),
            Figure(f"{name}: ratio of medians", speed / theirs, "×", "≥ 5", None if quick else speed / theirs >= 5),
        ]
    spark.stop()
    inputs = {"items": items, "queries": queries, "items a query": QUERY_ITEMS, "batches": batches}
    sys.exit(0 if report("pipeline-throughput", inputs, figures) else 1)


class Bench:
    """A log with items and queries, and the two jobs that read it."""

    def __init__(self, spark: SparkSession, folder: Path, items: int, queries: int) -> None:
        self._spark, self._folder, self._items = spark, folder, items
        self._log: Log = open_log(f"sqlite:///{folder}/log.db")
        self._starts = np.random.default_rng(0).integers(0, items - QUERY_ITEMS, queries)
        self._now = 1_000_000_000 * SECOND
        self._say("CREATE STREAM items (item BIGINT, value DOUBLE) KEY (item) WITH (lease = '1 h');")
        self._core = SourceCore("bench", 1, standing(self._log).streams["items"].options)
        self._grants = START

    def tolerant(self, batch_rows: int, batches: int, moments: int) -> list[float]:
        """Seconds of each measured batch. Values jump, so that all pass their filters: batches are of equal size."""
        stream = standing(self._log).streams["items"]
        pipeline = start(
            self._spark,
            self._log,  # type: ignore[arg-type]
            [TOPIC, "queries"],
            lambda shard: BoundedShard(stream, shard, 1, "bench"),
            self._folder / "checkpoint",
            "bench",
            name="items",
            stream=stream,
        )
        handles = self._core.register([str(item) for item in range(self._items)])
        self._offer(handles, 1)
        self._settle(pipeline.query)
        self._say("\n".join(self._query(number, first) for number, first in enumerate(self._starts)))
        queried = handles[np.unique(self._starts[:, None] + np.arange(QUERY_ITEMS))]
        self._offer(queried[:0], 1)
        self._settle(pipeline.query)
        rng = np.random.default_rng(1)
        # Two rounds that do not count: grants go out and are confirmed, code is compiled.
        seconds = []
        for batch in range(batches + 2):
            self._take_grants()
            before = len(self._batches(pipeline.query))
            # Items differ within a moment; over the moments of a batch they may come again.
            parts = [rng.choice(queried, batch_rows // moments, replace=False) for _ in range(moments)]
            self._offer(np.concatenate(parts), moments, rng)
            self._settle(pipeline.query)
            if batch >= 2:
                seconds.append(sum(self._batches(pipeline.query)[before:]))
        pipeline.query.stop()
        return seconds

    def plain(self, batches: int) -> list[float]:
        """Seconds of each measured batch of a job that keeps last values and aggregates every query again."""
        self._spark.dataSource.register(LogSource)
        members = self._spark.createDataFrame(
            [(number, int(first) + k) for number, first in enumerate(self._starts) for k in range(QUERY_ITEMS)],
            "query int, item bigint",
        ).cache()
        members.count()
        options = {"uri": self._log.uri, "topics": f'["{TOPIC}"]', "entries": "2", "bytes": str(1 << 30)}
        reader = self._spark.readStream.format(LogSource.name()).options(**options)
        values = reader.load().mapInArrow(unpacked, "item bigint, at bigint, value double")
        last = values.groupBy("item").agg(F.max_by("value", "at").alias("value"))
        answers: list[int] = []

        def aggregate(frame: DataFrame, batch: int) -> None:
            found = members.join(F.broadcast(frame), "item").groupBy("query").agg(F.sum("value"))
            answers.append(len(found.collect()))

        self._spark.conf.set("spark.sql.shuffle.partitions", "2")
        query = last.writeStream.outputMode("complete").foreachBatch(aggregate).trigger(availableNow=True)
        running = query.option("checkpointLocation", str(self._folder / "plain")).start()
        running.awaitTermination()
        if running.exception() is not None:
            raise RuntimeError(str(running.exception()))
        return self._batches(running)[-batches:]

    def _query(self, number: int, first: int) -> str:
        where = f"item BETWEEN {first} AND {first + QUERY_ITEMS - 1}"
        return f"CREATE QUERY q{number} AS SELECT SUM(value) FROM items WHERE {where} WITHIN 5;"

    def _say(self, text: str) -> None:
        for statement in missing(self._log, read(self._log, text)):
            send(self._log, statement)

    def _offer(self, handles: Any, moments: int, rng: np.random.Generator | None = None) -> None:
        for part in np.array_split(handles, moments):
            self._now += SECOND // moments
            values = rng.uniform(1e3, 1e6, len(part)) if rng else np.zeros(len(part))
            self._core.offer(part, values, self._now)
        batch = self._core.drain()
        self._now += SECOND // 2
        said = [rows.clock_batch(self._now)] if batch is None else [batch, rows.clock_batch(self._now)]
        # Rows and clock in one append: no batch can take the one without the other.
        self._log.append_packed([(TOPIC, rows.pack(one)) for one in said])

    def _take_grants(self) -> None:
        for entry in self._log.read("grants.items", self._grants):
            self._core.grant(rows.read_grants(rows.unpack(entry.payload)), self._now)
            self._grants = entry.position

    def _settle(self, query: Any) -> None:
        while True:
            seen = len(self._batches(query))
            query.processAllAvailable()
            time.sleep(0.3)
            if len(self._batches(query)) == seen:
                return

    @staticmethod
    def _batches(query: Any) -> list[float]:
        return [p.batchDuration / 1000 for p in query.recentProgress if p.numInputRows > 0]


def unpacked(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Packed entries as rows: what a plain job needs of them."""
    for batch in batches:
        for payload in batch.column("payload").to_pylist():
            found = rows.unpack(payload)
            keys = found.column("key").cast(pa.string())
            kept = pa.compute.not_equal(keys, "")
            item = keys.filter(kept).cast(pa.int64())
            at, value = found.column("at").filter(kept), found.column("value").filter(kept)
            yield pa.record_batch([item, at, value], names=["item", "at", "value"])


if __name__ == "__main__":
    main()
