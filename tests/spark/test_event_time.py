"""How long a shard waits for rows: as told, or as long as all but a few of them take."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from stream_pipeline import START, TRAFFIC, StreamPipeline

from tolerant.pipeline.delay_histogram import Delays
from tolerant.pipeline.event_time import EventTime
from tolerant.streams import SECOND


@given(st.lists(st.integers(0, 10**9), min_size=1, max_size=40), st.floats(50, 99.9))
def test_a_percentile_is_reached_and_is_not_much_more_than_the_least_time_that_does(few, share):
    delays = few * (1000 // len(few) + 1)
    histogram = Delays()
    histogram.note(np.array(delays))
    found = histogram.percentile(share)
    assert np.mean(np.array(delays) <= found) >= share / 100
    least = sorted(delays)[int(np.ceil(len(delays) * share / 100)) - 1]
    assert found <= max(least, 1000) * 2**0.25 + 2


def test_delays_are_forgotten():
    histogram = Delays()
    histogram.note(np.full(20_000, 8_000_000))
    for _ in range(20):
        histogram.note(np.full(20_000, 10_000))
    assert histogram.percentile(99.9) < 20_000


def test_the_horizon_follows_the_delays_seen_and_never_goes_back():
    event_time = EventTime(SECOND, 10 * SECOND, percentile=99.0, longest=10 * SECOND)
    watermarks = []
    for second in range(100, 220):
        delay = 100_000 if second < 160 else 700_000
        event_time.tick(second * SECOND)
        watermarks.append(event_time.watermark)
        event_time.note_delays(np.full(50, second * SECOND - delay))
    assert watermarks == sorted(watermarks)
    assert event_time.latency >= 700_000
    waits = [second * SECOND - watermark for second, watermark in zip(range(100, 220), watermarks, strict=True)]
    assert waits[0] == SECOND
    assert 100_000 <= waits[50] <= 130_000
    again = EventTime(SECOND, 10 * SECOND, percentile=99.0, longest=10 * SECOND)
    again.load(event_time.state())
    assert again.latency == event_time.latency


def test_a_stream_that_waits_for_a_percentile_answers_sooner():
    pipeline = StreamPipeline(
        "CREATE QUERY load AS SELECT AVG(rate) FROM traffic WITHIN 0",
        stream=f"{TRAFFIC} WITH (latency = 'p99.9', tick = '50 ms')",
    )
    pipeline.start_source("edge")
    for number in range(700):
        pipeline.now += SECOND // 20
        pipeline.advance()
        pipeline.set("edge", a=float(number), b=-float(number * number))
        pipeline.clock()
        pipeline.read()
    assert pipeline.answers("load")[-1].at > pipeline.now - SECOND // 4
    assert pipeline.answers("load")[10].at > START
    assert pipeline.summary()["late"] == 0
