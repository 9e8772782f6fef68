"""The tables of the SQLite log, making a file that has them, and opening it."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import NamedTuple
from uuid import uuid4

from tolerant.transport.checksums import checksum, is_intact
from tolerant.transport.files import (
    RESTORE,
    Identity,
    LogConnection,
    check_whole,
    connecting,
    create_private,
    disconnect,
    file_key,
    open_connection,
    place,
    wal_of,
)
from tolerant.transport.log import Damaged, LogError, Replaced

APPLICATION_ID = 0x546F6C72  # "Tolr": SQLite's field for whose file this is
VERSION = 3
BUSY_SECONDS = 30.0  # how long a writer waits for another process's transaction

# `head` is one row: the log's id, and the inode of the file that it was made in or adopted to, which tells a copy.
# `previous` of an entry is the position of the entry before it in its topic, `last` of a topic the position of its last
# one: so that it is noticed when one is missing. `last` of the topic '' is the last position given out at all, so that
# none is given twice, whatever retention deletes. Every row has a checksum (`checksums`).
_TABLES = """
    CREATE TABLE head (id TEXT NOT NULL, inode INTEGER NOT NULL, checksum INTEGER NOT NULL);
    CREATE TABLE topics (
        topic TEXT PRIMARY KEY, last INTEGER NOT NULL, trimmed INTEGER NOT NULL, checksum INTEGER NOT NULL
    ) WITHOUT ROWID;
    CREATE TABLE entries (
        position INTEGER PRIMARY KEY, topic TEXT NOT NULL, previous INTEGER NOT NULL, at INTEGER NOT NULL,
        checksum INTEGER NOT NULL, payload BLOB NOT NULL
    );
    CREATE INDEX entries_by_topic ON entries (topic, position);
    CREATE TABLE compacted (
        topic TEXT NOT NULL, key TEXT NOT NULL, version INTEGER NOT NULL, position INTEGER NOT NULL,
        at INTEGER NOT NULL, checksum INTEGER NOT NULL, body BLOB, PRIMARY KEY (topic, key)
    ) WITHOUT ROWID;
    CREATE INDEX compacted_by_change ON compacted (topic, position);
    CREATE TABLE batches (
        checkpoint TEXT PRIMARY KEY, batch INTEGER NOT NULL, checksum INTEGER NOT NULL
    ) WITHOUT ROWID;
