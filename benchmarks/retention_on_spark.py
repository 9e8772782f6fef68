"""Result rows at equal memory on Spark: `KEEP n ROWS` against Spark's own stream–stream join under a watermark, on keys
that drift; and whether the state of a long run stays flat.

Two streams, one row of each a millisecond. Keys of r rise by one a row, those of s follow `lag` rows behind, both with
uniform noise; so a row of r is worth much for a while, and one of s little. Spark's join gets a time window on both
sides whose rows are as many as ours keeps (|r.at − s.at| ≤ n/2 rows), and the state it really had is shown: it releases
rows only at the end of batches, and is given that. For comparison also the best window that one who knows the lag
could write (r before s by at most n rows). Our models are learned on the way.
"""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from side_by_side import Figure, arguments, report
from tolerant.client import StatementClient, kept_share
from tolerant.edge import Table
from tolerant.kinds import shard_factory
from tolerant.kinds.kept_joins.shard import AppendOnlyJoinShard
from tolerant.spark.pipeline import PipelineSpec, start
from tolerant.spark.session import session
from tolerant.sql import AppendOnlyJoinInput, CreateTable, parse
from tolerant.streams import SECOND
from tolerant.transport import Log, MemoryLog, open_log, rows
from tolerant.transport.changes import clock_row
from tolerant.transport.topics import changes_topic

Integers = NDArray[np.int64]

START = 1_000_000_000 * SECOND
TICK = 1_000
"""Microseconds between two rows of a stream."""
CHUNK = 1_000
"""Rows of each stream in a file, and before a clock row."""


