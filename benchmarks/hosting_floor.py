"""What a batch costs before the shard does anything: a shard that publishes a row per batch, on batches of one entry,
hosted in the source and in the operator that was before, one after the other on one session, local[2].

Medians of Spark's own figure for a whole batch, after a warm-up; and the seconds to the first batch of each.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql.streaming import StreamingQuery

import operator_hosting
from side_by_side import Figure, arguments, report
from tolerant.pipeline.hosting import Output
from tolerant.spark.pipeline import PipelineSpec, start
from tolerant.spark.session import session
from tolerant.transport import SqliteLog, rows
from tolerant.transport.log import Entry
from tolerant.transport.quarantine import WaitingRow

TOPIC = "updates.floor"
TARGET = 0.25
WARM = 20  # batches that do not count


class Counter:
    """A shard that counts its entries."""

    def __init__(self, shard: int) -> None:
        self._count = 0

    def apply(self, batch: Sequence[Entry]) -> list[Output]:
        """One row."""
        self._count += len(batch)
        return [Output("answers.floor", rows.pack(pa.record_batch({"count": [self._count]})))]

    def snapshot(self) -> bytes:
        """The count."""
        return self._count.to_bytes(8, "little")

    def restore(self, snapshot: bytes) -> None:
        """Become what `snapshot` said."""
        self._count = int.from_bytes(snapshot, "little")

    def waiting_rows(self) -> list[WaitingRow]:
        """None."""
        return []


Begin = Callable[[SparkSession, SqliteLog, Path], tuple[StreamingQuery, Callable[[], None]]]


def main() -> None:
    quick = arguments(__doc__ or "").quick
    batches = 20 if quick else 90
    spark = session("local[2]", app="floor")
    figures, floors = [], {}
    for name, begin in {
        "in the source": in_source,
        "in the operator": in_operator,
        "in the source, again": in_source,
    }.items():
        with tempfile.TemporaryDirectory() as folder:
            first, floor = measure(spark, Path(folder), begin, batches)
        floors[name] = floor
        figures += [Figure(f"{name}: first batch", first, "s"), Figure(f"{name}: median of a batch", floor * 1e3, "ms")]
    spark.stop()
    ratio = floors["in the source, again"] / floors["in the operator"]
    figures.append(Figure("in the source / in the operator", ratio, "×", f"≤ {TARGET}", ratio <= TARGET))
    sys.exit(0 if report("hosting-floor", {"batches": batches, "warm-up": WARM}, figures) else 1)


def in_source(spark: SparkSession, log: SqliteLog, folder: Path) -> tuple[StreamingQuery, Callable[[], None]]:
    """Today's hosting."""
    pipeline = start(spark, log, PipelineSpec("floor", [TOPIC], Counter), folder, "c")
    return pipeline.queries[0].query, pipeline.stop


def in_operator(spark: SparkSession, log: SqliteLog, folder: Path) -> tuple[StreamingQuery, Callable[[], None]]:
    """The hosting that was before."""
    query = operator_hosting.start(spark, log, [TOPIC], Counter, folder)
    return query, query.stop


def measure(spark: SparkSession, folder: Path, begin: Begin, batches: int) -> tuple[float, float]:
    """Seconds to the first batch, and the median of a batch."""
    log = SqliteLog(folder / "log.db", create=True)
    log.append(TOPIC, pa.record_batch({"value": [0]}))
    started = time.perf_counter()
    query, stop = begin(spark, log, folder / "checkpoint")
    while not log.read("answers.floor"):
        time.sleep(0.005)
    first = time.perf_counter() - started
    seconds: list[float] = []
    for number in range(WARM + batches):
        log.append(TOPIC, pa.record_batch({"value": [number]}))
        query.processAllAvailable()
    seconds = [p["batchDuration"] / 1e3 for p in query.recentProgress if p["numInputRows"]]
    stop()
    log.close()
    return first, statistics.median(seconds[WARM:])


if __name__ == "__main__":
    main()
