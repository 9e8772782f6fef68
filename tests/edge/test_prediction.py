"""A predictive source: what it sends lets the other end know its filters at every tick, and no value is outside."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from tolerant.edge.core import SourceCore
from tolerant.filters.reports import REPORT
from tolerant.kernels.versions import version
from tolerant.streams import StreamOptions
from tolerant.testing.bold import BoldSource
from tolerant.transport.rows import Grant

OPTIONS = StreamOptions(tick=10, period=2, lease=90, latency=5, policy="predictive")


def granted(item, width, counter, *, unit=2.0, confirm=False):
    return Grant(item, width, 0.0, 1, version(1, counter), confirm, unit)


def sent(core):
    batch = core.drain()
    return [] if batch is None else [row for row in batch.to_pylist() if row["kind"] != "beat"]


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


def test_an_update_carries_what_other_widths_would_have_sent():
    core = SourceCore("here", 1, OPTIONS)
    core.grant([granted("a", 1.0, 1, unit=4.0)], 1)
    handle = core.register(["a"])
    for tick in range(1, 60):
        core.offer(handle, np.array([float(tick % 7)]), 10 * tick)
    report = np.frombuffer(sent(core)[-1]["report"], REPORT)[0]
    assert report["unit"] == 4.0
    assert 50 <= report["age"] <= 60
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
@given(st.lists(st.tuples(STEPS, st.integers(0, 45)), max_size=40), st.sampled_from([SourceCore, BoldSource]))
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
