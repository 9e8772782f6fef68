"""The file of a log: never made by those who read, noticed when it is deleted, replaced or a copy that lacks something,
backed up while it is in use, and private."""

import os
import shutil
import signal
import sqlite3
import stat
import subprocess
import sys
import threading
import time
from pathlib import Path

import pyarrow as pa
import pytest

from tolerant.transport import Log, LogError, Replaced, SqliteLog, open_log, rows
from tolerant.transport.schema import VERSION

BATCH = pa.record_batch({"value": [1]})
HOLDER = """
import sys, time
import pyarrow as pa
from tolerant.transport import SqliteLog
log = SqliteLog(sys.argv[1])
log.append("t", pa.record_batch({"value": [2]}))
print("ready", flush=True)
sys.stdin.readline()
log.close() if sys.argv[2] == "close" else None
"""


def holder(path: Path, end: str = "close") -> subprocess.Popen[str]:
    """A process that has appended an entry and has the log open until it gets a line."""
    child = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(path), end], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert child.stdout.readline() == "ready\n"
    return child


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A log with two entries, closed."""
    made = SqliteLog(tmp_path / "log.db", create=True)
    made.append("t", BATCH)
    made.append("t", BATCH)
    made.close()
    return tmp_path / "log.db"


def count(log: Log) -> int:
    return len(log.read("t"))


# -- who makes a log -------------------------------------------------------------------------------------------------


def test_opening_makes_no_log(tmp_path: Path) -> None:
    for _ in range(2):
        with pytest.raises(LogError, match=r"there is no log at .*log\.db; `tolerant run FILE` makes one"):
            open_log(f"sqlite:///{tmp_path}/log.db")
    assert list(tmp_path.iterdir()) == []


def test_a_log_that_is_there_is_not_made_again(path: Path) -> None:
    log = open_log(f"sqlite:///{path}", create=True)
    assert count(log) == 2
    log.close()


def test_an_empty_file_is_no_log(tmp_path: Path) -> None:
    (tmp_path / "log.db").touch()
    for create in (False, True):
        with pytest.raises(LogError, match="it is empty"):
            SqliteLog(tmp_path / "log.db", create=create)


def test_a_log_of_an_older_version(path: Path) -> None:
    other = sqlite3.connect(path)
    other.execute("PRAGMA user_version = 1")
    other.close()
    with pytest.raises(LogError, match=rf"older version of Tolerant \(format 1, this one reads {VERSION}\)"):
        SqliteLog(path)


# -- deleted and replaced --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("then", ["nothing", "another log", "a copy of it"])
def test_an_append_to_a_log_that_was_deleted_or_replaced_is_refused(path: Path, then: str) -> None:
    log = SqliteLog(path)
    if then == "a copy of it":
        log.backup(path.with_name("copy.db"))
    os.rename(path, path.with_name("away.db"))
    if then == "another log":
        os.rename(f"{path}-wal", f"{path}-wal.away")
        SqliteLog(path, create=True).close()
    elif then == "a copy of it":
        os.rename(path.with_name("copy.db"), path)
    for _ in range(2):
        with pytest.raises(Replaced, match=r"log\.db has been (deleted or moved away|replaced).*restore a backup"):
            log.append("t", BATCH)
    if then == "nothing":
        assert not path.exists()
    log.close()
    if then == "another log":
        fresh = SqliteLog(path)
        assert count(fresh) == 0
        fresh.close()


def test_a_reader_notices_within_a_second(path: Path) -> None:
    log = SqliteLog(path)
    assert count(log) == 2
    path.unlink()
    time.sleep(0.6)  # a look every half second
    with pytest.raises(Replaced):
        log.read("t", 2)
    assert not path.exists()
    log.close()


def test_a_log_that_is_moved_back_goes_on(path: Path) -> None:
    log = SqliteLog(path)
    os.rename(path, path.with_name("away.db"))
    with pytest.raises(Replaced):
        log.append("t", BATCH)
    os.rename(path.with_name("away.db"), path)
    log.append("t", BATCH)
    assert count(log) == 4  # one was written while the file was away: it is there after all
    log.close()


def test_the_write_ahead_log_that_was_deleted_is_noticed(path: Path) -> None:
    log = SqliteLog(path)
    Path(f"{path}-wal").unlink()
    with pytest.raises(Replaced, match=r"log\.db-wal has been deleted"):
        log.append("t", BATCH)
    log.close()


def test_a_log_deleted_around_a_fork_is_not_made_again(path: Path) -> None:
    log = SqliteLog(path)
    pid = os.fork()
    if pid == 0:
        os._exit(0)
    os.waitpid(pid, 0)
    path.unlink()  # no connection is open now
    with pytest.raises(Replaced, match="has been deleted or moved away"):
        log.append("t", BATCH)
    SqliteLog(path, create=True).close()
    with pytest.raises(Replaced, match="has been replaced by another log"):
        log.append("t", BATCH)
    log.close()


# -- copies ----------------------------------------------------------------------------------------------------------


def copied(path: Path, *suffixes: str) -> Path:
    (folder := path.parent / f"copy{time.monotonic_ns()}").mkdir()
    for suffix in ("", *suffixes):
        shutil.copy(f"{path}{suffix}", f"{folder}/log.db{suffix}")
    return folder / "log.db"


def test_a_copy_without_its_write_ahead_log_is_refused(path: Path) -> None:
    log = SqliteLog(path)
    log.append("t", BATCH)
    copy = copied(path)
    for _ in range(2):
        with pytest.raises(LogError, match=r"a copy of a log that was in use, without its log\.db-wal"):
            SqliteLog(copy)
    log.close()


def test_a_copy_with_its_write_ahead_log_is_whole(path: Path) -> None:
    log = SqliteLog(path)
    log.append("t", BATCH)
    copy = SqliteLog(copied(path, "-wal"))
    assert count(copy) == 3
    copy.close()
    log.close()


def test_a_copy_of_a_closed_log_is_whole(path: Path) -> None:
    assert [name.name for name in path.parent.iterdir()] == ["log.db"]
    copy = SqliteLog(copied(path))
    assert count(copy) == 2
    copy.append("t", BATCH)
    copy.close()
    again = SqliteLog(copy.path)
    assert count(again) == 3
    again.close()


def test_a_killed_process_leaves_a_log_that_opens(path: Path) -> None:
    child = holder(path)
    child.send_signal(signal.SIGKILL)
    child.communicate()
    assert Path(f"{path}-wal").stat().st_size > 0
    with pytest.raises(LogError, match="without its"):
        SqliteLog(copied(path))
    log = SqliteLog(path)
    assert count(log) == 3
    log.close()
    copy = SqliteLog(copied(path))
    assert count(copy) == 3
    copy.close()


def test_a_log_that_another_program_closed_after_a_crash_opens(path: Path) -> None:
    child = holder(path)
    child.send_signal(signal.SIGKILL)
    child.communicate()
    other = sqlite3.connect(path)
    other.execute("SELECT count(*) FROM entries").fetchone()
    other.close()
    assert not Path(f"{path}-wal").exists()
    log = SqliteLog(path)
    assert count(log) == 3
    log.close()


@pytest.mark.parametrize("end", ["close", "exit"])
def test_processes_that_end_at_one_moment_leave_one_whole_file(path: Path, end: str) -> None:
    for _ in range(2):
        children = [holder(path, end) for _ in range(2)]
        for child in children:
            child.stdin.write("\n")
            child.stdin.flush()
        for child in children:
            child.communicate()
        copy = SqliteLog(copied(path))  # whoever was the last has left it whole
        copy.close()


def test_the_write_ahead_log_of_another_is_refused(path: Path) -> None:
    # Restored over a log that had crashed: SQLite alone would write the pages of the one into the other.
    log = SqliteLog(path)
    log.backup(path.with_name("backup.db"))
    log.close()
    child = holder(path)
    child.send_signal(signal.SIGKILL)
    child.communicate()
    os.rename(path.with_name("backup.db"), path)
    with pytest.raises(LogError, match=r"log\.db-wal does not belong to .*log\.db.*Move it away"):
        SqliteLog(path)
    Path(f"{path}-wal").unlink()
    log = SqliteLog(path)
    assert count(log) == 2
    log.close()


def test_a_log_deleted_without_its_write_ahead_log_is_not_made_anew(path: Path) -> None:
    child = holder(path)
    child.send_signal(signal.SIGKILL)
    child.communicate()
    path.unlink()
    with pytest.raises(LogError, match=r"no log at .* but its log\.db-wal is there"):
        SqliteLog(path, create=True)


def test_many_open_and_close_at_once(path: Path) -> None:
    failures: list[Exception] = []

    def work() -> None:
        try:
            for _ in range(8):
                log = SqliteLog(path)
                log.append("t", BATCH)
                log.close()
        except Exception as error:
            failures.append(error)

    threads = [threading.Thread(target=work) for _ in range(3)]
    command = f"""
