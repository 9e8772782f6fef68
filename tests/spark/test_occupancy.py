"""Who runs a pipeline: locks that end with their process, clock rows that go on or do not."""

import subprocess
import sys
import threading
import time

import pytest

from tolerant.spark import occupancy
from tolerant.spark.occupancy import FolderLock, last_clock, live_rival
from tolerant.transport import MemoryLog
from tolerant.transport.common import wall_clock
from tolerant.transport.rows import clock_batch

HOLDER = """
import subprocess, sys, time
from pathlib import Path
from tolerant.spark.occupancy import FolderLock
lock = FolderLock(Path(sys.argv[1]))
assert lock.take()
if len(sys.argv) > 2:
    subprocess.Popen(["sleep", sys.argv[2]], pass_fds=[lock.fileno()], stdout=subprocess.DEVNULL)
print("held", flush=True)
time.sleep(60)
"""
TOPICS = ["updates.s"]


def holder(folder, *more):
    process = subprocess.Popen([sys.executable, "-c", HOLDER, str(folder), *more], stdout=subprocess.PIPE, text=True)
    assert process.stdout.readline() == "held\n"
    return process


def test_a_lock_is_free_as_soon_as_its_process_is_killed(tmp_path):
    process, lock = holder(tmp_path), FolderLock(tmp_path)
    try:
        assert not lock.take()
        assert lock.owner() == process.pid
    finally:
        process.kill()
        process.communicate()
    assert lock.take()
    lock.close()


def test_a_lock_stays_with_the_process_that_inherited_it(tmp_path):
    """Java may outlive a killed `tolerant run` by a moment: that is waited for, and not taken for a live pipeline."""
    process, lock = holder(tmp_path, "3"), FolderLock(tmp_path)
    process.kill()
    process.communicate()
    assert not lock.take()
    assert lock.owner() is None
    assert lock.take(30)
    lock.close()


def test_a_lock_that_is_closed_is_free(tmp_path):
    first, second = FolderLock(tmp_path), FolderLock(tmp_path)
    assert first.take()
    assert not second.take()
    first.close()
    first.close()
    assert second.take()
    second.close()


@pytest.fixture
def log():
    made = MemoryLog()
    made.next_epoch("pipeline/s", "theirs")
    return made


def test_the_last_clock_row_is_the_owners(log):
    assert last_clock(log, "s", TOPICS) is None
    log.append("updates.s", clock_batch(5, 1, "theirs"))
    log.append("updates.s", clock_batch(9, 1, "somebody else's"))
    log.append_packed([("updates.s", b"nobody can read this")])
    clock = last_clock(log, "s", TOPICS)
    assert (clock.checkpoint, clock.at) == ("theirs", 5)
    assert last_clock(log, "other", TOPICS) is None


def test_a_rival_lives_while_its_clock_goes_on(log):
    stop = threading.Event()

    def tick():
        while not stop.wait(0.02):
            log.append("updates.s", clock_batch(wall_clock(), 1, "theirs"))

    thread = threading.Thread(target=tick)
    thread.start()
    try:
        time.sleep(0.2)
        assert live_rival(log, "s", TOPICS, {"mine", None}).checkpoint == "theirs"
        assert live_rival(log, "s", TOPICS, {"theirs"}) is None
    finally:
        stop.set()
        thread.join()


def test_a_rival_that_died_is_not_waited_for_long(log, monkeypatch):
    monkeypatch.setattr(occupancy, "LIVE", 300_000)
    log.append("updates.s", clock_batch(wall_clock(), 1, "theirs"))
    assert live_rival(log, "s", TOPICS, set()) is None
