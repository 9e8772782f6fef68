"""Where the time of a micro-batch goes: the real pipeline on a steady trickle of rows, small batches, local[2].

Spark's own figures of each batch (planning, running it, its two checkpoint files), and our timers
around the core in the worker and around the append in the driver. Medians over the batches after a warm-up.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from side_by_side import Figure, arguments, report
from tolerant.kinds.bounded.factory import BoundedFactory
from tolerant.pipeline.hosting import Hosted, Output
from tolerant.spark.pipeline import PipelineSpec, start
from tolerant.spark.session import session
from tolerant.streams import Column, Stream
from tolerant.transport import SqliteLog, rows
from tolerant.transport.log import Entry

STREAM = Stream("profile", (Column("item", "BIGINT"), Column("value", "DOUBLE")), ("item",))
TOPIC = "updates.profile"
SPARK = {
    "latestOffset": "ask the log how far it goes",
    "walCommit": "write the offsets file",
    "queryPlanning": "plan the batch",
    "addBatch": "run it",
    "commitOffsets": "write the commit file",
    "triggerExecution": "the whole batch",
}


def main() -> None:
    quick = arguments(__doc__ or "").quick
    items, seconds = (100, 10.0) if quick else (10_000, 60.0)
    begun = time.perf_counter()
    spark = session("local[2]", app="batch-profile")
    up = time.perf_counter() - begun
    with tempfile.TemporaryDirectory() as folder:
        log = TimedLog(Path(folder) / "log.db")
        factory = TimedFactory(BoundedFactory(STREAM, 1, "profile"), Path(folder) / "core.txt")
        spec = PipelineSpec("profile", [TOPIC, "queries"], factory)
        pipeline = start(spark, log, spec, Path(folder) / "checkpoint", "c")
        feed(log, items, 0)
        while not log.batches:
            assert not pipeline.ended, pipeline.failure
            time.sleep(0.01)
        first = time.perf_counter() - begun
        end, number = time.perf_counter() + seconds, 1
        while time.perf_counter() < end:
            feed(log, items, number)
            number += 1
            time.sleep(0.1)
        pipeline.stop()
        figures = [Figure("session", up, "s"), Figure("first batch after the process began", first, "s")]
        figures += profile(pipeline.queries[0].query.recentProgress[5:], log, factory.times()[5:])
    spark.stop()
    sys.exit(0 if report("batch-profile", {"items": items, "rows per second": items}, figures) else 1)


def feed(log: SqliteLog, items: int, number: int) -> None:
    """A tenth of the items, and a clock row, as one source would send them in 100 ms."""
    now = time.time_ns() // 1000
    keys = [str(item) for item in range(number % 10, items, 10)]
    n = len(keys)
    sequence = (1 << 40) + number * n + np.arange(1, n + 1)
    values = np.random.default_rng(number).normal(size=n)
    kind = "update" if number >= 10 else "hello"
    batch = rows.updates_batch(
        kind=kind, keys=keys, at=[now] * n, source="source", sequence=sequence, through=now, value=values
    )
    log.append_packed([(TOPIC, rows.pack(batch)), (TOPIC, rows.pack(rows.clock_batch(now)))])


def profile(progress: Sequence[Any], log: TimedLog, core: list[float]) -> list[Figure]:
    """The medians, milliseconds."""
    taken = [p for p in progress if p["numInputRows"]]

    def median(values: Sequence[float]) -> float:
        return statistics.median(values) if values else 0.0

    figures = [
        Figure(f"{name}: {what}", median([p["durationMs"].get(name, 0) for p in taken]), "ms")
        for name, what in SPARK.items()
    ]
    return [
        *figures,
        Figure("of addBatch, the core itself", median(core) * 1e3, "ms"),
        Figure("of addBatch, append to the log", median(log.batches[5:]) * 1e3, "ms"),
        Figure("p99 of the whole batch", float(np.percentile([p["batchDuration"] for p in taken], 99)), "ms"),
        Figure("batches", len(taken), ""),
    ]


class TimedLog(SqliteLog):
    """Notes how long each batch's append takes, seconds."""

    def __init__(self, path: Path) -> None:
        super().__init__(path, create=True)
        self.batches: list[float] = []

    def append_once(self, *arguments: Any) -> bool:
        """As the log does."""
        begun = time.perf_counter()
        done = super().append_once(*arguments)
        self.batches.append(time.perf_counter() - begun)
        return done


@dataclass(frozen=True)
class TimedFactory:
    """Makes cores that note in a file how long each batch takes them, seconds."""

    factory: BoundedFactory
    file: Path

    def __call__(self, shard: int) -> Hosted:
        """A core."""
        return TimedCore(self.factory(shard), self.file)

    def times(self) -> list[float]:
        """What the cores have noted."""
        return [float(line) for line in self.file.read_text().split()]


class TimedCore:
    """A core with a stopwatch."""

    def __init__(self, core: Hosted, file: Path) -> None:
        self._core, self._file = core, file
        self.restore, self.snapshot, self.waiting_rows = core.restore, core.snapshot, core.waiting_rows

    def apply(self, batch: Sequence[Entry]) -> list[Output]:
        """As the core does."""
        begun = time.perf_counter()
        done = self._core.apply(batch)
        with self._file.open("a") as file:
            print(time.perf_counter() - begun, file=file)
        return done


if __name__ == "__main__":
    main()