def main() -> None:
    quick = arguments(__doc__ or "").quick
    keep, ticks, long = (400, 6_000, 12_000) if quick else (2_000, 20_000, 60_000)
    r, s = drifting(ticks, keep)
    possible = pairs(r, s)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        spark = session("local[2]", app="retention")
        found, share = kept(spark, folder, keep, r, s)
        write(folder, r, s)
        half = keep // 2 * TICK
        even = windowed(spark, folder, -half, half, "even")
        knowing = windowed(spark, folder, 0, keep * TICK, "knowing")
        spark.stop()
    states = snapshots(keep, long)
    growth, off = states[-1] / states[len(states) // 3], abs(share - found / possible)
    figures = [
        Figure("results possible", possible, ""),
        Figure("tolerant, KEEP n ROWS", found, "results"),
        Figure("Spark's join, window of n rows", even.results, "results"),
        Figure("rows that it had in its state, at most", even.state, "rows"),
        Figure("ratio", found / max(even.results, 1), "×", "≥ 2", found >= 2 * even.results),
        Figure("Spark's join, best window of n rows by one who knows the lag", knowing.results, "results"),
        Figure("rows that it had in its state, at most", knowing.state, "rows"),
        Figure("share of results: truth", found / possible, ""),
        Figure("share of results: the estimate's error", off, "", "≤ 0.1", off <= 0.1),
        Figure("state after a third of a long run", states[len(states) // 3] / 1e6, "MB"),
        Figure("growth from there to its end", growth, "×", "≤ 1.1", growth <= 1.1),
    ]
    inputs = {"KEEP": keep, "rows a stream": ticks, "rows a stream of the long run": long, "lag": lag_of(keep)}
    sys.exit(0 if report("retention-on-spark", inputs, figures) else 1)


def lag_of(keep: int) -> int:
    """How many rows s is behind."""
    return 7 * keep // 10


def drifting(ticks: int, keep: int) -> tuple[Integers, Integers]:
    """The keys of both streams."""
    rng, line = np.random.default_rng(3), np.arange(ticks)
    r = line + rng.integers(-keep // 5, keep // 5 + 1, ticks)
    return r, line - lag_of(keep) + rng.integers(-2 * keep // 5, 2 * keep // 5 + 1, ticks)


def pairs(r: Integers, s: Integers) -> int:
    """How many pairs have equal keys."""
    keys, counts = np.unique(r, return_counts=True)
    places = np.searchsorted(keys, s).clip(max=len(keys) - 1)
    return int(counts[places][keys[places] == s].sum())


# -- ours ------------------------------------------------------------------------------------------------------------


def tables() -> tuple[CreateTable, CreateTable]:
    """r and s."""
    r, s = (parse(f"CREATE TABLE {name} (id BIGINT, k BIGINT) KEY (id)") for name in "rs")
    assert isinstance(r, CreateTable)
    assert isinstance(s, CreateTable)
    return r, s


class Feed:
    """Writes both streams into a log, with clock rows in trace time."""

    def __init__(self, log: Log, keep: int) -> None:
        self._log, self._now = log, START
        for statement in (
            *tables(),
            parse(f"CREATE QUERY kept AS SELECT * FROM r JOIN s ON r.k = s.k KEEP {keep} ROWS"),
        ):
            StatementClient(log).send(statement)
        self._feeders = [Table(table, log, "bench", clock=lambda: self._now) for table in tables()]

    def say(self, begin: int, r: Integers, s: Integers) -> None:
        """Rows from number `begin` on, then a clock row."""
        for number, both in enumerate(zip(r.tolist(), s.tolist(), strict=True), begin):
            self._now = START + number * TICK
            for feeder, key in zip(self._feeders, both, strict=True):
                feeder.insert(id=number, k=key)
        for feeder in self._feeders:
            feeder.flush()
        self.clock(self._now + SECOND // 2)

    def clock(self, at: int) -> None:
        """Time passes."""
        for table in tables():
            self._log.append(changes_topic(table.name), clock_row(table.columns, at))


def kept(spark: SparkSession, folder: Path, keep: int, r: Integers, s: Integers) -> tuple[int, float]:
    """The results of our pipeline, and the share of all that it says they are."""
    log = open_log(f"sqlite:///{folder}/log.db", create=True)
    feed, pair = Feed(log, keep), AppendOnlyJoinInput.of(*tables())
    for begin in range(0, len(r), CHUNK):
        feed.say(begin, r[begin : begin + CHUNK], s[begin : begin + CHUNK])
    feed.clock(START + len(r) * TICK + 30 * SECOND)
    topics = ["queries", *map(changes_topic, "rs")]
    spec = PipelineSpec(pair.name, topics, shard_factory(pair, 1, "bench"))
    pipeline = start(spark, log, spec, folder / "spark", "bench")
    pipeline.queries[0].query.processAllAvailable()
    pipeline.queries[0].query.stop()
    found = sum(len(rows.unpack(entry.payload)) for entry in log.read("answers.kept"))
    said, status = kept_share(log, "kept"), log.latest(f"status.{pair.name}", "summary/0")
    assert said is not None
    assert status is not None
    assert json.loads(status.body)["figures"]["kept"]["kept"] <= keep
    log.close()
    return found, said.share


def snapshots(keep: int, ticks: int) -> list[int]:
    """The bytes of the state along a long run, without Spark."""
    log, found = MemoryLog(), []
    feed, shard, position = Feed(log, keep), AppendOnlyJoinShard(AppendOnlyJoinInput.of(*tables())), 0
    r, s = drifting(ticks, keep)
    for begin in range(0, ticks, CHUNK):
        feed.say(begin, r[begin : begin + CHUNK], s[begin : begin + CHUNK])
        entries = log.read(["queries", *map(changes_topic, "rs")], position)
        position = entries[-1].position
        shard.apply(entries)
        found.append(len(shard.snapshot()))
    return found


# -- Spark's own -----------------------------------------------------------------------------------------------------


class Windowed:
    """What a join with a time window found, and the most rows that its state had."""

    def __init__(self, results: int, state: int) -> None:
        self.results, self.state = results, state


def write(folder: Path, r: Integers, s: Integers) -> None:
    """Both streams as files, a chunk each."""
    for name, keys in (("r", r), ("s", s)):
        (folder / name).mkdir()
        for begin in range(0, len(keys), CHUNK):
            part = np.arange(begin, min(begin + CHUNK, len(keys)))
            at = pa.array(START + part * TICK).cast(pa.timestamp("us", "UTC"))
            pq.write_table(pa.table({"id": part, "k": keys[part], "at": at}), folder / name / f"{begin:09}.parquet")


def windowed(spark: SparkSession, folder: Path, low: int, high: int, name: str) -> Windowed:
    """Spark's stream–stream join where s.at − r.at is between `low` and `high` microseconds."""
    spark.conf.set("spark.sql.shuffle.partitions", "1")
    r, s = (_stream(spark, folder, side) for side in "rs")
    apart = F.unix_micros("s_at") - F.unix_micros("r_at")
    within = (F.col("s_at") >= F.col("r_at") + _interval(low)) & (F.col("s_at") <= F.col("r_at") + _interval(high))
    joined = r.join(s, (F.col("r_k") == F.col("s_k")) & within).select(apart)
    found: list[int] = []
    writer = joined.writeStream.foreachBatch(lambda batch, _: found.append(batch.count()))
    query = writer.option("checkpointLocation", str(folder / name)).trigger(availableNow=True).start()
    query.awaitTermination()
    states = [operator["numRowsTotal"] for progress in _progress(query) for operator in progress["stateOperators"]]
    return Windowed(sum(found), max(states))


def _progress(query: Any) -> list[dict[str, Any]]:
    return [json.loads(one.json) if hasattr(one, "json") and isinstance(one.json, str) else one
            for one in query.recentProgress]  # fmt: skip


def _interval(micros: int) -> Any:
    return F.expr(f"make_dt_interval(0, 0, 0, {micros / SECOND:.6f})")


def _stream(spark: SparkSession, folder: Path, side: str) -> DataFrame:
    source = spark.readStream.schema("id BIGINT, k BIGINT, at TIMESTAMP").option("maxFilesPerTrigger", 1)
    read = source.parquet(str(folder / side))
    named = read.select(*(F.col(column).alias(f"{side}_{column}") for column in ("id", "k", "at")))
    return named.withWatermark(f"{side}_at", "0 seconds")


if __name__ == "__main__":
    main()
