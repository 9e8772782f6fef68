"""The job that joins on Spark are measured against: each micro-batch joined with the table of queries by Spark SQL.

It reads the same packed entries of the same log as our pipeline, batch by batch, keeps both tables as the entries have
left them, and asks Spark SQL for the result rows that the batch has made (1) and unmade (-1): how many, and a checksum
of (query, row, row), so that nothing is spent on bringing them anywhere.
`python joins_plain.py LOG_URI QUERIES.parquet CHECKPOINT ORDER` prints (seconds, results by sign) of its batches as
JSON; ORDER says which join comes first, that with the queries or that of the tables.
"""

from __future__ import annotations

import json
import os
import sys
import time
from typing import Any

import pandas as pd
from pyspark.sql import DataFrame, SparkSession

from tolerant.spark.java import java_home
from tolerant.spark.source import LogSource
from tolerant.transport import rows

ENTRIES = 4
"""Entries a batch: rows and a clock row of each table, as our own pipeline takes them."""

_TOLD = "SELECT sign, count(*) AS n, sum((n * 31 + r * 17 + s * 7) % 1000003) AS sum FROM ({}) GROUP BY sign"
_FIRST = {
    # Rows that have changed on the left with all that were or are on the right; then the other way round, the left ones
    # that have not changed alone.
    "queries": """
        SELECT t.sign, q.n, t.id AS r, s.id AS s FROM touched_r t JOIN q ON t.a BETWEEN q.a1 AND q.a2
          JOIN s ON t.b = s.b AND s.c BETWEEN q.c1 AND q.c2 AND (s.sign = 0 OR s.sign = t.sign)
        UNION ALL
        SELECT t.sign, q.n, r.id AS r, t.id AS s FROM touched_s t JOIN q ON t.c BETWEEN q.c1 AND q.c2
          JOIN r ON t.b = r.b AND r.a BETWEEN q.a1 AND q.a2 AND r.sign = 0""",
    "tables": """
        SELECT t.sign, q.n, t.id AS r, s.id AS s FROM touched_r t
          JOIN s ON t.b = s.b AND (s.sign = 0 OR s.sign = t.sign)
          JOIN q ON t.a BETWEEN q.a1 AND q.a2 AND s.c BETWEEN q.c1 AND q.c2
        UNION ALL
        SELECT t.sign, q.n, r.id AS r, t.id AS s FROM touched_s t JOIN r ON t.b = r.b AND r.sign = 0
          JOIN q ON t.c BETWEEN q.c1 AND q.c2 AND r.a BETWEEN q.a1 AND q.a2""",
    # Bands: equal cells of a difference let Spark join by hash. floor(x / w) never falls as x rises, so a
    # band that holds a difference reaches its cell, and only once.
    "bands": """
        SELECT /*+ BROADCAST(q) */ p.sign, q.n, p.r, p.s FROM (
          SELECT t.sign, t.id AS r, s.id AS s, s.b - t.b AS d FROM touched_r t CROSS JOIN s
            WHERE s.sign = 0 OR s.sign = t.sign
          UNION ALL
          SELECT t.sign, r.id AS r, t.id AS s, t.b - r.b AS d FROM touched_s t CROSS JOIN r WHERE r.sign = 0
        ) p JOIN (SELECT n, low, high, explode(sequence(floor(low / {w}), floor(high / {w}))) AS cell FROM q) q
          ON q.cell = floor(p.d / {w}) AND p.d BETWEEN q.low AND q.high""".replace("{w}", "0.01"),
}


def main(uri: str, queries_file: str, checkpoint: str, order: str) -> None:
    os.environ["JAVA_HOME"] = str(java_home())
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    builder = SparkSession.builder.master("local[2]").appName("plain").config("spark.ui.enabled", "false")
    builder = builder.config("spark.driver.bindAddress", "127.0.0.1").config("spark.driver.host", "127.0.0.1")
    builder = builder.config("spark.sql.execution.arrow.pyspark.enabled", "true")
    spark = builder.config("spark.sql.shuffle.partitions", "2").getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    spark.dataSource.register(LogSource)
    queries = spark.read.parquet(queries_file).cache()
    queries.count()
    queries.createOrReplaceTempView("q")
    job = Job(spark, _TOLD.format(_FIRST[order]))
    topics = json.dumps(["changes.r", "changes.s"])
    options = {"uri": uri, "topics": topics, "entries": str(ENTRIES), "bytes": str(1 << 30)}
    packed = spark.readStream.format(LogSource.name()).options(**options).load()
    writer = packed.writeStream.foreachBatch(job).trigger(availableNow=True)
    query = writer.option("checkpointLocation", checkpoint).start()
    query.awaitTermination()
    if query.exception() is not None:
        raise RuntimeError(str(query.exception()))
    print(json.dumps(job.done))
    spark.stop()


class Job:
    """The tables as they are, and what each batch came to."""

    def __init__(self, spark: SparkSession, sql: str) -> None:
        self._spark, self._sql = spark, sql
        self._tables: dict[str, pd.DataFrame] = {}
        self.done: list[tuple[float, dict[str, Any]]] = []

    def __call__(self, frame: DataFrame, batch: int) -> None:
        """One micro-batch."""
        begin = time.perf_counter()
        entries = frame.select("topic", "payload").collect()
        first = not self._tables
        for name in "rs":
            batches = [rows.unpack(bytes(e.payload)).to_pandas() for e in entries if e.topic == f"changes.{name}"]
            changed = pd.concat(batches)
            self._change(name, changed[changed["kind"] != "clock"])
        if not first:
            found = self._spark.sql(self._sql).collect()
            told = {str(row.sign): (row.n, row.sum) for row in found}
            self.done.append((time.perf_counter() - begin, told))

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


if __name__ == "__main__":
    main(*sys.argv[1:5])
