"""`SqliteLog`: the embedded log, one SQLite file in WAL mode that any number of processes of one machine share.

A log row is a whole packed batch, as one flush wrote it: row by row SQLite costs ten times as much. Every append
takes its position inside the one write transaction that SQLite admits at a time, so positions stand in the order of
commits and a reader that has seen position p will never find anything new before it.

Accepted rows survive a crash of the process, of the machine and of its power (`synchronous = FULL`: the write-ahead
log is synced before an append returns), as far as the disk keeps what it has synced. Every append ends with a
look whether the files are still those that were opened (`files`), and every row that is read is checked (`stored`).
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from heapq import merge
from itertools import islice
from operator import attrgetter
from pathlib import Path

import pyarrow as pa

from tolerant.transport import rows, schema
from tolerant.transport.common import (
    Change,
    abandoned,
    check_fence,
    check_reached,
    compacted_changes,
    epoch_after,
    furthest,
    owner_of,
    passed_by_all,
    registration,
    wall_clock,
)
from tolerant.transport.connections import Connections
from tolerant.transport.files import LogConnection, check_unmoved, disconnect
from tolerant.transport.log import START, Entry, Fence, LogError, Record
from tolerant.transport.maintenance import Verification, backup, verify
from tolerant.transport.stored import (
    Tail,
    all_tails,
    changed_after,
    entries_after,
    insert_entries,
    last_batch,
    latest_record,
    log_end,
    read_tail,
    record_batch,
    refresh_tails,
    sizes_after,
    take_positions,
    upsert,
    write_tails,
)
from tolerant.transport.topics import EPOCHS, POSITIONS, is_compacted, is_kept

_PAGES_A_TRIM = 1000  # returned to the file system at a time
_LOOK_EVERY = 0.5  # seconds between two looks of one who only reads whether the files are still the same


class SqliteLog:
    """A `Log` in the file at `path`. `now` gives the wall clock in microseconds, by which entries age. `create`: make
    the file if it is not there.

    Raises:
        LogError: the file is not there, is something else, or of another version, or cannot be opened.
    """

    def __init__(self, path: str | Path, now: Callable[[], int] = wall_clock, *, create: bool = False) -> None:
        self.path = Path(path)
        # Relative paths stay relative in the URI, but not in here: a process may change its directory.
        self.uri = f"sqlite:///{self.path}"
        self._file = self.path.absolute()
        self._now = now
        if create:
            schema.create(self._file)
        self._id: str | None = None
        self._looked = float("-inf")
        self._connections = Connections(
            lambda: schema.connect(self._file, self._id), lambda connection: disconnect(connection, self._file)
        )
        with self._reading() as connection:
            self.id = self._id = schema.read_head(connection, self._file).id

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
            done = last_batch(connection, checkpoint)
            if done is not None and batch <= done:
                return False
            self._write(connection, changes)
            record_batch(connection, checkpoint, batch)
            return True

    def last_batch(self, checkpoint: str) -> int:
        """See `PipelineLog.last_batch`."""
        with self._reading() as connection:
            done = connection.execute("SELECT batch FROM batches WHERE checkpoint = ?", (checkpoint,)).fetchone()
            return -1 if done is None else int(done[0])

    def read(self, topics: str | Iterable[str], position: int = START, limit: int | None = None) -> list[Entry]:
        """See `Log.read`."""
        names = {topics} if isinstance(topics, str) else set(topics)
        # One snapshot for all topics: else an append between two of them would be stepped over.
        with self._reading() as connection:
            per_topic = [
                changed_after(connection, topic, position)
                if is_compacted(topic)
                else entries_after(connection, topic, position, limit)
                for topic in names
            ]
            return list(islice(merge(*per_topic, key=attrgetter("position")), limit))

    def latest(self, topic: str, key: str) -> Record | None:
        """See `Log.latest`."""
        with self._reading() as connection:
            return latest_record(connection, topic, key)

    def end(self) -> int:
        """See `Log.end`."""
        with self._reading() as connection:
            return log_end(connection)

    def topics(self) -> list[str]:
        """See `Log.topics`."""
        with self._reading() as connection:
            names = {*_distinct(connection, "entries"), *_distinct(connection, "compacted")}
            if names != {topic for topic, tail in all_tails(connection).items() if tail.last > tail.trimmed}:
                raise schema.damaged(f"the log {self._file} is damaged: its topics are not those that were written")
            return sorted(names)

    def next_epoch(self, name: str, owner: str = "") -> int:
        """See `Log.next_epoch`."""
        with self._writing() as connection:
            epoch = epoch_after(latest_record(connection, EPOCHS, name), name)
            self._upsert(connection, [(EPOCHS, name, epoch, owner.encode())])
            return epoch

    def advance(self, topics: Iterable[str], position: int, entries: int, size: int) -> int:
        """See `Log.advance`."""
        with self._reading() as connection:
            check_reached(position, log_end(connection), self.uri)
            per_topic = [sizes_after(connection, topic, position, entries) for topic in set(topics)]
            return furthest(merge(*per_topic), position, entries, size)

    def register(self, checkpoint: str, stream: str, topics: Sequence[str]) -> None:
        """See `Log.register`."""
        with self._writing() as connection:
            if latest_record(connection, POSITIONS, checkpoint) is None:
                connection.execute("DELETE FROM compacted WHERE topic = ? AND key = ?", (POSITIONS, checkpoint))
                row = (POSITIONS, checkpoint, START, registration(stream, topics))
                self._upsert(connection, [row])

    def pass_position(self, checkpoint: str, position: int) -> None:
        """See `Log.pass_position`."""
        with self._writing() as connection:
            known = latest_record(connection, POSITIONS, checkpoint)
            if known is not None and position > known.version:
                row = (POSITIONS, checkpoint, position, known.body)
                self._upsert(connection, [row])

    def forget(self, checkpoint: str) -> None:
        """See `Log.forget`."""
        with self._writing() as connection:
            known = latest_record(connection, POSITIONS, checkpoint)
            if known is not None:
                row = (POSITIONS, checkpoint, known.version, None)
                self._upsert(connection, [row])

    def trim(self, topic: str, before: int, limit: int = 1000) -> int:
        """See `Log.trim`. Pages that became free are returned to the file system, some at each call."""
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
            known = [read_tail(connection, topic) for topic in topics]
        return max((tail.trimmed for tail in known if tail is not None), default=START)

    def backup(self, path: str | Path) -> Verification:
        """Copy the log, which may be in use, to a new file with an id of its own; what the copy holds.

        Raises:
            LogError: there is a file already, it cannot be written, or the log is damaged.
        """
        with self._using() as connection:
            return backup(connection, self._file, Path(path).absolute())

    def verify(self) -> Verification:
        """Check every page, checksum and chain of the log, which may be in use."""
        with self._using() as connection:
            return verify(connection, self._file)

    def close(self) -> None:
        """See `Log.close`."""
        self._connections.close()

    def _forget_abandoned(self, before: int) -> None:
        statement = "SELECT key, version, body FROM compacted WHERE topic = ? AND body IS NOT NULL AND at < ?"
        with self._reading() as connection:
            known = {key: (version, body) for key, version, body in connection.execute(statement, (POSITIONS, before))}

            def owner(name: str) -> str | None:
                return owner_of(latest_record(connection, EPOCHS, name))

            gone = abandoned(known, owner)
        for key in gone:
            self.forget(key)

    def _write(self, connection: sqlite3.Connection, changes: Sequence[tuple[str, bytes, list[Change] | None]]) -> int:
        last, at = take_positions(connection, len(changes)), self._now()
        numbered = list(enumerate(changes, last - len(changes) + 1))
        insert_entries(
            connection,
            at,
            [(position, topic, payload) for position, (topic, payload, rows) in numbered if rows is None],
        )
        for position, (_, _, changed) in numbered:
            if changed is not None:
                upsert(connection, position, at, changed)
        return last

    def _upsert(self, connection: sqlite3.Connection, changed: Sequence[Change]) -> None:
        upsert(connection, take_positions(connection, 1), self._now(), changed)

    @contextmanager
    def _reading(self) -> Iterator[LogConnection]:
        with self._transaction("BEGIN") as connection:
            yield connection
        if time.monotonic() >= self._looked + _LOOK_EVERY:
            self._check_unmoved(connection)

    @contextmanager
    def _writing(self) -> Iterator[LogConnection]:
        with self._transaction("BEGIN IMMEDIATE") as connection:
            yield connection
        self._check_unmoved(connection)

    def _check_unmoved(self, connection: LogConnection) -> None:
        assert connection.identity is not None
        check_unmoved(connection.identity)
        self._looked = time.monotonic()

    @contextmanager
    def _transaction(self, begin: str) -> Iterator[LogConnection]:
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
    def _using(self) -> Iterator[LogConnection]:
        try:
            with self._connections.use() as connection:
                yield connection
        except (sqlite3.Error, UnicodeDecodeError) as error:
            if schema.is_damage(error):
                raise schema.damaged(f"the log {self._file} is damaged: {error}") from error
            raise LogError(f"the log {self._file} cannot be used: {error}") from error


def _checked(entries: Sequence[tuple[str, bytes]]) -> list[tuple[str, bytes, list[Change] | None]]:
    return [(topic, payload, compacted_changes(topic, payload)) for topic, payload in entries]


def _newest_epoch(connection: sqlite3.Connection, name: str) -> int:
    record = latest_record(connection, EPOCHS, name)
    return record.version if record else 0


def _distinct(connection: sqlite3.Connection, table: str) -> Iterator[str]:
    """The topics of a table, each found by one step of its index instead of a walk over all of it."""
    topic = ""
    while following := connection.execute(f"SELECT min(topic) FROM {table} WHERE topic > ?", (topic,)).fetchone()[0]:
        topic = following
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
        write_tails(connection, [(topic, (read_tail(connection, topic) or Tail())._replace(trimmed=last))])
    return young


def _trim_forgotten(connection: sqlite3.Connection, topic: str, before: int, limit: int) -> int:
    count = connection.execute(
        "DELETE FROM compacted WHERE topic = ?1 AND key IN"
        " (SELECT key FROM compacted WHERE topic = ?1 AND body IS NULL AND at < ?2 LIMIT ?3)",
        (topic, before, limit),
    ).rowcount
    if count:
        refresh_tails(connection, [topic])
    return count
