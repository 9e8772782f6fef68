"""Who runs a pipeline: locks that end with their process, heartbeats that go on or do not."""

import subprocess
import sys
import threading
import time

import pytest

from tolerant.kernels.versions import version
from tolerant.spark import occupancy
from tolerant.spark.occupancy import FolderLock, live_owner
from tolerant.transport import MemoryLog
from tolerant.transport.common import wall_clock
from tolerant.transport.heartbeats import Heartbeat, heartbeat_batch
from tolerant.transport.rows import clock_batch
from tolerant.transport.topics import HEARTBEATS

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


def beat(log, at, number=1, stopped=False):
    log.append(HEARTBEATS, heartbeat_batch([(Heartbeat("s", at, stopped=stopped), version(1, number))]))


def test_a_rival_lives_while_its_heart_beats_whatever_its_clock_says(log):
    """A pipeline that a replay gives its time (`--clock log`) has clock rows of any age, or none."""
    log.append("updates.s", clock_batch(5, 1, "theirs"))
    stop = threading.Event()

    def work():
        number = 0
        while not stop.wait(0.02):
            number += 1
            beat(log, wall_clock(), number)

    thread = threading.Thread(target=work)
    thread.start()
    try:
        time.sleep(0.2)
        checkpoint, heartbeat = live_owner(log, "s", {"mine", None})
        assert (checkpoint, heartbeat.pipeline) == ("theirs", "s")
        assert live_owner(log, "s", {"theirs"}) is None
        assert live_owner(log, "other", set()) is None
    finally:
        stop.set()
        thread.join()


def test_a_rival_that_died_is_not_waited_for_long(log, monkeypatch):
    monkeypatch.setattr(occupancy, "LIVE", 300_000)
    beat(log, wall_clock())
    log.append("updates.s", clock_batch(wall_clock(), 1, "theirs"))
    assert live_owner(log, "s", set()) is None


def test_a_rival_that_was_stopped_in_order_is_not_waited_for(log, monkeypatch):
    monkeypatch.setattr(occupancy.time, "sleep", lambda seconds: pytest.fail("there is nothing to wait for"))
    assert live_owner(log, "s", set()) is None
    beat(log, wall_clock(), stopped=True)
    assert live_owner(log, "s", set()) is None
