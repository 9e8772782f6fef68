"""The tables of the SQLite log, and opening a file that has them."""

from __future__ import annotations

import sqlite3
from pathlib import Path

from tolerant.transport.log import LogError

APPLICATION_ID = 0x546F6C72  # "Tolr": SQLite's field for whose file this is
VERSION = 1
BUSY_SECONDS = 30.0  # how long a writer waits for another process's transaction

# `head` is one row: the last position given out, so that a position is never given twice, whatever retention deletes.
_TABLES = """
    CREATE TABLE head (position INTEGER NOT NULL);
    CREATE TABLE entries (
        position INTEGER PRIMARY KEY, topic TEXT NOT NULL, at INTEGER NOT NULL, payload BLOB NOT NULL
    );
    CREATE INDEX entries_by_topic ON entries (topic, position);
    CREATE TABLE compacted (
        topic TEXT NOT NULL, key TEXT NOT NULL, version INTEGER NOT NULL, position INTEGER NOT NULL,
        at INTEGER NOT NULL, body BLOB, PRIMARY KEY (topic, key)
    ) WITHOUT ROWID;
    CREATE INDEX compacted_by_change ON compacted (topic, position);
    CREATE TABLE batches (checkpoint TEXT PRIMARY KEY, batch INTEGER NOT NULL) WITHOUT ROWID;
    CREATE TABLE trimmed (topic TEXT PRIMARY KEY, position INTEGER NOT NULL) WITHOUT ROWID;
    INSERT INTO head VALUES (0);
"""


def connect(file: Path) -> sqlite3.Connection:
    """A connection to the log in `file`, which is made if it is not there.

    Raises:
        LogError: it cannot be opened, or is not a log that this version can use.
    """
    if not file.parent.is_dir():
        raise LogError(f"the log {file} cannot be made: there is no directory {file.parent}")
    connection = None
    try:
        # Autocommit, so that transactions are exactly those we begin; given between threads, but used by one at a time.
        connection = sqlite3.connect(file, timeout=BUSY_SECONDS, isolation_level=None, check_same_thread=False)
        _prepare(connection, file)
        return connection
    except sqlite3.Error as error:
        if connection is not None:
            connection.close()
        what = "is not a Tolerant log" if "not a database" in str(error) else "cannot be opened"
        raise LogError(f"{file} {what}: {error}") from error
    except LogError:
        assert connection is not None
        connection.close()
        raise


def _prepare(connection: sqlite3.Connection, file: Path) -> None:
    connection.execute("BEGIN")  # to see one state of the file: another process may just be making it
    made = _is_log(connection, file)
    connection.execute("COMMIT")
    if not made:
        # A new file. Two processes may come here at once: the second waits, then finds the tables made.
        connection.execute("PRAGMA auto_vacuum = INCREMENTAL")
        connection.execute("PRAGMA journal_mode = WAL").fetchone()
        connection.execute("BEGIN IMMEDIATE")
        if not _is_log(connection, file):
            for statement in _TABLES.split(";\n")[:-1]:
                connection.execute(statement)
            connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
            connection.execute(f"PRAGMA user_version = {VERSION}")
        connection.execute("COMMIT")
    connection.execute("PRAGMA synchronous = FULL")
    connection.execute(f"PRAGMA journal_size_limit = {64 << 20}").fetchone()


def _is_log(connection: sqlite3.Connection, file: Path) -> bool:
    """Whether the tables are there; False for an empty file.

    Raises:
        LogError: the file holds something else.
    """
    owner = connection.execute("PRAGMA application_id").fetchone()[0]
    version = connection.execute("PRAGMA user_version").fetchone()[0]
    if owner == APPLICATION_ID:
        if version > VERSION:
            raise LogError(
                f"{file} was written by a newer version of Tolerant (format {version}, this one reads {VERSION})"
            )
        return True
    if connection.execute("SELECT count(*) FROM sqlite_schema").fetchone()[0]:
        raise LogError(f"{file} is not a Tolerant log: it is an SQLite database of another program")
    return False
