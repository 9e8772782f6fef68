"""Whether a pipeline is in service, by its heartbeats in the log."""

import pytest

from tolerant.kernels.versions import version
from tolerant.transport import MemoryLog
from tolerant.transport.heartbeats import INTERVAL, LEASE, Heartbeat, Outage, heartbeat_batch, latest_heartbeat, outage
from tolerant.transport.rows import compacted
from tolerant.transport.topics import HEARTBEATS

NOW = 1_700_000_000_000_000


def log_with(*heartbeats, epoch=1):
    log = MemoryLog()
    log.append(HEARTBEATS, heartbeat_batch([(beat, version(epoch, n)) for n, beat in enumerate(heartbeats, 1)]))
    return log


def test_a_pipeline_that_processes_is_in_service():
    log = log_with(Heartbeat("traffic", NOW - INTERVAL, NOW - 2 * INTERVAL))
    assert outage(log, "traffic", NOW) is None
    assert outage(log, "traffic", NOW - 2 * INTERVAL + LEASE) is None


def test_a_pipeline_that_was_killed_is_out_of_service_after_its_lease():
    log = log_with(Heartbeat("traffic", NOW, NOW - INTERVAL))
    assert outage(log, "traffic", NOW + LEASE + 1) == Outage("traffic", NOW - INTERVAL)


def test_a_live_process_that_processes_nothing_is_behind():
    log = log_with(Heartbeat("traffic", NOW, NOW - LEASE - 1))
    assert outage(log, "traffic", NOW) == Outage("traffic", NOW - LEASE - 1, alive=True)


def test_a_pipeline_that_was_stopped_is_out_of_service_at_once():
    log = log_with(Heartbeat("traffic", NOW, NOW, stopped=True))
    assert outage(log, "traffic", NOW) == Outage("traffic", NOW, stopped=True)


def test_a_log_that_nobody_ever_served_has_no_outage():
    assert outage(MemoryLog(), "traffic", NOW) is None


def test_a_process_that_was_taken_over_cannot_overwrite_its_successor():
    log = log_with(Heartbeat("traffic", NOW, NOW), epoch=2)
    log.append(HEARTBEATS, heartbeat_batch([(Heartbeat("traffic", NOW + 1, NOW, stopped=True), version(1, 999))]))
    assert outage(log, "traffic", NOW) is None


@pytest.mark.parametrize("body", [b"", b"[]", b"null", b'{"at": "x"}', b"\xff", b"[" * 100_000])
def test_a_heartbeat_that_cannot_be_read_is_no_sign_of_life(body):
    log = MemoryLog()
    log.append(HEARTBEATS, compacted([("traffic", 1, body)]))
    assert latest_heartbeat(log, "traffic") == Heartbeat("traffic", 0)
