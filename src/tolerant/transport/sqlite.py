"""`SqliteLog`: the embedded log, one SQLite file in WAL mode that any number of processes of one machine share.

A log row is a whole packed batch, as one flush wrote it: row by row SQLite costs ten times as much. Every append
takes its position inside the one write transaction that SQLite admits at a time, so positions stand in the order of
commits and a reader that has seen position p will never find anything new before it.

Accepted rows survive a crash of the process, of the machine and of its power (`synchronous = FULL`: the write-ahead
log is synced before an append returns), as far as the disk keeps what it has synced.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from heapq import merge
from itertools import groupby, islice
from operator import attrgetter, itemgetter
from pathlib import Path

import pyarrow as pa

from tolerant.transport import rows
from tolerant.transport.common import (
    Change,
    abandoned,
    check_fence,
    compacted_changes,
    compacted_entry,
    furthest,
    passed_by_all,
    registration,
    wall_clock,
)
from tolerant.transport.connections import Connections
from tolerant.transport.log import EPOCHS, POSITIONS, START, Entry, Fence, LogError, Record, is_compacted, is_kept
from tolerant.transport.schema import connect

_UPSERT = """
    INSERT INTO compacted (topic, key, version, position, at, body) VALUES (?, ?, ?, ?, ?, ?)
    ON CONFLICT (topic, key) DO UPDATE SET version = excluded.version, position = excluded.position, at = excluded.at,
        body = excluded.body
    WHERE excluded.version >= version
