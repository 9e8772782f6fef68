"""Backups of an SQLite log, and checking all of it."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4

from tolerant.transport import schema
from tolerant.transport.checksums import is_intact
from tolerant.transport.files import create_private, place
from tolerant.transport.log import START, LogError
from tolerant.transport.stored import changed_after, entries_after
from tolerant.transport.topics import is_compacted

_MOST = 100
"""Findings of one kind: a damaged page makes many."""


@dataclass(frozen=True)
class Verification:
    """What is in a log, and what is wrong with it: nothing, where there are no findings."""

    topics: int
    entries: int
    records: int
    size: int
    """Bytes of payloads and bodies."""
    findings: tuple[str, ...]


def verify(connection: sqlite3.Connection, file: Path) -> Verification:
    """Check every page, every checksum and every chain, in one snapshot of the log; may be done while it is in use."""
    connection.execute("BEGIN")
    try:
        findings = [*_pages(connection), *_rows(connection, file)]
        names = [name for (name,) in connection.execute("SELECT topic FROM topics WHERE topic != ''")]
        findings += [finding for name in names for finding in _chain(connection, name)]
        entries, size = _counted(connection, "entries", "payload")
        records, bodies = _counted(connection, "compacted", "body")
        return Verification(len(names), entries, records, size + bodies, tuple(dict.fromkeys(findings)))
    finally:
        connection.execute("ROLLBACK")


def _pages(connection: sqlite3.Connection) -> Iterator[str]:
    try:
        for (line,) in connection.execute(f"PRAGMA integrity_check({_MOST})"):
            if line != "ok":
                yield f"SQLite: {line}"
    except sqlite3.Error as error:
        yield f"SQLite: {error}"


def _rows(connection: sqlite3.Connection, file: Path) -> Iterator[str]:
    """Every row of every table by its checksum, in the order of the table itself: no index is needed to find it."""
    try:
        schema.read_head(connection, file)
    except (LogError, sqlite3.Error) as error:
        yield _short(error)
    checks = {
        "topic {0!r}": "SELECT topic, last, trimmed, checksum, NULL FROM topics",
        "batches of checkpoint {0}": "SELECT checkpoint, batch, checksum, NULL FROM batches",
        "entry of topic {1!r} at position {0}": (
            "SELECT position, topic, previous, at, checksum, payload FROM entries NOT INDEXED"
        ),
        "record of {1!r} in topic {0!r}, at position {3}": (
            "SELECT topic, key, version, position, at, checksum, body FROM compacted NOT INDEXED"
        ),
    }
    for what, statement in checks.items():
        count = 0
        try:
            for *fields, verification, payload in connection.execute(statement):
                if not is_intact(verification, payload, *fields) and (count := count + 1) <= _MOST:
                    yield f"{what.format(*fields)}: the checksum is another"
        except sqlite3.Error as error:
            yield f"SQLite: {error}"
        if count > _MOST:
            yield f"and {count - _MOST} more like it"


def _chain(connection: sqlite3.Connection, topic: str) -> Iterator[str]:
    """A topic as readers read it, up to the first thing that is wrong with it."""
    try:
        read = changed_after if is_compacted(topic) else entries_after
        for _ in read(connection, topic, START):
            pass
    except (LogError, sqlite3.Error) as error:
        yield _short(error)


def _short(error: Exception) -> str:
    """What is wrong, without what to do: that is said once."""
    return str(error).partition(". `tolerant log verify`")[0]


def _counted(connection: sqlite3.Connection, table: str, column: str) -> tuple[int, int]:
    try:
        count, size = connection.execute(
            f"SELECT count(*), total(length({column})) FROM {table} NOT INDEXED"
        ).fetchone()
    except sqlite3.Error:
        return 0, 0  # it is among the findings
    return count, int(size)


def backup(source: sqlite3.Connection, file: Path, target: Path) -> Verification:
    """Copy a log that may be in use to `target`, whole or not at all, and check the copy.

    The copy has an id of its own, so that no checkpoint of the log continues with it.

    Raises:
        LogError: there is a file at `target`, it cannot be written, or the log is damaged.
    """
    if target.exists():
        raise LogError(f"{target} is there already: a backup overwrites nothing")
    if not target.parent.is_dir():
        raise LogError(f"{target} cannot be written: there is no directory {target.parent}")
    scratch = target.with_name(f".{target.name}.{uuid4().hex}")
    try:
        create_private(scratch)
        verification = _copied(source, file, scratch)
        if verification.findings:
            raise schema.damaged(f"{file} was not backed up, it is damaged: {verification.findings[0]}")
        if not place(scratch, target):
            raise LogError(f"{target} is there already: a backup overwrites nothing")
        return verification
    except (OSError, sqlite3.Error) as error:
        raise LogError(f"the backup {target} could not be made: {error}") from error
    finally:
        for name in (scratch, scratch.with_name(scratch.name + "-journal")):
            name.unlink(missing_ok=True)


def _copied(source: sqlite3.Connection, file: Path, scratch: Path) -> Verification:
    copy = sqlite3.connect(scratch, isolation_level=None)
    try:
        source.backup(copy)  # one snapshot: nobody waits for it, in WAL mode
        copy.execute("PRAGMA journal_mode = DELETE").fetchone()
        copy.execute("BEGIN IMMEDIATE")
        head = schema.read_head(copy, file)
        schema.write_head(copy, head._replace(id=uuid4().hex, inode=scratch.stat().st_ino))
        copy.execute("COMMIT")
        verification = verify(copy, file)
    finally:
        copy.close()
    with scratch.open("rb") as written:
        os.fsync(written.fileno())
    return verification
