"""The files of an SQLite log: private, known by their inodes, and told apart from copies that lack something.

A log that nobody has open is one file in SQLite's rollback mode. While it is open, or after a crash, it is in WAL mode
and has a `-wal` file, without which it is not whole. So its header says whether a copy can be whole (`check_whole`):
whoever closes the last connection puts it back into rollback mode (`disconnect`).

The trap: a process that closes *any* descriptor of a file loses all its locks on it, those of SQLite too. The header is
therefore read only while this process has no connection to the file (`connections_of`).
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from tolerant.transport.log import Damaged, LogError, Replaced
from tolerant.transport.wal import has_lost_frames

FileKey = tuple[int, int]
"""Device and inode."""

RESTORE = "restore a backup (`tolerant log backup` makes them)"
_HEADER, _MODE, _WAL_MODE = 100, 18, 2
_LOOKS, _PAUSE = 10, 0.05  # others may be opening or closing the log: only what stays so counts


class Identity(NamedTuple):
    """Which files a connection has open, and where they were."""

    main: FileKey
    wal: FileKey
    main_path: str
    wal_path: str

    @classmethod
    def of(cls, file: Path) -> Identity | None:
        """The files of a log that is open; None: they are not there."""
        main, wal = str(file), str(wal_of(file))
        keys = file_key(main), file_key(wal)
        return None if keys[0] is None or keys[1] is None else cls(keys[0], keys[1], main, wal)


class LogConnection(sqlite3.Connection):
    """A connection that knows which files it has open, once `connect` is done."""

    identity: Identity | None = None
    key: FileKey | None = None


def wal_of(file: Path) -> Path:
    """The write-ahead log of a log."""
    return file.with_name(file.name + "-wal")


def file_key(file: Path | str) -> FileKey | None:
    """Device and inode of a file; None: it is not there."""
    try:
        status = os.stat(file)
    except FileNotFoundError:
        return None
    return status.st_dev, status.st_ino


def check_unmoved(identity: Identity) -> None:
    """Nothing, if the log's files are those that were opened.

    Raises:
        Replaced: they have been deleted, moved or replaced.
    """
    for name, known in ((identity.main_path, identity.main), (identity.wal_path, identity.wal)):
        now = file_key(name)
        if now != known:
            what = "deleted or moved away" if now is None else "replaced by another file"
            raise Replaced(
                f"the log's file {name} has been {what} while it was in use: what was written since then is not in the"
                f" log. Stop everything that uses it, then move the file back or {RESTORE}, and start again"
            )


# -- connections of this process -------------------------------------------------------------------------------------

_lock = threading.RLock()
_open: Counter[FileKey] = Counter()


def _after_fork() -> None:
    """Reset the counts in a child: all connections were closed before the fork."""
    global _lock
    _lock = threading.RLock()
    _open.clear()


os.register_at_fork(after_in_child=_after_fork)


@contextlib.contextmanager
def connecting(file: Path) -> Iterator[bool]:
    """While a connection is made, no other is; whether this is the first that the process has to this file."""
    with _lock:
        key = file_key(file)
        yield key is None or not _open[key]


def open_connection(file: Path, timeout: float) -> LogConnection:
    """A connection to a file that is there; none is made."""
    uri = f"{file.absolute().as_uri()}?mode=rw"
    # Autocommit, so that transactions are exactly those we begin; given between threads, but used by one at a time.
    connection = sqlite3.connect(
        uri, timeout=timeout, isolation_level=None, check_same_thread=False, uri=True, factory=LogConnection
    )
    connection.key = file_key(file)
    if connection.key is not None:
        _open[connection.key] += 1
    return connection


def disconnect(connection: LogConnection, file: Path) -> None:
    """Close a connection; the last one of all processes leaves one whole file in rollback mode."""
    with _lock:
        # Not where the file is another by now: SQLite would delete the `-wal` of that one.
        ours = connection.identity is not None and Identity.of(file) == connection.identity
        settled = ours and not connection.in_transaction and _to_rollback_mode(connection)
        connection.close()
        if connection.key is not None:
            _open[connection.key] -= 1
        if ours and not settled and not wal_of(file).exists() and file_key(file) == connection.key:
            # Others were there a moment ago and have closed at the same time, so that none was the last.
            _settle(file)


def _settle(file: Path) -> None:
    with contextlib.suppress(sqlite3.Error):
        last = open_connection(file, timeout=0.0)
        try:
            _to_rollback_mode(last)
        finally:
            last.close()
            if last.key is not None:
                _open[last.key] -= 1


def _to_rollback_mode(connection: sqlite3.Connection) -> bool:
    """Take everything into the one file; False: others have it open, the last of them does it."""
    try:
        return connection.execute("PRAGMA journal_mode = DELETE").fetchone() == ("delete",)
    except sqlite3.Error:
        return False


# -- whole or not ----------------------------------------------------------------------------------------------------


def check_whole(file: Path) -> Callable[[int], None]:
    """Look at a log that this process has not open, before SQLite does. What is returned is called with the inode that
    the log says it was made in or adopted to, and raises if it is a copy that may lack something.

    Raises:
        LogError: beside it lies the `-wal` of another log, or one that is damaged.
    """
    _check_frames(wal_of(file))
    for _ in range(_LOOKS):
        has_wal = _size(wal_of(file)) > 0
        mode = _mode(file)
        if not has_wal or mode in (None, _WAL_MODE):
            break
        time.sleep(_PAUSE)
    else:
        raise LogError(
            f"{wal_of(file)} does not belong to {file}, which was closed or backed up whole: it was left by a log that"
            " was at this place before. Move it away, then try again"
        )
    lacking = mode == _WAL_MODE and not has_wal

    def check(inode: int) -> None:
        key = file_key(file)
        if lacking and key is not None and key[1] != inode:
            raise LogError(
                f"{file} is a copy of a log that was in use, without its {wal_of(file).name}: rows that were accepted"
                f" may be missing. Copy both files while nothing runs, or {RESTORE}, which may be done while it runs"
            )

    return check


def _check_frames(wal: Path) -> None:
    """Before SQLite opens the log: it would drop what stands behind the damage."""
    for _ in range(_LOOKS):
        if not has_lost_frames(wal):
            return
        time.sleep(_PAUSE)
    raise Damaged(
        f"{wal} is damaged: rows that were accepted before a crash stand in it and cannot be read. Leave the files as"
        f" they are and {RESTORE} elsewhere"
    )


def _size(file: Path) -> int:
    try:
        return os.stat(file).st_size
    except FileNotFoundError:
        return 0


def _mode(file: Path) -> int | None:
    """The byte of the header that says which journal the file has; None: it has no header."""
    with file.open("rb") as opened:
        header = opened.read(_HEADER)
    return header[_MODE] if len(header) == _HEADER else None


# -- private files ---------------------------------------------------------------------------------------------------


def create_private(file: Path) -> None:
    """Make an empty file that only its owner can read and write, whatever the umask.

    Raises:
        FileExistsError: there is one.
    """
    descriptor = os.open(file, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
    try:
        os.fchmod(descriptor, 0o600)
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def private_umask() -> Iterator[None]:
    """While it lasts, all that this process and those it starts make is their owner's alone."""
    before = os.umask(0o077)
    try:
        yield
    finally:
        os.umask(before)


def make_private_folder(folder: Path) -> None:
    """Make a folder, and those above it that are missing, that only their owner can enter, whatever the umask."""
    if folder.is_dir():
        return
    make_private_folder(folder.parent)
    with contextlib.suppress(FileExistsError):
        folder.mkdir(mode=0o700)
        folder.chmod(0o700)


def place(made: Path, file: Path) -> bool:
    """Give a finished file its name, at once and only if nothing has it; whether it got it."""
    try:
        os.link(made, file)
    except FileExistsError:
        return False
    finally:
        made.unlink()
    folder = os.open(file.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
    return True
