"""What a process says of the pipelines that it runs, by how far they have come."""

import pytest

from tolerant.spark.heartbeats import HeartbeatWriter
from tolerant.transport import MemoryLog
from tolerant.transport.heartbeats import INTERVAL, LEASE, Outage, latest_heartbeat, outage
from tolerant.transport.rows import clock_batch
from tolerant.transport.topics import HEARTBEATS

NOW = 1_700_000_000_000_000


@pytest.fixture
def log():
    return MemoryLog()


def tick(log, writer, at):
    """A clock row, as the runner appends it; its position."""
    position = log.append("updates.traffic", clock_batch(at))
    writer.clock_appended(position, at)
    return position


def processed(log):
    return latest_heartbeat(log, "traffic").processed


def test_what_the_pipeline_has_come_to_is_processed(log):
    writer = HeartbeatWriter(log)
    writer.start("traffic", 1, "checkpoint", NOW)
    first = tick(log, writer, NOW + INTERVAL)
    second = tick(log, writer, NOW + 2 * INTERVAL)
    writer.beat(NOW + 2 * INTERVAL, {})
    assert processed(log) == 0
    writer.beat(NOW + 3 * INTERVAL, {"traffic": first})
    assert processed(log) == NOW + INTERVAL
    writer.beat(NOW + 4 * INTERVAL, {"traffic": second})
    assert processed(log) == NOW + 2 * INTERVAL


def test_a_backlog_keeps_answers_from_being_current(log):
    writer = HeartbeatWriter(log)
    writer.start("traffic", 1, "checkpoint", NOW)
    reached = {"traffic": tick(log, writer, NOW)}
    for second in range(1, 30):
        tick(log, writer, NOW + second * INTERVAL)
        writer.beat(NOW + second * INTERVAL, reached)
    assert outage(log, "traffic", NOW + 29 * INTERVAL) == Outage("traffic", NOW, alive=True)


def test_a_restart_goes_on_from_what_was_processed_before(log):
    writer = HeartbeatWriter(log)
    writer.start("traffic", 1, "checkpoint", NOW)
    writer.beat(NOW + INTERVAL, {"traffic": tick(log, writer, NOW + INTERVAL)})
    again = HeartbeatWriter(log)
    again.start("traffic", 2, "checkpoint", NOW + 60 * INTERVAL)
    assert processed(log) == NOW + INTERVAL
    assert outage(log, "traffic", NOW + 60 * INTERVAL).alive
    again.beat(NOW + 61 * INTERVAL, {"traffic": tick(log, again, NOW + 61 * INTERVAL)})
    assert outage(log, "traffic", NOW + 61 * INTERVAL) is None


def test_in_trace_time_a_live_process_is_up_to_date(log):
    writer = HeartbeatWriter(log, by_log=True)
    writer.start("traffic", 1, "checkpoint", NOW)
    writer.beat(NOW + INTERVAL, {})
    assert outage(log, "traffic", NOW + INTERVAL) is None
    assert outage(log, "traffic", NOW + INTERVAL + LEASE + 1) is not None


def test_heartbeats_are_an_interval_apart_and_end_with_their_pipeline(log):
    writer = HeartbeatWriter(log)
    writer.start("traffic", 1, "checkpoint", NOW)
    writer.beat(NOW + INTERVAL, {})
    writer.beat(NOW + INTERVAL + INTERVAL // 2, {})
    assert latest_heartbeat(log, "traffic").at == NOW + INTERVAL
    writer.stop(NOW + 2 * INTERVAL)
    assert latest_heartbeat(log, "traffic").stopped
    writer.start("traffic", 2, "checkpoint", NOW)
    writer.end("traffic")
    assert log.latest(HEARTBEATS, "traffic") is None
    writer.beat(NOW + 9 * INTERVAL, {})
    assert log.latest(HEARTBEATS, "traffic") is None


def test_clock_rows_that_were_passed_are_forgotten(log):
    writer = HeartbeatWriter(log)
    writer.start("traffic", 1, "checkpoint", NOW)
    for second in range(1, 1000):
        writer.beat(NOW + second * INTERVAL, {"traffic": tick(log, writer, NOW + second * INTERVAL)})
    assert len(writer._clocks) < 5
