"""Spark as the engine of views."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.utils import AnalysisException

from tolerant.spark.failures import reason
from tolerant.spark.views.deltas import VERSION, Slice
from tolerant.spark.views.maintained import Sources
from tolerant.sql import CreateTable
from tolerant.sql.viewing import WEIGHT

_SETTINGS = {
    "spark.sql.shuffle.partitions": "2",
    # A push is one small join: planning it stage by stage costs more than it can save.
    "spark.sql.adaptive.enabled": "false",
    # A view must not stop for one row: what cannot be worked out is NULL, as the rows of tables can be anything.
    "spark.sql.ansi.enabled": "false",
    "spark.sql.session.timeZone": "UTC",
}
_TYPES = {
    "string": "STRING",
    "boolean": "BOOLEAN",
    "tinyint": "INT",
    "smallint": "INT",
    "int": "INT",
    "bigint": "BIGINT",
    "float": "FLOAT",
    "double": "DOUBLE",
}
_SMALL = 200_000  # rows that are sent to every task instead of shuffling the tables


class SparkEngine:
    """Runs SQL in a session of its own, whose names and settings nobody else sees."""

    def __init__(self, spark: SparkSession) -> None:
        self.spark = spark.newSession()
        for name, value in _SETTINGS.items():
            self.spark.conf.set(name, value)

    dialect = "spark"

    def columns(self, sql: str, tables: Sequence[CreateTable]) -> list[str]:
        """See `ViewEngine.columns`."""
        for table in tables:
            schema = ", ".join(f"`{column.name}` {column.type}" for column in table.columns)
            self.spark.createDataFrame([], schema).createOrReplaceTempView(f"`{table.name}`")
        try:
            found = self.spark.sql(sql).schema
        except AnalysisException as error:
            raise ValueError(f"Spark cannot run it: {reason(error)}") from error
        for field in found:
            if field.dataType.simpleString() not in _TYPES:
                raise ValueError(
                    f"column {field.name} is {field.dataType.simpleString().upper()}, which no table can hold:"
                    " use CAST(… AS DOUBLE), or another of STRING, BOOLEAN, INT, BIGINT and FLOAT"
                )
        return [_TYPES[field.dataType.simpleString()] for field in found]

    def run(self, sql: str, sources: Sources) -> pa.Table:
        """See `Engine.run`."""
        for name, source in sources.items():
            frame = self._sliced(source) if isinstance(source, Slice) else self._given(source)
            frame.createOrReplaceTempView(name)
        return self.spark.sql(sql).toArrow()

    def _given(self, rows: pa.Table) -> DataFrame:
        frame = self.spark.createDataFrame(rows)
        return F.broadcast(frame) if len(rows) <= _SMALL else frame

    def _sliced(self, source: Slice) -> DataFrame:
        own = ", ".join(f"`{column.name}` {column.type}" for column in source.columns)
        schema = f"{WEIGHT} BIGINT" + (f", {own}" if own else "")
        if not source.files:
            return self.spark.createDataFrame([], schema)
        paths = [str(path) for path in source.files]
        if source.whole:
            return self.spark.read.schema(schema).parquet(*paths)
        version = F.col(VERSION)
        frame = self.spark.read.schema(f"{VERSION} BIGINT, {schema}").parquet(*paths)
        return frame.where((version > source.low) & (version <= source.high)).drop(VERSION)
