"""Spark as the engine of views."""

from __future__ import annotations

import contextlib
import itertools
import math
import threading
from collections.abc import Iterator, Sequence

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
from pyspark.sql.types import BooleanType

from tolerant.spark.failures import reason
from tolerant.spark.views.deltas import VERSION, Slice
from tolerant.spark.views.maintained import Sources
from tolerant.spark.views.time_limits import LEAST, TookTooLong
from tolerant.sql import CreateTable
from tolerant.sql.names import backticked
from tolerant.sql.view_select import RUNNING, WEIGHT, ViewPlan
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
_AGAIN = 1.0  # seconds after which jobs that have begun since are cancelled too

_groups = itertools.count(1)  # of jobs, in this process


class SparkEngine:
    """Runs SQL in a session of its own, whose names and settings nobody else sees."""

    def __init__(self, spark: SparkSession) -> None:
        self.spark = spark.newSession()
        for name, value in _SETTINGS.items():
            self.spark.conf.set(name, value)
        self.spark.udf.registerJavaFunction(RUNNING, "tolerant.Running", BooleanType())
        self._frames: dict[Slice, DataFrame] = {}
        self._named: dict[str, Slice | None] = {}  # what the names that its SQL reads stand for

    dialect = "spark"

    def columns(self, plan: ViewPlan, tables: Sequence[CreateTable]) -> list[str]:
        """See `ViewEngine.columns`."""
        for table in tables:
            self.spark.createDataFrame([], _schema(table.columns)).createOrReplaceTempView(f"`{table.name}`")
            self._named.pop(table.name, None)  # a table may be called what a source is
        columns = self._types(plan.sql)
        for name, type_ in columns:
            _check_type(f"column {name}", type_)
        if plan.parts:  # a group's key is kept, and written to the log, whether or not it is a column
            kinds = [("the key", key) for key in plan.keys] + [("the argument", text) for text in plan.arguments]
            for (kind, text), (_, type_) in zip(kinds, self._types(plan.parts), strict=True):
                _check_type(f"{kind} {text:.80}", type_)
        return [_TYPES[type_] for _, type_ in columns]

    def _types(self, sql: str) -> list[tuple[str, str]]:
        """Returns the columns of a select and their types, as Spark has them.

        Raises:
            ValueError: Spark cannot run it.
        """
        try:
            return [(field.name, field.dataType.simpleString()) for field in self.spark.sql(sql).schema]
        except _USERS_FAULT as error:
            raise ValueError(f"Spark cannot run it: {reason(error)}") from error

    def run(self, sql: str, sources: Sources, limit: float = math.inf) -> pa.Table:
        """See `Engine.run`."""
        for name, source in sources.items():
            if not isinstance(source, Slice):
                self._given(source).createOrReplaceTempView(name)
            elif self._named.get(name) != source:
                self._known(source).createOrReplaceTempView(name)
            self._named[name] = source if isinstance(source, Slice) else None
        try:
            with self._limited(limit):
                return self.spark.sql(sql).toArrow()
        except _USERS_FAULT as error:
            raise ValueError(f"Spark cannot run it: {reason(error)}") from error

    def check(self) -> None:
        """See `ViewEngine.check`."""
        context = self.spark.sparkContext
        cores = context.defaultParallelism
        try:
            with self._limited(LEAST):
                self.spark.range(0, cores, 1, cores).select(F.sum("id")).toArrow()
        except TookTooLong:
            raise RuntimeError(f"Spark has not run a task on each of its {cores} cores within {LEAST:g} s") from None

    @contextlib.contextmanager
    def _limited(self, limit: float) -> Iterator[None]:
        """Cancels the jobs of this thread that still run after so many seconds.

        Raises:
            TookTooLong: some did.
        """
        if not math.isfinite(limit):
            yield
            return
        context, group, ended, cancelled = self.spark.sparkContext, f"view-{next(_groups)}", threading.Event(), False

        def watch() -> None:
            nonlocal cancelled
            pause = limit
            while not ended.wait(pause):
                cancelled, pause = True, _AGAIN
                with contextlib.suppress(Exception):  # Spark may have gone: whoever waits for the job will know
                    context.cancelJobGroup(group)

        context.setJobGroup(group, "a view", interruptOnCancel=True)
        watchdog = threading.Thread(target=watch, name=group, daemon=True)
        watchdog.start()
        try:
            yield
        except Exception:
            if cancelled:
                raise TookTooLong(f"it took longer than {limit:g} s") from None
            raise
        finally:
            ended.set()
            watchdog.join()
            context.setLocalProperty("spark.jobGroup.id", None)

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


def _check_type(what: str, type_: str) -> None:
    if type_ not in _TYPES:
        raise ValueError(
            f"{what} is {type_.upper()}, which no table can hold:"
            " use CAST(… AS DOUBLE), or another of STRING, BOOLEAN, INT, BIGINT and FLOAT"
        )


def _schema(columns: Sequence[Column]) -> str:
    """Columns as Spark's DDL has them."""
    return ", ".join(f"{backticked(column.name)} {column.type}" for column in columns)
