"""`Table`: feeds insertions, updates and deletions of rows into the log (`docs/design/pipeline.md` §2, §6)."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Any

import tolerant.edge.arrow_memory  # noqa: F401  # first, before Arrow
from tolerant.edge.background_sender import BackgroundSender, SourceError
from tolerant.edge.change_buffer import ChangeBuffer
from tolerant.edge.definition import default_name, find_table
from tolerant.edge.keys import ItemKey
from tolerant.edge.row_values import ManyRows, column_values, key_given, key_of, row_values
from tolerant.edge.table_transport import TableTransport
from tolerant.edge.warm_up import warm_table
from tolerant.sql import CreateTable
from tolerant.transport import Log, open_log
from tolerant.transport.common import wall_clock
from tolerant.transport.topics import changes_topic

PATIENCE = 10.0
"""Seconds that the log may be out of reach before calls raise."""


class Table:
    """Feeds rows of a table into the log.

    table: the table's name, whose definition is read from the log and waited for up to `timeout` seconds; or the
        definition itself.
    log: a URI, or an open log.
    name: the feeder's name: the same after a restart, and different from every other running feeder of the table;
        default `host/program`. Any of them may change any row, but the order among several is that of their clocks.
    clock: the time in microseconds. Default: the wall clock, and a thread that sends in the background. With a given
        clock there is no thread: `flush` sends the rows.

    Every call is a transaction: its rows have one event time, later than that of the call before. Rows are in the log
    within about 50 ms, in order. While the log cannot be used, rows wait and are retried; after ten seconds of that,
    calls raise `SourceError` until the log can be used again. A row that does not fit the table's columns is refused
    with a `ValueError` that names the column, and nothing of the call is applied. Threads may share a table.
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
            self._close_log()
            raise
        self._changes = ChangeBuffer(self.definition, self.name, self.epoch)
        self._lock = threading.Condition()
        topic, max_rows = changes_topic(self.definition.name), self.definition.options.max_entry_rows
        transport = TableTransport(self._changes, self._log, topic, source, self.epoch, self._lock, max_rows)
        self._sender = BackgroundSender(
            source, self._log.uri, transport, self._lock, PATIENCE, background=clock is None
        )

    def insert(self, row: Mapping[str, Any] | None = None, /, **columns: Any) -> int:
        """Insert a row, given as a mapping or by its columns; return its event time, microseconds.

        A row with the same key is replaced.
        """
        values = row_values({**(row or {}), **columns}, self.definition)
        return self._record(lambda at: self._changes.insert(key_of(values, self.definition), values, at))

    def insert_many(self, rows: ManyRows) -> int:
        """Insert rows at one event time, which is returned; if one row is refused, none is inserted.

        As columns: a mapping from names to arrays or lists, a pandas, polars or Arrow table. Or as rows: a list of
        mappings, or of tuples in the order of the table's columns.
        """
        values = column_values(rows, self.definition)
        return self._record(lambda at: self._changes.insert_many(values, at))

    def update(self, row: Mapping[str, Any] | None = None, /, **columns: Any) -> int:
        """Replace the row with the same key by this complete row: deleted and inserted at one event time, which is
        returned.
        """
        values = row_values({**(row or {}), **columns}, self.definition)
        key = key_of(values, self.definition)

        def replace(at: int) -> None:
            self._changes.delete(key, at)
            self._changes.insert(key, values, at)

        return self._record(replace)

    def delete(self, key: ItemKey) -> int:
        """Delete the row with this key: the values of its key columns (of a single column the value itself), or its
        key text. Returns the event time. An unknown key is no error: the pipeline counts it.
        """
        text = key_given(key, self.definition)
        return self._record(lambda at: self._changes.delete(text, at))

    def flush(self, timeout: float = 30.0) -> None:
        """Return when the log has accepted all rows so far.

        Raises:
            SourceError: it has not within `timeout` seconds.
        """
        self._sender.flush(timeout)

    def close(self, timeout: float = 30.0) -> None:
        """Send all waiting rows, and end; the table's rows stay. Closing twice does no harm.

        Raises:
            SourceError: some rows could not be sent in `timeout` seconds, or at all; they are lost.
        """
        try:
            failure = self._sender.close(timeout)
            if failure is not None:
                raise SourceError(f"rows of table {self.definition.name!r} are lost: {failure}") from failure
        finally:
            self._close_log()

    def __enter__(self) -> Table:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _record(self, add_changes: Callable[[int], None]) -> int:
        with self._lock:
            self._sender.check()
            self._at = max(self._clock(), self._at + 1)
            add_changes(self._at)
            self._sender.wake_if_full()
            return self._at

    def _close_log(self) -> None:
        if self._owns_log:
            self._log.close()
