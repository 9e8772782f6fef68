"""`Table`: rows of a relation that come, go and change (`specs/0-pipeline.md` §2, §6)."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Any

from tolerant.edge.carrier import Carrier, SourceError
from tolerant.edge.definition import default_name, find_table
from tolerant.edge.keys import ItemKey
from tolerant.edge.rowbox import RowBox
from tolerant.edge.rowpost import RowPost
from tolerant.edge.rows import ManyRows, column_values, key_given, key_of, row_values
from tolerant.edge.warming import warm_table
from tolerant.sql import CreateTable
from tolerant.transport import Log, open_log
from tolerant.transport.changes import topic_of
from tolerant.transport.common import wall_clock

PATIENCE = 10.0
"""Seconds that the log may be out of reach before those who say rows are told."""


class Table:
    """Feeds rows of a table into the log.

    table: the table's name, its definition is read from the log and waited for up to `timeout` seconds; or the
        definition itself.
    log: a URI, or an open log.
    name: who this is: the same after a restart, and different from every other running feeder of the table; default
        `host/program`. A row may be changed by any of them, but the order among several is that of their clocks.
    clock: the time in microseconds. Default: the wall clock, and a thread that sends in the background. With a clock of
        one's own there is no thread: rows are sent by `flush`.

    Every call is a transaction: its rows have one event time, later than that of the call before. What was said is in
    the log within about 50 ms, in order. While the log cannot be used, rows wait and are tried again; after ten
    seconds of that, calls raise `SourceError` until it can. A row that does not fit the table's columns is refused
    with a `ValueError` that names the column, and nothing of the call is taken. Threads may share a table.
    """

    def __init__(
        self,
        table: str | CreateTable,
        log: str | Log,
        name: str | None = None,
        *,
        clock: Callable[[], int] | None = None,
        timeout: float = 10.0,
    ) -> None:
        self._log = open_log(log) if isinstance(log, str) else log
        self._owns_log = isinstance(log, str)
        self.name = default_name() if name is None else name
        self._clock = clock or wall_clock
        self._at = -1
        try:
            self.definition = find_table(self._log, table, timeout) if isinstance(table, str) else table
            warm_table(self.definition)
            source = f"table/{self.definition.name}/{self.name}"
            self.epoch = self._log.next_epoch(source)
        except BaseException:
            self._let_go()
            raise
        self._rows = RowBox(self.definition, self.name, self.epoch)
        self._lock = threading.Condition()
        post = RowPost(self._rows, self._log, topic_of(self.definition.name), source, self.epoch, self._lock)
        self._carrier = Carrier(source, self._log.uri, post, self._lock, PATIENCE, background=clock is None)

    def insert(self, row: Mapping[str, Any] | None = None, /, **columns: Any) -> int:
        """Insert a row, given as a mapping or by its columns; its event time, microseconds.

        A row that is there with the same key is replaced.
        """
        values = row_values({**(row or {}), **columns}, self.definition)
        return self._say(lambda at: self._rows.insert(key_of(values, self.definition), values, at))

    def insert_many(self, rows: ManyRows) -> int:
        """Insert rows, all at the event time returned; if one cannot be used, none of them.

        By the column: a mapping from names to arrays or lists, a pandas, polars or Arrow table. Or row by row: a list
        of mappings, or of tuples in the order of the table's columns.
        """
        values = column_values(rows, self.definition)
        return self._say(lambda at: self._rows.insert_many(values, at))

    def update(self, row: Mapping[str, Any] | None = None, /, **columns: Any) -> int:
        """Put a row, given whole, in the place of the one with its key: it is deleted and inserted at one event time,
        which is returned.
        """
        values = row_values({**(row or {}), **columns}, self.definition)
        key = key_of(values, self.definition)

        def both(at: int) -> None:
            self._rows.delete(key, at)
            self._rows.insert(key, values, at)

        return self._say(both)

    def delete(self, key: ItemKey) -> int:
        """Delete the row with this key: the values of its key columns (of a single one the value itself), or its key
        text. The event time is returned. A key that is not there is no error: the pipeline counts it.
        """
        text = key_given(key, self.definition)
        return self._say(lambda at: self._rows.delete(text, at))

    def flush(self, timeout: float = 30.0) -> None:
        """Return when everything said so far has been accepted by the log.

        Raises:
            SourceError: it was not, for `timeout` seconds.
        """
        self._carrier.flush(timeout)

    def close(self, timeout: float = 30.0) -> None:
        """Send what there is to send, and end; the rows stay. Twice does no harm.

        Raises:
            SourceError: some rows could not be sent in `timeout` seconds, or at all; they are lost.
        """
        try:
            failure = self._carrier.close(timeout)
            if failure is not None:
                raise SourceError(f"rows of table {self.definition.name!r} are lost: {failure}") from failure
        finally:
            self._let_go()

    def __enter__(self) -> Table:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _say(self, what: Callable[[int], None]) -> int:
        with self._lock:
            self._carrier.check()
            self._at = max(self._clock(), self._at + 1)
            what(self._at)
            self._carrier.look()
            return self._at

    def _let_go(self) -> None:
        if self._owns_log:
            self._log.close()
