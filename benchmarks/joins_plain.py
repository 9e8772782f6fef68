"""The job that joins on Spark are measured against: each micro-batch joined with the table of queries by Spark SQL.

It reads the same packed entries of the same log as our pipeline, batch by batch, keeps both tables as the entries have
left them, and asks Spark SQL for the results that the batch has made (1) and unmade (-1): once only for how many there
are, with a checksum, and once to have them written, each with its query and the columns of both rows, as Parquet files.
(One row a result: to group them into lists, as ours are, it would have to shuffle them once more.)
`python joins_plain.py LOG_URI QUERIES.parquet FOLDER ORDER` prints for each batch the seconds of both and the results
by sign, of what was counted and of what the files have, as JSON; ORDER says which join comes first, that with the
queries or that of the tables.
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession

from entry_source import EntrySource
from tolerant.spark.java import java_home
from tolerant.transport import rows

ENTRIES = 4
"""Entries per batch: rows and a clock row of each table, as our own pipeline takes them."""

_TOLD = "SELECT sign, count(*) AS n, sum((n * 31 + r * 17 + s * 7) % 1000003) AS sum FROM ({}) GROUP BY sign"
_R, _S = "{0}.id AS r, {0}.b AS r_b, {0}.a AS r_a", "{0}.id AS s, {0}.b AS s_b, {0}.c AS s_c"
_OF_R, _OF_S = f"{_R.format('t')}, {_S.format('s')}", f"{_R.format('r')}, {_S.format('t')}"
_FIRST = {
    # Rows that have changed on the left with all that were or are on the right; then the other way round, the left ones
    # that have not changed alone.
    "queries": f"""
        SELECT t.sign, q.n, {_OF_R} FROM touched_r t JOIN q ON t.a BETWEEN q.a1 AND q.a2
          JOIN s ON t.b = s.b AND s.c BETWEEN q.c1 AND q.c2 AND (s.sign = 0 OR s.sign = t.sign)
        UNION ALL
        SELECT t.sign, q.n, {_OF_S} FROM touched_s t JOIN q ON t.c BETWEEN q.c1 AND q.c2
          JOIN r ON t.b = r.b AND r.a BETWEEN q.a1 AND q.a2 AND r.sign = 0""",
    "tables": f"""
        SELECT t.sign, q.n, {_OF_R} FROM touched_r t
          JOIN s ON t.b = s.b AND (s.sign = 0 OR s.sign = t.sign)
          JOIN q ON t.a BETWEEN q.a1 AND q.a2 AND s.c BETWEEN q.c1 AND q.c2
        UNION ALL
        SELECT t.sign, q.n, {_OF_S} FROM touched_s t JOIN r ON t.b = r.b AND r.sign = 0
          JOIN q ON t.c BETWEEN q.c1 AND q.c2 AND r.a BETWEEN q.a1 AND q.a2""",
    # Bands: equal cells of a difference let Spark join by hash. floor(x / w) never falls as x rises, so a
    # band that holds a difference reaches its cell, and only once.
    "bands": f"""
        SELECT /*+ BROADCAST(q) */ p.sign, q.n, p.r, p.r_b, p.r_a, p.s, p.s_b, p.s_c FROM (
          SELECT t.sign, {_OF_R}, s.b - t.b AS d FROM touched_r t CROSS JOIN s WHERE s.sign = 0 OR s.sign = t.sign
          UNION ALL
          SELECT t.sign, {_OF_S}, t.b - r.b AS d FROM touched_s t CROSS JOIN r WHERE r.sign = 0
        ) p JOIN (SELECT n, low, high, explode(sequence(floor(low / 0.01), floor(high / 0.01))) AS cell FROM q) q
          ON q.cell = floor(p.d / 0.01) AND p.d BETWEEN q.low AND q.high""",
}


def main(uri: str, queries_file: str, folder: str, order: str) -> None:
    os.environ["JAVA_HOME"] = str(java_home())
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    builder = SparkSession.builder.master("local[2]").appName("plain").config("spark.ui.enabled", "false")
    builder = builder.config("spark.driver.bindAddress", "127.0.0.1").config("spark.driver.host", "127.0.0.1")
    builder = builder.config("spark.sql.execution.arrow.pyspark.enabled", "true")
    spark = builder.config("spark.sql.shuffle.partitions", "2").getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    spark.dataSource.register(EntrySource)
    queries = spark.read.parquet(queries_file).cache()
    queries.count()
    queries.createOrReplaceTempView("q")
    job = Job(spark, _FIRST[order], Path(folder))
    topics = json.dumps(["changes.r", "changes.s"])
    options = {"uri": uri, "topics": topics, "entries": str(ENTRIES), "bytes": str(1 << 30)}
    packed = spark.readStream.format(EntrySource.name()).options(**options).load()
    writer = packed.writeStream.foreachBatch(job).trigger(availableNow=True)
    query = writer.option("checkpointLocation", f"{folder}/checkpoint").start()
    query.awaitTermination()
    if query.exception() is not None:
        raise RuntimeError(str(query.exception()))
    print(json.dumps(job.done))
    spark.stop()


class Job:
    """The tables as they are, and what each batch came to."""

    def __init__(self, spark: SparkSession, sql: str, folder: Path) -> None:
        self._spark, self._sql, self._folder = spark, sql, folder
        self._tables: dict[str, pd.DataFrame] = {}
        self.done: list[dict[str, Any]] = []

    def __call__(self, frame: DataFrame, batch: int) -> None:
        """One micro-batch."""
        begin = time.perf_counter()
        entries = frame.select("topic", "payload").collect()
        first = not self._tables
        for name in "rs":
            batches = [rows.unpack(bytes(e.payload)).to_pandas() for e in entries if e.topic == f"changes.{name}"]
            changed = pd.concat(batches)
            self._change(name, changed[changed["kind"] != "clock"])
        taken = time.perf_counter() - begin
        if not first:
            counted, counts = self._timed(lambda: self._spark.sql(_TOLD.format(self._sql)).collect())
            path = self._folder / f"results-{batch}"
            written, _ = self._timed(lambda: self._spark.sql(self._sql).write.parquet(str(path)))
            told = {"counted": {str(row.sign): (row.n, row.sum) for row in counts}, "written": _read(path)}
            self.done.append({"counting": taken + counted, "writing": taken + written, **told})

    @staticmethod
    def _timed(action: Any) -> tuple[float, Any]:
        begin = time.perf_counter()
        found = action()
        return time.perf_counter() - begin, found

    def _change(self, name: str, changed: pd.DataFrame) -> None:
        """Take the changes; what SQL sees: rows that went (-1), came (1), and those that were and are there (0)."""
        new = changed[changed["kind"] == "insert"].filter(like="row.")
        new.columns = [column.removeprefix("row.") for column in new.columns]
        new = new.astype({"id": "int64"}).set_index("id")  # a deletion has none of the columns
        old = self._tables.get(name, new.iloc[:0])
        gone = old[old.index.isin(changed["key"].astype("int64"))]
        kept = old[~old.index.isin(gone.index)]
        self._tables[name] = pd.concat([kept, new])
        touched = pd.concat([gone.assign(sign=-1), new.assign(sign=1)]).reset_index()
        seen = pd.concat([touched.set_index("id"), kept.assign(sign=0)]).reset_index()
        self._spark.createDataFrame(touched).createOrReplaceTempView(f"touched_{name}")
        self._spark.createDataFrame(seen).createOrReplaceTempView(name)


def _read(path: Path) -> dict[str, tuple[int, int]]:
    """What the files have: results by sign, and their checksum."""
    found = pq.read_table(path, columns=["sign", "n", "r", "s"])
    sign, n, r, s = (column.to_numpy() for column in found.columns)
    sums = (n * 31 + r * 17 + s * 7) % 1_000_003
    return {str(one): (int((sign == one).sum()), int(sums[sign == one].sum())) for one in (-1, 1) if one in sign}


if __name__ == "__main__":
    main(*sys.argv[1:5])
