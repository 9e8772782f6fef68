"""What only a log that several processes share has to prove."""

import multiprocessing
import os
import signal
import sqlite3
import subprocess
import sys
import threading
from pathlib import Path

import pyarrow as pa
import pytest

from tolerant.transport import LogError, SqliteLog, rows

APPENDER = """
import sys
import pyarrow as pa
from tolerant.transport import open_log
log = open_log(sys.argv[1], create=True)
for i in range(int(sys.argv[3])):
    position = log.append(sys.argv[2], pa.record_batch({"value": [i]}))
    print(i, position, flush=True)
"""


def appender(log: SqliteLog, topic: str, count: int) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", APPENDER, log.uri, topic, str(count)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def values(log: SqliteLog, topic: str) -> list[int]:
    return [rows.unpack(entry.payload).column("value")[0].as_py() for entry in log.read(topic)]


@pytest.fixture
def log(tmp_path: Path) -> SqliteLog:
    opened = SqliteLog(tmp_path / "log.db", create=True)
    yield opened
    opened.close()


def test_several_processes_append_in_one_order(log: SqliteLog) -> None:
    children = [appender(log, f"t{i}", 50) for i in range(3)]
    said = [child.communicate()[0] for child in children]
    given = {f"t{i}": [int(line.split()[1]) for line in text.splitlines()] for i, text in enumerate(said)}
    assert sorted(p for mine in given.values() for p in mine) == list(range(1, 151))
    for topic, mine in given.items():
        assert values(log, topic) == list(range(50))
        assert [entry.position for entry in log.read(topic)] == mine


def test_several_processes_make_one_log_at_once(tmp_path: Path) -> None:
    uri = f"sqlite:///{tmp_path}/new.db"
    command = [sys.executable, "-c", APPENDER, uri, "t", "2"]
    children = [subprocess.Popen(command, stdout=subprocess.PIPE) for _ in range(4)]
    for child in children:
        child.communicate()
    assert [child.returncode for child in children] == [0] * 4
    log = SqliteLog(tmp_path / "new.db")
    assert log.end() == 8
    log.close()


def test_a_killed_appender_loses_no_accepted_row(log: SqliteLog) -> None:
    for attempt in range(3):
        topic = f"t{attempt}"
        child = appender(log, topic, 1_000_000)
        accepted = [int(child.stdout.readline().split()[0]) for _ in range(20 + 30 * attempt)]
        child.send_signal(signal.SIGKILL)
        accepted += [int(line.split()[0]) for line in child.communicate()[0].splitlines() if len(line.split()) == 2]
        kept = values(log, topic)
        assert kept == list(range(len(kept)))
        assert len(kept) >= len(accepted)
        log.append(topic, pa.record_batch({"value": [len(kept)]}))


def test_a_log_is_used_on_both_sides_of_a_fork(log: SqliteLog) -> None:
    # Packed beforehand: pyarrow takes locks of its own, which a fork in a process with threads can leave locked.
    packed = [rows.pack(pa.record_batch({"value": [i]})) for i in range(5_000)]
    stop = threading.Event()

    def keep_appending() -> None:
        for payload in packed:
            if stop.is_set():
                break
            log.append_packed([("parent", payload)])

    thread = threading.Thread(target=keep_appending)
    thread.start()
    children = []
    for child in range(5):
        pid = os.fork()
        if pid == 0:
            status = 1
            try:
                for payload in packed[:20]:
                    log.append_packed([(f"child{child}", payload)])
                status = 0
            finally:
                os._exit(status)
        children.append(pid)
    assert [os.waitpid(pid, 0)[1] for pid in children] == [0] * 5
    stop.set()
    thread.join()
    for child in range(5):
        assert values(log, f"child{child}") == list(range(20))
    mine = values(log, "parent")
    assert mine == list(range(len(mine)))
    check = sqlite3.connect(log.path)
    assert check.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    check.close()


def _take(uri: str, count: int, results: "multiprocessing.SimpleQueue[int]") -> None:
    from tolerant.transport import open_log

    for _ in range(count):
        results.put(open_log(uri).next_epoch("pipeline/s"))


def test_epochs_are_taken_once_by_many_processes(log: SqliteLog) -> None:
    context = multiprocessing.get_context("spawn")
    results = context.SimpleQueue()
    children = [context.Process(target=_take, args=(log.uri, 10, results)) for _ in range(2)]
    for child in children:
        child.start()
    taken = sorted(results.get() for _ in range(20))
    for child in children:
        child.join()
    assert taken == list(range(1, 21))


def test_a_relative_path_means_the_directory_of_the_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    log = SqliteLog("log.db", create=True)
    monkeypatch.chdir("/")
    log.append("a", pa.record_batch({"value": [1]}))
    log.close()
    assert log.uri == "sqlite:///log.db"
    assert (tmp_path / "log.db").exists()


def test_a_file_that_is_no_database(tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("not a database at all, and long enough to be told from an empty one" * 20)
    with pytest.raises(LogError, match=r"notes\.txt is not a Tolerant log: file is not a database"):
        SqliteLog(path)


def test_a_database_of_another_program(tmp_path: Path) -> None:
    other = sqlite3.connect(tmp_path / "other.db")
    other.execute("CREATE TABLE t (a)")
    other.commit()
    other.close()
    with pytest.raises(LogError, match=r"other\.db is not a Tolerant log: it is an SQLite database of another program"):
        SqliteLog(tmp_path / "other.db")


def test_a_log_of_a_newer_version(log: SqliteLog) -> None:
    other = sqlite3.connect(log.path)
    other.execute("PRAGMA user_version = 99")
    other.close()
    with pytest.raises(LogError, match="newer version of Tolerant"):
        SqliteLog(log.path)


def test_a_directory_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(LogError, match="there is no directory"):
        SqliteLog(tmp_path / "no" / "log.db", create=True)
    with pytest.raises(LogError, match="cannot be opened"):
        SqliteLog(tmp_path)


def test_trimming_gives_space_back(tmp_path: Path) -> None:
    log = SqliteLog(tmp_path / "log.db", now=lambda: 1, create=True)
    for _ in range(20):
        log.append_packed([("a", bytes(50_000))] * 10)

    def pages() -> int:
        return int(sqlite3.connect(log.path).execute("PRAGMA page_count").fetchone()[0])

    full = pages()
    while log.trim("a", before=2, limit=50):
        pass
    for _ in range(3):
        log.trim("a", before=2)
    assert pages() < full / 4
    log.close()
