"""A predictive source: what it sends lets the other end know its filters at every tick, and no value is outside."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from tolerant.edge.source_core import SourceCore
from tolerant.filters.reports import REPORT
from tolerant.kernels.versions import version
from tolerant.streams import StreamOptions
from tolerant.testing.adversarial import AdversarialSource
from tolerant.transport.rows import Grant

OPTIONS = StreamOptions(tick=10, period=2, lease=90, latency=5, policy="predictive")


def granted(item, width, counter, *, unit=2.0, confirm=False):
    return Grant(item, width, 0.0, 1, version(1, counter), confirm, unit)


def sent(core):
    batch = core.drain()
    return [] if batch is None else [row for row in batch.to_pylist() if row["kind"] != "heartbeat"]


def test_a_steady_climb_is_sent_as_a_slope_and_then_not_at_all():
    core = SourceCore("here", 1, OPTIONS)
    core.grant([granted("a", 4.0, 1, unit=4.0)], 1)
    handle = core.register(["a"])
    counts = []
    for tick in range(1, 400):
        core.offer(handle, np.array([0.5 * tick]), 10 * tick)
        counts.append(len(sent(core)))
    assert sum(counts[:60]) >= 3
    assert sum(counts[-200:]) <= 1


def test_a_reading_at_the_tick_is_held_against_the_centre_of_the_tick_and_the_one_before_is_not():
    core = SourceCore("here", 1, OPTIONS)
    core.grant([granted("a", 4.0, 1, unit=4.0)], 1)
    handle = core.register(["a"])
    counts = []
    for tick in range(1, 400):  # steps of more than half the width
        core.offer(handle, np.array([3.0 * tick]), 10 * tick)
        counts.append(len(sent(core)))
    assert sum(counts[-200:]) == 0


def test_readings_just_after_a_tick_are_taken_to_be_of_the_tick():
    options = StreamOptions(tick=1000, period=2, lease=90_000, latency=500, policy="predictive")
    core = SourceCore("here", 1, options)
    handle = core.register(["a"])
    core.offer(handle, np.array([1.0]), 1_990)
    assert core.nearest(2_030) == 2_000
    assert core.nearest(2_060) == 2_060
    assert core.wait_for_readings(2_030) == 1_999
    assert core.wait_for_readings(2_060) == 2_060
    core.advance(2_060)
    assert core.nearest(2_070) == 2_070
    core.offer(handle, np.array([5.0]), core.nearest(3_020))
    assert sent(core)[-1]["at"] == 3_000
    assert core.nearest(3_030) == 3_030  # the tick has passed


def test_an_update_carries_what_other_widths_would_have_sent_when_that_is_news():
    core = SourceCore("here", 1, OPTIONS)
    core.grant([granted("a", 1.0, 1, unit=4.0)], 1)
    handle = core.register(["a"])
    for tick in range(1, 60):
        core.offer(handle, np.array([float(tick % 7)]), 10 * tick)
    told = [row["report"] for row in sent(core)]
    assert told[0] is not None
    assert told.count(None) > len(told) / 5
    for tick in range(60, 1200):
        core.offer(handle, np.array([float(tick % 7)]), 10 * tick)
    again = [row for row in sent(core) if row["report"] is not None]
    assert again  # now and then all the same
    core.grant([granted("a", 1.0, 2, unit=4.0, confirm=True)], 10 * 1200)
    (asked,) = [row for row in sent(core) if row["kind"] == "ack"]
    report = np.frombuffer(asked["report"], REPORT)[0]
    assert report["unit"] == 4.0
    assert 1190 <= report["age"] <= 1200
    codes = report["curves"].astype(int)
    assert (np.diff(codes[:18]) >= 0).all()  # a wider filter sends no more
    assert (np.diff(codes[18:]) >= 0).all()


VALUES = st.floats(-30, 30, allow_nan=False).map(lambda x: round(x, 2))
STEPS = st.one_of(
    st.tuples(st.just("offer"), st.sampled_from("ab"), VALUES),
    st.tuples(st.just("grant"), st.sampled_from("ab"), st.sampled_from([0.0, 0.5, 3.0, 8.0, np.inf])),
    st.tuples(st.just("wait"), st.just("a"), st.just(0.0)),
)


@settings(max_examples=150, deadline=None)
@given(st.lists(st.tuples(STEPS, st.integers(0, 45)), max_size=40), st.sampled_from([SourceCore, AdversarialSource]))
def test_the_other_end_knows_every_filter_and_no_value_is_outside(script, kind):
    core, now, counter = kind("here", 1, OPTIONS), 1, 0
    told: dict[str, dict] = {}
    for (action, key, number), step in script:
        now += step
        if action == "offer":
            core.offer(core.register([key]), np.array([number]), now)
        elif action == "grant":
            counter += 1
            core.grant([granted(key, number, counter, confirm=counter % 2 == 0)], now)
        else:
            core.advance(now)
        told |= {row["key"]: row for row in sent(core)}
        for item in core.items():
            state, row = core.filter_of(item), told[item]
            ticks = core.clock // OPTIONS.tick - row["at"] // OPTIONS.tick
            assert state.centre == row["value"] + row["slope"] * ticks
            assert abs(state.value - state.centre) <= state.width / 2
