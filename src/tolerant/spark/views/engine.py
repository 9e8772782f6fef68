"""Spark as the engine of views."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.errors import (
    AnalysisException,
    ArithmeticException,
    DateTimeException,
    IllegalArgumentException,
    NumberFormatException,
    SparkRuntimeException,
)
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from tolerant.spark.failures import reason
from tolerant.spark.views.deltas import VERSION, Slice
from tolerant.spark.views.maintained import Sources
from tolerant.sql import CreateTable
from tolerant.sql.names import backticked
from tolerant.sql.view_select import WEIGHT
from tolerant.streams import Column

_SETTINGS = {
    "spark.sql.shuffle.partitions": "2",
    # A push is one small join: planning it stage by stage costs more than it can save.
    "spark.sql.adaptive.enabled": "false",
    # A view must not stop for one row: what cannot be worked out is NULL, as the rows of tables can be anything.
    "spark.sql.ansi.enabled": "false",
    "spark.sql.session.timeZone": "UTC",
    # A text such as '${env:HOME}' is a text.
    "spark.sql.variable.substitute": "false",
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
_USERS_FAULT = (
    AnalysisException,
    ArithmeticException,
    DateTimeException,
    IllegalArgumentException,
    NumberFormatException,
    SparkRuntimeException,
)
"""What Spark raises where a view cannot be worked out, whenever it is tried."""

_SMALL = 200_000  # rows that are sent to every task instead of shuffling the tables
_TINY = 1_000  # rows that are part of the plan: no job has to read them
_FRAMES = 64  # slices that are known to Spark at a time
_FULL = 0.5  # the share of Java's memory above which it is tidied up


class SparkEngine:
    """Runs SQL in a session of its own, whose names and settings nobody else sees."""

    def __init__(self, spark: SparkSession) -> None:
        self.spark = spark.newSession()
        for name, value in _SETTINGS.items():
            self.spark.conf.set(name, value)
        self._frames: dict[Slice, DataFrame] = {}
        self._named: dict[str, Slice | None] = {}  # what the names that its SQL reads stand for

    dialect = "spark"

    def columns(self, sql: str, tables: Sequence[CreateTable]) -> list[str]:
        """See `ViewEngine.columns`."""
        for table in tables:
            self.spark.createDataFrame([], _schema(table.columns)).createOrReplaceTempView(f"`{table.name}`")
            self._named.pop(table.name, None)  # a table may be called what a source is
        try:
            schema = self.spark.sql(sql).schema
        except _USERS_FAULT as error:
            raise ValueError(f"Spark cannot run it: {reason(error)}") from error
        for field in schema:
            if field.dataType.simpleString() not in _TYPES:
                raise ValueError(
                    f"column {field.name} is {field.dataType.simpleString().upper()}, which no table can hold:"
                    " use CAST(… AS DOUBLE), or another of STRING, BOOLEAN, INT, BIGINT and FLOAT"
                )
        return [_TYPES[field.dataType.simpleString()] for field in schema]

    def run(self, sql: str, sources: Sources) -> pa.Table:
        """See `Engine.run`."""
        for name, source in sources.items():
            if not isinstance(source, Slice):
                self._given(source).createOrReplaceTempView(name)
            elif self._named.get(name) != source:
                self._known(source).createOrReplaceTempView(name)
            self._named[name] = source if isinstance(source, Slice) else None
        try:
            return self.spark.sql(sql).toArrow()
        except _USERS_FAULT as error:
            raise ValueError(f"Spark cannot run it: {reason(error)}") from error

    def rest(self) -> None:
        """Collects garbage while no request waits, if Java would otherwise soon do so during a push."""
        java = self.spark._jvm.java.lang
        runtime = java.Runtime.getRuntime()
        if runtime.totalMemory() - runtime.freeMemory() > _FULL * runtime.maxMemory():
            java.System.gc()

    def _known(self, source: Slice) -> DataFrame:
        """Returns the frame of a slice, cached: files never change, and listing them takes as long as a small join."""
        frame = self._frames.pop(source, None)
        if frame is None:
            frame = self._sliced(source)
        self._frames[source] = frame
        if len(self._frames) > _FRAMES:
            self._frames.pop(next(iter(self._frames)))
        return frame

    def _given(self, rows: pa.Table) -> DataFrame:
        frame = self.spark.createDataFrame(rows)
        return F.broadcast(frame) if len(rows) <= _SMALL else frame

    def _sliced(self, source: Slice) -> DataFrame:
        if sum(pq.read_metadata(path).num_rows for path in source.files) <= _TINY:
            return self._given(source.read().drop_columns([VERSION]))
        own = _schema(source.columns)
        schema = f"{WEIGHT} BIGINT" + (f", {own}" if own else "")
        paths = [str(path) for path in source.files]
        if source.whole:
            return self.spark.read.schema(schema).parquet(*paths)
        version = F.col(VERSION)
        frame = self.spark.read.schema(f"{VERSION} BIGINT, {schema}").parquet(*paths)
        return frame.where((version > source.low) & (version <= source.high)).drop(VERSION)


def _schema(columns: Sequence[Column]) -> str:
    """Columns as Spark's DDL has them."""
    return ", ".join(f"{backticked(column.name)} {column.type}" for column in columns)
