"""The job that the pipeline's throughput is measured against: what a Spark engineer would write without Tolerant.

It keeps the last value of each item in Spark's state and aggregates every query again in each batch. A process of its
own, with Spark's own settings, those for state included; it reads the same packed entries of the same log.
`python plain_job.py LOG_URI TOPIC MEMBERS.parquet CHECKPOINT PARTITIONS` prints the seconds of its batches as JSON.
PARTITIONS: of its shuffles; Spark's own setting is 200, and somebody who tunes the job for two cores says 2.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from entry_source import EntrySource
from tolerant.spark.java import java_home
from tolerant.transport import rows

ENTRIES = 2
"""Entries per batch: rows and their clock row, as our own pipeline takes them."""


def main(uri: str, topic: str, members_file: str, checkpoint: str, partitions: str) -> None:
    os.environ["JAVA_HOME"] = str(java_home())
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    builder = SparkSession.builder.master("local[2]").appName("plain").config("spark.ui.enabled", "false")
    builder = builder.config("spark.driver.bindAddress", "127.0.0.1").config("spark.driver.host", "127.0.0.1")
    spark = builder.config("spark.sql.shuffle.partitions", partitions).getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    spark.dataSource.register(EntrySource)
    members = spark.read.parquet(members_file).cache()
    members.count()
    options = {"uri": uri, "topics": json.dumps([topic]), "entries": str(ENTRIES), "bytes": str(1 << 30)}
    packed = spark.readStream.format(EntrySource.name()).options(**options).load()
    values = packed.mapInArrow(unpacked, "item bigint, at bigint, value double")
    last = values.groupBy("item").agg(F.max_by("value", "at").alias("value"))

    def aggregate(frame: DataFrame, batch: int) -> None:
        members.join(F.broadcast(frame), "item").groupBy("query").agg(F.sum("value")).collect()

    writer = last.writeStream.outputMode("complete").foreachBatch(aggregate).trigger(availableNow=True)
    query = writer.option("checkpointLocation", checkpoint).start()
    query.awaitTermination()
    if query.exception() is not None:
        raise RuntimeError(str(query.exception()))
    progress = [p for p in query.recentProgress if p["numInputRows"] > 0]
    print(json.dumps([p["batchDuration"] / 1000 for p in progress]))
    spark.stop()


def unpacked(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Packed entries as rows: what a plain job needs of them."""
    import pyarrow.compute as pc

    for batch in batches:
        for payload in batch.column("payload").to_pylist():
            found = rows.unpack(payload)
            keys = found.column("key").cast(pa.string())
            kept = pc.not_equal(keys, "")
            item = keys.filter(kept).cast(pa.int64())
            at, value = found.column("at").filter(kept), found.column("value").filter(kept)
            yield pa.record_batch([item, at, value], names=["item", "at", "value"])


if __name__ == "__main__":
    main(*sys.argv[1:6])