"""
_SCHEMA = "SELECT type, name, tbl_name, rootpage, sql FROM sqlite_schema ORDER BY name"
_INCREMENTAL = 2  # of `PRAGMA auto_vacuum`


class Head(NamedTuple):
    """The one row about the whole log."""

    id: str
    inode: int


def create(file: Path) -> None:
    """Make a log at `file`, whole or not at all, unless there is one. It is its owner's alone to read.

    Raises:
        LogError: it cannot be made.
    """
    if file.exists():
        return
    if not file.parent.is_dir():
        raise LogError(f"the log {file} cannot be made: there is no directory {file.parent}")
    if wal_of(file).exists():
        raise LogError(
            f"there is no log at {file}, but its {wal_of(file).name} is there: the log was deleted or moved without it."
            " Put it back, or move that file away to make a new log"
        )
    scratch = file.with_name(f".{file.name}.{uuid4().hex}")
    try:
        create_private(scratch)
        with_tables(scratch)
        place(scratch, file)
    except (OSError, sqlite3.Error) as error:
        raise LogError(f"the log {file} cannot be made: {error}") from error
    finally:
        scratch.unlink(missing_ok=True)


def with_tables(file: Path) -> None:
    """Turn an empty file into a log."""
    connection = sqlite3.connect(file, isolation_level=None)
    try:
        connection.execute(f"PRAGMA auto_vacuum = {_INCREMENTAL}")
        connection.execute("BEGIN IMMEDIATE")
        _make_tables(connection)
        write_head(connection, Head(uuid4().hex, file.stat().st_ino))
        connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        connection.execute(f"PRAGMA user_version = {VERSION}")
        connection.execute("COMMIT")
    finally:
        connection.close()


def _make_tables(connection: sqlite3.Connection) -> None:
    for statement in _TABLES.split(";\n")[:-1]:
        connection.execute(statement)


def connect(file: Path, known: str | None = None) -> LogConnection:
    """A connection to the log in `file`. known: the id that it must have.

    Raises:
        LogError: it is not there, cannot be opened, or is not a log that this version can use.
    """
    with connecting(file) as first:
        if not file.exists():
            _missing(file, known)
        connection = None
        try:
            check = check_whole(file) if first else None
            connection = open_connection(file, BUSY_SECONDS)
            _prepare(connection, file, check, known)
            return connection
        except (sqlite3.Error, UnicodeDecodeError, OSError, LogError) as error:
            if connection is not None:
                disconnect(connection, file)
            if isinstance(error, LogError):
                raise
            raise _cannot_open(file, error) from error


def _missing(file: Path, known: str | None) -> None:
    if known is not None:
        raise Replaced(f"the log's file {file} has been deleted or moved away: move it back or {RESTORE}")
    raise LogError(f"there is no log at {file}; `tolerant run FILE` makes one")


def _cannot_open(file: Path, error: Exception) -> LogError:
    if "not a database" in str(error):
        return LogError(f"{file} is not a Tolerant log: {error}")
    if is_damage(error):
        return damaged(f"{file} is damaged: {error}")
    return LogError(f"{file} cannot be opened: {error}")


def is_damage(error: Exception) -> bool:
    """Whether SQLite says that the file is not what it wrote; its very message may hold bytes that are no text."""
    return isinstance(error, UnicodeDecodeError) or "malformed" in str(error) or "Could not decode" in str(error)


def damaged(message: str, topic: str | None = None, position: int | None = None, key: str | None = None) -> Damaged:
    """The error of something in the log that is not what was appended, with what to do."""
    return Damaged(f"{message}. `tolerant log verify` lists all damage; {RESTORE}", topic, position, key)


def _prepare(connection: LogConnection, file: Path, check: Callable[[int], None] | None, known: str | None) -> None:
    connection.execute("BEGIN")  # to see one state of the file
    _check_is_log(connection, file)
    head = read_head(connection, file)
    connection.execute("COMMIT")
    if known is not None and head.id != known:
        raise Replaced(f"the log's file {file} has been replaced by another log: start again what uses it")
    key = file_key(file)
    if key is not None and key[1] != head.inode:
        if check is not None:
            check(head.inode)
        _adopt(connection, file, key[1])
    _to_wal_mode(connection)
    connection.execute("PRAGMA synchronous = FULL")
    connection.execute(f"PRAGMA journal_size_limit = {64 << 20}").fetchone()
    connection.execute("SELECT id FROM head").fetchone()  # from here on it has the `-wal` file open
    connection.identity = Identity.of(file)
    if connection.identity is None or connection.identity.main != connection.key:
        connection.identity = None
        _missing(file, head.id)


def _to_wal_mode(connection: sqlite3.Connection) -> None:
    """Others may be closing, or at the same: SQLite does not always wait for them."""
    end = time.monotonic() + BUSY_SECONDS
    while True:
        try:
            if connection.execute("PRAGMA journal_mode = WAL").fetchone() == ("wal",):
                return
        except sqlite3.OperationalError as error:
            if "locked" not in str(error) or time.monotonic() >= end:
                raise
        if time.monotonic() >= end:
            raise sqlite3.OperationalError("database is locked")
        time.sleep(0.01)


def _adopt(connection: sqlite3.Connection, file: Path, inode: int) -> None:
    """This is a copy that is whole: from now on it is a log of its own place."""
    connection.execute("BEGIN IMMEDIATE")
    write_head(connection, read_head(connection, file)._replace(inode=inode))
    connection.execute("COMMIT")


def read_head(connection: sqlite3.Connection, file: Path) -> Head:
    """The row about the whole log.

    Raises:
        Damaged: it is not what was written.
    """
    rows = connection.execute("SELECT id, inode, checksum FROM head").fetchall()
    if len(rows) != 1 or not is_intact(rows[0][2], None, *rows[0][:2]):
        raise damaged(f"the log {file} is damaged: its head is not what was written")
    return Head(*rows[0][:2])


def write_head(connection: sqlite3.Connection, head: Head) -> None:
    """Put the row about the whole log in the place of the one that is there."""
    row = (*head, checksum(None, *head))
    if not connection.execute("UPDATE head SET id = ?, inode = ?, checksum = ?", row).rowcount:
        connection.execute("INSERT INTO head (id, inode, checksum) VALUES (?, ?, ?)", row)


@cache
def _expected_schema() -> list[tuple[object, ...]]:
    connection = sqlite3.connect(":memory:", isolation_level=None)
    try:
        connection.execute(f"PRAGMA auto_vacuum = {_INCREMENTAL}")
        _make_tables(connection)
        return connection.execute(_SCHEMA).fetchall()
    finally:
        connection.close()


def _check_is_log(connection: sqlite3.Connection, file: Path) -> None:
    owner = connection.execute("PRAGMA application_id").fetchone()[0]
    version = connection.execute("PRAGMA user_version").fetchone()[0]
    if owner != APPLICATION_ID:
        if connection.execute("SELECT count(*) FROM sqlite_schema").fetchone()[0]:
            raise LogError(f"{file} is not a Tolerant log: it is an SQLite database of another program")
        raise LogError(f"{file} is not a Tolerant log: it is empty; remove it, and `tolerant run FILE` makes one")
    if version != VERSION:
        which = "a newer" if version > VERSION else "an older"
        raise LogError(
            f"{file} was written by {which} version of Tolerant (format {version}, this one reads {VERSION}): use that"
            " version, or begin a new log"
        )
    vacuum = connection.execute("PRAGMA auto_vacuum").fetchone()[0]
    if vacuum != _INCREMENTAL or connection.execute(_SCHEMA).fetchall() != _expected_schema():
        raise damaged(f"the log {file} is damaged: its tables are not as they were made")