"""
_AFTER = "SELECT position, payload FROM entries WHERE topic = ? AND position > ? ORDER BY position LIMIT ?"
_CHANGED = "SELECT position, key, version, body FROM compacted WHERE topic = ? AND position > ? ORDER BY position, key"
_PAGES_A_TRIM = 1000  # given back to the file system at a time


class SqliteLog:
    """A `Log` in the file at `path`, made if it is not there. `now` gives the wall clock in microseconds, by which
    entries age.

    Raises:
        LogError: the file is something else, or of a newer version, or cannot be opened.
    """

    def __init__(self, path: str | Path, now: Callable[[], int] = wall_clock) -> None:
        self.path = Path(path)
        # Relative paths stay relative in the URI, but not in here: a process may change its directory.
        self.uri = f"sqlite:///{self.path}"
        self._file = self.path.absolute()
        self._now = now
        self._connections = Connections(lambda: connect(self._file))
        with self._reading():
            pass

    def append(self, topic: str, batch: pa.RecordBatch) -> int:
        """See `Log.append`."""
        return self.append_packed([(topic, rows.pack(batch))])

    def append_packed(self, entries: Sequence[tuple[str, bytes]]) -> int:
        """See `Log.append_packed`."""
        changes = _checked(entries)
        if not changes:
            return self.end()
        with self._writing() as connection:
            return self._write(connection, changes)

    def append_once(
        self, checkpoint: str, batch: int, entries: Sequence[tuple[str, bytes]], fence: Fence | None = None
    ) -> bool:
        """See `Log.append_once`."""
        changes = _checked(entries)
        with self._writing() as connection:
            if fence is not None:
                check_fence(fence, _newest_epoch(connection, fence.name))
            done = connection.execute("SELECT batch FROM batches WHERE checkpoint = ?", (checkpoint,)).fetchone()
            if done is not None and batch <= done[0]:
                return False
            self._write(connection, changes)
            connection.execute("INSERT OR REPLACE INTO batches (checkpoint, batch) VALUES (?, ?)", (checkpoint, batch))
            return True

    def read(self, topics: str | Iterable[str], position: int = START, limit: int | None = None) -> list[Entry]:
        """See `Log.read`."""
        names = {topics} if isinstance(topics, str) else set(topics)
        # One snapshot for all topics: else an append between two of them would be stepped over.
        with self._reading() as connection:
            found = [
                _changed(connection, topic, position)
                if is_compacted(topic)
                else _after(connection, topic, position, limit)
                for topic in names
            ]
            return list(islice(merge(*found, key=attrgetter("position")), limit))

    def latest(self, topic: str, key: str) -> Record | None:
        """See `Log.latest`."""
        with self._reading() as connection:
            return _latest(connection, topic, key)

    def end(self) -> int:
        """See `Log.end`."""
        with self._reading() as connection:
            return int(connection.execute("SELECT position FROM head").fetchone()[0])

    def topics(self) -> list[str]:
        """See `Log.topics`."""
        with self._reading() as connection:
            return sorted({*_distinct(connection, "entries"), *_distinct(connection, "compacted")})

    def next_epoch(self, name: str, owner: str = "") -> int:
        """See `Log.next_epoch`."""
        with self._writing() as connection:
            epoch = _newest_epoch(connection, name) + 1
            self._upsert(connection, _take_positions(connection, 1), [(EPOCHS, name, epoch, owner.encode())])
            return epoch

    def advance(self, topics: Iterable[str], position: int, entries: int, size: int) -> int:
        """See `Log.advance`."""
        statement = (
            "SELECT position, length(payload) FROM entries WHERE topic = ? AND position > ? ORDER BY position LIMIT ?"
        )
        with self._reading() as connection:
            found = [connection.execute(statement, (topic, position, entries)) for topic in set(topics)]
            return furthest(merge(*found), position, entries, size)

    def register(self, checkpoint: str, stream: str, topics: Sequence[str]) -> None:
        """See `Log.register`."""
        with self._writing() as connection:
            if _latest(connection, POSITIONS, checkpoint) is None:
                connection.execute("DELETE FROM compacted WHERE topic = ? AND key = ?", (POSITIONS, checkpoint))
                row = (POSITIONS, checkpoint, START, registration(stream, topics))
                self._upsert(connection, _take_positions(connection, 1), [row])

    def pass_position(self, checkpoint: str, position: int) -> None:
        """See `Log.pass_position`."""
        with self._writing() as connection:
            known = _latest(connection, POSITIONS, checkpoint)
            if known is not None and position > known.version:
                row = (POSITIONS, checkpoint, position, known.body)
                self._upsert(connection, _take_positions(connection, 1), [row])

    def forget(self, checkpoint: str) -> None:
        """See `Log.forget`."""
        with self._writing() as connection:
            known = _latest(connection, POSITIONS, checkpoint)
            if known is not None:
                row = (POSITIONS, checkpoint, known.version, None)
                self._upsert(connection, _take_positions(connection, 1), [row])

    def trim(self, topic: str, before: int, limit: int = 1000) -> int:
        """See `Log.trim`. Pages that became free are given back to the file system, some at each call."""
        if is_kept(topic):
            return 0
        if topic == POSITIONS:
            self._forget_abandoned(before)
        with self._writing() as connection:
            count = (_trim_forgotten if is_compacted(topic) else _trim_entries)(connection, topic, before, limit)
        with self._using() as connection:
            # As a script: `execute` would stop after the first page.
            connection.executescript(f"PRAGMA incremental_vacuum({_PAGES_A_TRIM})")
        return count

    def trimmed(self, topics: Iterable[str]) -> int:
        """See `Log.trimmed`."""
        with self._reading() as connection:
            known = dict(connection.execute("SELECT topic, position FROM trimmed"))
        return max((known.get(topic, START) for topic in topics), default=START)

    def close(self) -> None:
        """See `Log.close`."""
        self._connections.close()

    def _forget_abandoned(self, before: int) -> None:
        statement = "SELECT key, version, body FROM compacted WHERE topic = ? AND body IS NOT NULL AND at < ?"
        with self._reading() as connection:
            known = {key: (version, body) for key, version, body in connection.execute(statement, (POSITIONS, before))}

            def owner(name: str) -> str | None:
                newest = _latest(connection, EPOCHS, name)
                return newest.body.decode() if newest else None

            gone = abandoned(known, owner)
        for key in gone:
            self.forget(key)

    def _write(self, connection: sqlite3.Connection, changes: Sequence[tuple[str, bytes, list[Change] | None]]) -> int:
        last, at = _take_positions(connection, len(changes)), self._now()
        numbered = list(enumerate(changes, last - len(changes) + 1))
        entries = [(position, topic, at, payload) for position, (topic, payload, rows) in numbered if rows is None]
        connection.executemany("INSERT INTO entries (position, topic, at, payload) VALUES (?, ?, ?, ?)", entries)
        for position, (_, _, changed) in numbered:
            if changed is not None:
                self._upsert(connection, position, changed)
        return last

    def _upsert(self, connection: sqlite3.Connection, position: int, changed: Iterable[Change]) -> None:
        at = self._now()
        rows = ((topic, key, version, position, at, body) for topic, key, version, body in changed)
        connection.executemany(_UPSERT, rows)

    @contextmanager
    def _reading(self) -> Iterator[sqlite3.Connection]:
        with self._transaction("BEGIN") as connection:
            yield connection

    @contextmanager
    def _writing(self) -> Iterator[sqlite3.Connection]:
        with self._transaction("BEGIN IMMEDIATE") as connection:
            yield connection

    @contextmanager
    def _transaction(self, begin: str) -> Iterator[sqlite3.Connection]:
        with self._using() as connection:
            connection.execute(begin)
            try:
                yield connection
            except BaseException:
                if connection.in_transaction:  # SQLite may have rolled back already, on a full disk say
                    connection.execute("ROLLBACK")
                raise
            connection.execute("COMMIT")

    @contextmanager
    def _using(self) -> Iterator[sqlite3.Connection]:
        try:
            with self._connections.use() as connection:
                yield connection
        except sqlite3.Error as error:
            raise LogError(f"the log {self._file} cannot be used: {error}") from error


def _checked(entries: Sequence[tuple[str, bytes]]) -> list[tuple[str, bytes, list[Change] | None]]:
    return [(topic, payload, compacted_changes(topic, payload)) for topic, payload in entries]


def _take_positions(connection: sqlite3.Connection, count: int) -> int:
    """The last of `count` new positions."""
    connection.execute("UPDATE head SET position = position + ?", (count,))
    return int(connection.execute("SELECT position FROM head").fetchone()[0])


def _after(connection: sqlite3.Connection, topic: str, position: int, limit: int | None) -> Iterator[Entry]:
    found = connection.execute(_AFTER, (topic, position, -1 if limit is None else limit))
    return (Entry(topic, 0, at, payload) for at, payload in found)


def _changed(connection: sqlite3.Connection, topic: str, position: int) -> Iterator[Entry]:
    found = connection.execute(_CHANGED, (topic, position))
    appends = groupby(found, key=itemgetter(0))
    return (compacted_entry(topic, at, [row[1:] for row in changed]) for at, changed in appends)


def _latest(connection: sqlite3.Connection, topic: str, key: str) -> Record | None:
    statement = "SELECT version, body FROM compacted WHERE topic = ? AND key = ?"
    found = connection.execute(statement, (topic, key)).fetchone()
    return None if found is None or found[1] is None else Record(key, *found)


def _newest_epoch(connection: sqlite3.Connection, name: str) -> int:
    record = _latest(connection, EPOCHS, name)
    return record.version if record else 0


def _distinct(connection: sqlite3.Connection, table: str) -> Iterator[str]:
    """The topics of a table, each found by one step of its index instead of a walk over all of it."""
    topic = ""
    while found := connection.execute(f"SELECT min(topic) FROM {table} WHERE topic > ?", (topic,)).fetchone()[0]:
        topic = found
        yield topic


def _trim_entries(connection: sqlite3.Connection, topic: str, before: int, limit: int) -> int:
    known = connection.execute("SELECT key, version, body FROM compacted WHERE topic = ?", (POSITIONS,))
    passed = passed_by_all({key: (version, body) for key, version, body in known if body is not None}, topic)
    oldest = connection.execute(
        "SELECT position, at FROM entries WHERE topic = ? AND position <= ? ORDER BY position LIMIT ?",
        (topic, (1 << 62) if passed is None else passed, limit),
    ).fetchall()
    # Only a prefix goes, so that one position says what is missing, even where the wall clock stepped back.
    young = next((i for i, (_, at) in enumerate(oldest) if at >= before), len(oldest))
    if young:
        last = oldest[young - 1][0]
        connection.execute("DELETE FROM entries WHERE topic = ? AND position <= ?", (topic, last))
        connection.execute("INSERT OR REPLACE INTO trimmed (topic, position) VALUES (?, ?)", (topic, last))
    return young


def _trim_forgotten(connection: sqlite3.Connection, topic: str, before: int, limit: int) -> int:
    return connection.execute(
        "DELETE FROM compacted WHERE topic = ?1 AND key IN"
        " (SELECT key FROM compacted WHERE topic = ?1 AND body IS NULL AND at < ?2 LIMIT ?3)",
        (topic, before, limit),
    ).rowcount