import pyarrow as pa
from tolerant.transport import SqliteLog
for _ in range(8):
    log = SqliteLog({str(path)!r})
    log.append("t", pa.record_batch({{"value": [1]}}))
    log.close()
"""
    children = [subprocess.Popen([sys.executable, "-c", command]) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [child.wait() for child in children] == [0, 0]
    assert failures == []
    log = SqliteLog(path)
    assert count(log) == 2 + 5 * 8
    assert log.verify().findings == ()
    log.close()


def test_a_checkpoint_that_is_ahead_of_an_older_copy_is_told(path: Path) -> None:
    log = SqliteLog(path)
    with pytest.raises(LogError, match=r"stands at position 7, and the log .* ends at 2.*empty checkpoint directory"):
        log.advance(["t"], 7, 10, 1000)
    log.close()


# -- backups ---------------------------------------------------------------------------------------------------------


def test_a_backup_is_made_while_others_append(path: Path) -> None:
    log, over = SqliteLog(path), threading.Event()

    def keep_appending() -> None:
        while not over.is_set():
            log.append_packed([("t", rows.pack(BATCH)), ("u", rows.pack(BATCH))])

    thread = threading.Thread(target=keep_appending)
    thread.start()
    try:
        for number in range(3):
            before = log.end()
            checked = log.backup(path.with_name(f"backup{number}.db"))
            assert checked.findings == ()
            copy = SqliteLog(path.with_name(f"backup{number}.db"))
            assert copy.end() >= before
            assert len(copy.read("t")) == len(copy.read("u")) + 2
            assert copy.id != log.id
            copy.close()
    finally:
        over.set()
        thread.join()
        log.close()


def test_a_backup_overwrites_nothing_and_leaves_nothing_half_done(path: Path) -> None:
    log = SqliteLog(path)
    log.backup(path.with_name("backup.db"))
    with pytest.raises(LogError, match=r"backup\.db is there already"):
        log.backup(path.with_name("backup.db"))
    with pytest.raises(LogError, match="there is no directory"):
        log.backup(path.parent / "no" / "backup.db")
    log.close()
    assert sorted(name.name for name in path.parent.iterdir()) == ["backup.db", "log.db"]


# -- private ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("umask", [0o000, 0o022, 0o777])
def test_all_files_are_private_whatever_the_umask(tmp_path: Path, umask: int) -> None:
    before = os.umask(umask)
    try:
        log = SqliteLog(tmp_path / "log.db", create=True)
        log.append("t", BATCH)
        log.backup(tmp_path / "backup.db")
        modes = {name.name: stat.S_IMODE(name.stat().st_mode) for name in tmp_path.iterdir()}
        log.close()
    finally:
        os.umask(before)
    assert modes == dict.fromkeys(["log.db", "log.db-wal", "log.db-shm", "backup.db"], 0o600)
