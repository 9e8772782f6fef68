"""Rows per second through the real pipeline, against a plain Spark job that keeps last values and aggregates again.

100,000 items, 1,000 overlapping queries of 100 items each, batches of equal size, local[2], SQLite log. Rows are of
items that some query is about: the others are never sent. Both jobs read the same entries of the same log, batch by
batch, after as many to warm up; the time of a batch is what Spark itself reports for it. The target, five times the
plain job (`plain_job.py`), says nothing about the size of a batch nor how many moments its rows are of (ours publishes
answers for each moment, the plain job aggregates once a batch and publishes nothing), so every case is checked against
it. Nor does it say whether the plain job is tuned: it runs with Spark's own 200 partitions per shuffle, and with the 2
that suit two cores.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession

from side_by_side import Comparison, Figure, Timing, arguments, report
from tolerant.client import StatementClient, load_catalogue
from tolerant.edge.source_core import SourceCore
from tolerant.kinds.bounded.shard import BoundedShard
from tolerant.spark.pipeline import PipelineSpec, start
from tolerant.spark.session import session
from tolerant.streams import SECOND
from tolerant.transport import Log, open_log, rows
from tolerant.transport.log import START

QUERY_ITEMS = 100
TOPIC = "updates.items"
PLAIN = {"plain Spark": 200, "plain Spark, tuned": 2}
"""The jobs to compare with, and how many partitions their shuffles have."""


def main() -> None:
    quick = arguments(__doc__ or "").quick
    items, queries, batches = (10_000, 100, 4) if quick else (100_000, 1_000, 10)
    cases = [(5_000, 1), (5_000, 10)] if quick else [(10_000, 1), (50_000, 10), (300_000, 10)]
    spark = session("local[2]", app="throughput")
    figures = []
    for batch_rows, moments in cases:
        with tempfile.TemporaryDirectory() as folder:
            bench = Bench(spark, Path(folder), items, queries)
            ours = bench.tolerant(batch_rows, batches, moments)
            plain = {name: bench.plain(batches, partitions) for name, partitions in PLAIN.items()}
        name = f"{batch_rows:,} rows of {moments} moment{'s' if moments > 1 else ''}"
        timings = [Timing(job, tuple(seconds)) for job, seconds in plain.items()]
        print(Comparison(f"a batch of {name}", (Timing("tolerant", tuple(ours)), *timings)).text(batch_rows))
        speed = batch_rows / statistics.median(ours)
        figures.append(Figure(f"{name}: tolerant", speed, "rows/s"))
        for job, seconds in plain.items():
            theirs = batch_rows / statistics.median(seconds)
            held = None if quick else speed / theirs >= 5
            figures.append(Figure(f"{name}: {job}", theirs, "rows/s"))
            figures.append(Figure(f"{name}: ratio of medians, {job}", speed / theirs, "×", "≥ 5", held))
    spark.stop()
    inputs = {"items": items, "queries": queries, "items a query": QUERY_ITEMS, "batches": batches}
    sys.exit(0 if report("pipeline-throughput", inputs, figures) else 1)


class Bench:
    """A log with items and queries, and the two jobs that read it."""

    def __init__(self, spark: SparkSession, folder: Path, items: int, queries: int) -> None:
        self._spark, self._folder, self._items = spark, folder, items
        self._log: Log = open_log(f"sqlite:///{folder}/log.db", create=True)
        self._starts = np.random.default_rng(0).integers(0, items - QUERY_ITEMS, queries)
        self._now = 1_000_000_000 * SECOND
        self._say("CREATE STREAM items (item BIGINT, value DOUBLE) KEY (item) WITH (lease = '1 h');")
        self._core = SourceCore("bench", 1, load_catalogue(self._log).streams["items"].options)
        self._grants = START

    def tolerant(self, batch_rows: int, batches: int, moments: int) -> list[float]:
        """Seconds of each measured batch. Values jump, so that all pass their filters: batches are of equal size."""
        stream = load_catalogue(self._log).streams["items"]
        pipeline = start(
            self._spark,
            self._log,
            PipelineSpec("items", [TOPIC, "queries"], lambda shard: BoundedShard(stream, shard, 1, "bench")),
            self._folder / "checkpoint",
            "bench",
        )
        handles = self._core.register([str(item) for item in range(self._items)])
        self._offer(handles, 1)
        self._settle(pipeline.queries[0].query)
        self._say("\n".join(self._query(number, first) for number, first in enumerate(self._starts)))
        queried = handles[np.unique(self._starts[:, None] + np.arange(QUERY_ITEMS))]
        self._offer(queried[:0], 1)
        self._settle(pipeline.queries[0].query)
        rng = np.random.default_rng(1)
        # As many rounds that do not count: grants go out and are confirmed, code is compiled.
        seconds = []
        for batch in range(2 * batches):
            self._take_grants()
            before = len(self._batches(pipeline.queries[0].query))
            # Items differ within a moment; over the moments of a batch they may come again.
            parts = [rng.choice(queried, batch_rows // moments, replace=False) for _ in range(moments)]
            self._offer(np.concatenate(parts), moments, rng)
            self._settle(pipeline.queries[0].query)
            if batch >= batches:
                seconds.append(sum(self._batches(pipeline.queries[0].query)[before:]))
        pipeline.queries[0].query.stop()
        return seconds

    def plain(self, batches: int, partitions: int) -> list[float]:
        """Seconds of each measured batch of the plain job: the same entries, the last of them."""
        members = {
            "query": np.repeat(np.arange(len(self._starts)), QUERY_ITEMS),
            "item": (self._starts[:, None] + np.arange(QUERY_ITEMS)).ravel(),
        }
        pq.write_table(pa.table(members), self._folder / "members.parquet")
        job = [sys.executable, str(Path(__file__).with_name("plain_job.py")), self._log.uri, TOPIC]
        job += [str(self._folder / "members.parquet"), str(self._folder / f"plain-{partitions}"), str(partitions)]
        done = subprocess.run(job, capture_output=True, text=True, check=False)
        if done.returncode:
            raise RuntimeError(done.stderr[-2000:])
        found: list[float] = json.loads(done.stdout.splitlines()[-1])
        return found[-batches:]

    def _query(self, number: int, first: int) -> str:
        where = f"item BETWEEN {first} AND {first + QUERY_ITEMS - 1}"
        return f"CREATE QUERY q{number} AS SELECT SUM(value) FROM items WHERE {where} WITHIN 5;"

    def _say(self, text: str) -> None:
        StatementClient(self._log).register(text)

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


if __name__ == "__main__":
    main()
