"""DuckDB as the engine of views: the same SQL, without Spark; and as what works a view out anew."""

import contextlib
import math
import threading

import duckdb
import pyarrow as pa

from tolerant.spark.views.deltas import VERSION, Slice, signed_schema
from tolerant.spark.views.time_limits import TookTooLong
from tolerant.sql.view_select import RUNNING, WEIGHT
from tolerant.transport.changes import ARROW


class DuckEngine:
    """`Engine`."""

    def __init__(self):
        self.connection = duckdb.connect(config={"threads": 1})
        self.connection.execute(f"CREATE MACRO {RUNNING}(one, other) AS TRUE")
        self.runs = []

    def rest(self):
        pass

    def check(self):
        pass

    def run(self, sql, sources, limit=math.inf):
        self.runs.append(sql)
        for name, source in sources.items():
            if not isinstance(source, Slice):
                self.connection.register(name, source)
            elif not source.files:
                self.connection.register(name, signed_schema(source.columns).empty_table())
            else:
                own = "".join(f', "{column.name}"' for column in source.columns)
                files = ", ".join(f"'{path}'" for path in source.files)
                self.connection.execute(
                    f"CREATE OR REPLACE TEMP VIEW {name} AS SELECT {WEIGHT}{own} FROM read_parquet([{files}])"
                    f" WHERE {VERSION} > {source.low} AND {VERSION} <= {source.high}"
                )
        try:
            with self.limited(limit):
                found = self.connection.sql(sql).to_arrow_table()
        finally:
            for name in sources:
                self.connection.execute(f"DROP VIEW IF EXISTS {name}")
        whole = [pa.field(field.name, pa.int64()) if self.is_wide(field) else field for field in found.schema]
        return found.cast(pa.schema(whole))  # sums of integers are wider than 64 bits in DuckDB

    def is_wide(self, field):
        return pa.types.is_decimal(field.type)

    @contextlib.contextmanager
    def limited(self, limit):
        if math.isinf(limit):
            yield
            return
        watchdog = threading.Timer(limit, self.connection.interrupt)
        watchdog.start()
        try:
            yield
        except duckdb.InterruptException:
            raise TookTooLong from None
        finally:
            watchdog.cancel()
            watchdog.join()


def recomputed(sql, tables, rows):
    """The rows of the view, from the rows of its tables, by the select as it was written."""
    connection = duckdb.connect(config={"threads": 1})
    for table in tables:
        schema = pa.schema([(column.name, ARROW[column.type]) for column in table.columns])
        connection.register(table.name, pa.Table.from_pylist(rows[table.name], schema=schema))
    return [list(row) for row in connection.execute(sql).fetchall()]


def same_rows(found, expected):
    """Whether two bags of rows are equal, numbers to the rounding of their sums."""

    def key(row):
        return [(value is None, str(type(value)), round(value, 6) if isinstance(value, float) else value or 0)
                for value in row]  # fmt: skip

    def close(one, other):
        if isinstance(one, float) or isinstance(other, float):
            return one is not None and other is not None and abs(one - other) <= 1e-9 * max(1.0, abs(one), abs(other))
        return one == other

    found, expected = sorted(found, key=key), sorted(expected, key=key)
    return len(found) == len(expected) and all(
        len(one) == len(other) and all(map(close, one, other)) for one, other in zip(found, expected, strict=True)
    )


__all__ = ["DuckEngine", "recomputed", "same_rows"]
