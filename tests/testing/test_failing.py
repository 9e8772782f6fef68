import pyarrow as pa
import pytest

from tolerant.testing import FailingLog
from tolerant.transport import LogError, MemoryLog

BATCH = pa.record_batch({"kind": ["heartbeat"]})


def test_it_fails_on_cue_and_passes_everything_else_on():
    log = MemoryLog()
    failing = FailingLog(log, fail=lambda call: call.method == "append" and call.number == 1)
    failing.append("updates.load", BATCH)
    with pytest.raises(LogError, match="append number 1 failed on cue"):
        failing.append("updates.load", BATCH)
    failing.append("updates.load", BATCH)
    assert len(failing.read("updates.load")) == len(log.read("updates.load")) == 2
    assert failing.end() == log.end()
    assert failing.topics() == log.topics()
    assert failing.next_epoch("source/load/a") == 1
    assert failing.latest("epochs", "source/load/a").version == 1


def test_it_can_fail_after_the_rows_were_accepted():
    log = MemoryLog()
    with pytest.raises(LogError):
        FailingLog(log, fail=lambda call: True, after=True).append("updates.load", BATCH)
    assert len(log.read("updates.load")) == 1


def test_the_cue_knows_the_topics():
    log = FailingLog(MemoryLog(), fail=lambda call: "grants.load" in call.topics)
    log.read("updates.load")
    with pytest.raises(LogError):
        log.read(["updates.load", "grants.load"])


def test_a_cue_may_raise_its_own_error():
    def broken(call):
        raise OSError("no route to host")

    with pytest.raises(OSError, match="no route"):
        FailingLog(MemoryLog(), fail=broken).end()
