import json
import threading

import pyarrow as pa
import pytest

from tolerant.edge import replay
from tolerant.edge.trace_replay import newest_clock
from tolerant.sql import CreateStream, encode
from tolerant.streams import Column, Stream, StreamOptions
from tolerant.transport import MemoryLog
from tolerant.transport.rows import COMPACTED, NO_TIME, STATEMENTS, clock_batch, unpack

T = 20_000


def make_log(tick=10_000):
    options = StreamOptions(tick=tick, period=2, lease=60_000, latency=5_000)
    columns = (Column("host", "STRING"), Column("kind", "STRING"), Column("rate", "DOUBLE"))
    body = encode(CreateStream(Stream("traffic", columns, ("host", "kind"), options=options)))
    log = MemoryLog()
    row = {"kind": "stream", "key": "traffic", "request": "", "text": "", "body": body}
    log.append("queries", pa.RecordBatch.from_pylist([row], STATEMENTS))
    return log


@pytest.fixture
def trace(tmp_path):
    path = tmp_path / "trace.csv"
    path.write_text('a/in,"[""a"",""out""]"\n1,5\n2,\n3,6\n3,6\n4,7\n')
    return path


def rows(log):
    return [row for entry in log.read("updates.traffic") for row in unpack(entry.payload).to_pylist()]


def status(log, watermark):
    body = json.dumps({"watermark": watermark}).encode()
    row = {"key": "summary/0", "version": watermark, "body": body}
    log.append("status.traffic", pa.RecordBatch.from_pylist([row], COMPACTED))


def test_real_time_offers_every_reading_on_the_wall_clock(trace):
    log = make_log()
    done = replay(trace, "traffic", log, speed=20)
    assert (done.ticks, done.values) == (5, 9)
    sent = [(row["key"], row["value"]) for row in rows(log) if row["kind"] in ("hello", "update")]
    assert sent == [
        ('["a","in"]', 1.0), ('["a","out"]', 5.0), ('["a","in"]', 2.0), ('["a","in"]', 3.0),
        ('["a","out"]', 6.0), ('["a","in"]', 4.0), ('["a","out"]', 7.0),
    ]  # fmt: skip
    assert all(row["kind"] != "clock" for row in rows(log))


def test_in_trace_time_no_row_stands_behind_a_clock_that_has_passed_it(trace):
    log = make_log()
    done = replay(trace, "traffic", log, speed="max", patience=0.0)
    assert not done.followed
    assert done.start % T == 0
    assert done.end - done.start == 5 * 10_000 - 1
    clock, firsts = NO_TIME, {}
    for row in rows(log):
        if row["kind"] == "clock":
            assert row["at"] >= clock
            clock = row["at"]
        else:
            assert row["at"] > clock
            firsts.setdefault((row["kind"], row["key"]), row["at"])
    assert clock > done.end + 5_000
    clocks = [row["at"] for row in rows(log) if row["kind"] == "clock"]
    assert clocks[0] == clocks[1] < clocks[2]  # far ahead of those before, they must bear each other out
    assert clocks[-3] < clocks[-2] == clocks[-1]
    assert firsts["hello", '["a","in"]'] == done.start


def test_a_second_replay_begins_after_what_the_clock_has_passed(trace):
    log = make_log()
    future = 10**17
    log.append("updates.traffic", clock_batch(future))
    log.append("updates.traffic", clock_batch(NO_TIME, 3, "id"))
    assert replay(trace, "traffic", log, speed="max", patience=0.0).start > future


def test_the_newest_clock_is_found_however_far_back_it_stands():
    log = make_log()
    assert newest_clock(log, "traffic") == NO_TIME
    log.append("updates.traffic", clock_batch(77))
    log.append_packed([("updates.traffic", b"garbage")] * 2000)
    assert newest_clock(log, "traffic") == 77


def test_it_waits_for_the_pipeline_and_goes_on_when_it_follows(tmp_path):
    path = tmp_path / "long.csv"
    path.write_text("a/in\n" + "".join(f"{n}\n" for n in range(40)))
    log, over, lead = make_log(), threading.Event(), []

    def follow():
        watermark = 0
        while not over.wait(0.005):
            newest = newest_clock(log, "traffic")
            if newest != NO_TIME and newest - 5_000 > watermark:
                if watermark:
                    lead.append(newest - watermark)
                watermark = newest - 5_000
                status(log, watermark)

    pipeline = threading.Thread(target=follow)
    pipeline.start()
    try:
        done = replay(path, "traffic", log, speed="max", patience=30.0)
    finally:
        over.set()
        pipeline.join()
    assert done.followed
    assert max(lead) <= 5 * T


def test_it_ends_when_its_seconds_are_over(trace):
    assert replay(trace, "traffic", make_log(), speed=1e-3, seconds=0.0).ticks == 0


@pytest.mark.parametrize("speed", [0, -1, float("inf"), "fast"])
def test_a_speed_is_a_positive_number_or_max(trace, speed):
    with pytest.raises(ValueError, match="speed must be"):
        replay(trace, "traffic", make_log(), speed=speed)


@pytest.mark.parametrize(
    ("header", "message"), [("a", "has 1 parts, expected 2"), ('a/in,"[""a"",""in""]"', "name the same item")]
)
def test_items_must_fit_the_stream(tmp_path, header, message):
    path = tmp_path / "odd.csv"
    path.write_text(f"{header}\n" + ",".join("1" * (header.count(",in") + header.count('"in') + 1)) + "\n")
    with pytest.raises(ValueError, match=message):
        replay(path, "traffic", make_log(), speed="max")


def test_waiting_for_a_pipeline_is_told(trace):
    waits = []
    done = replay(trace, "traffic", make_log(), speed="max", patience=0.2, waiting=waits.append)
    assert not done.followed
    assert max(waits) > 0.1
