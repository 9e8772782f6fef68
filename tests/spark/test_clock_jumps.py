"""Time that leaps: the shards of every kind pass over years at once, and a lone clock row far ahead does not count."""

import pytest
from stream_pipeline import TRAFFIC
from test_bounded_shard import last, settled

from tolerant.edge import event_clock
from tolerant.edge.source_core import SourceCore
from tolerant.kinds.bounded import engine
from tolerant.pipeline.clocks import JUMP, Clock
from tolerant.streams import SECOND, StreamOptions
from tolerant.transport.rows import Grant

DAY = 24 * 3600 * SECOND
LOAD = "CREATE QUERY load AS SELECT SUM(rate) FROM traffic WITHIN 5"
POLICIES = ("predictive", "adaptive", "uniform", "exact")


def later(pipeline, time):
    """Nobody is there for so long; then the source sends again, under clock rows that bear each other out."""
    pipeline.now += time
    pipeline.clock()
    pipeline.now += SECOND // 10
    pipeline.clock()
    pipeline.read()


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("time", [DAY, 400 * DAY, 30 * 365 * DAY])
def test_a_pipeline_that_was_away_for_years_goes_on_at_once(policy, time):
    pipeline = settled(LOAD, stream=f"{TRAFFIC} WITH (policy = '{policy}')", a=1.0, b=2.0)
    pipeline.set("edge", a=1.5)
    later(pipeline, time)
    assert pipeline.shard.watermark >= pipeline.now - SECOND
    assert not last(pipeline)[3]  # nobody has been heard for long
    pipeline.set("edge", a=100.0, b=200.0)
    pipeline.tick(15)
    low, value, high, good = last(pipeline)
    assert good
    assert low <= 300.0 <= high
    assert value == pytest.approx(300.0, abs=5)


@pytest.mark.parametrize("policy", POLICIES)
def test_leaping_says_what_walking_says(policy, monkeypatch):
    """The same log, once boundary by boundary and once with a leap: the same believed widths, and the same answers once
    sources are heard again."""
    found = []
    for most in (10**9, 5):
        monkeypatch.setattr(engine, "LEAP", most)
        pipeline = settled(LOAD, stream=f"{TRAFFIC} WITH (policy = '{policy}')", a=1.0, b=2.0)
        pipeline.tick(20)
        pipeline.now += 3600 * SECOND
        pipeline.clock()
        pipeline.read()
        boundaries = pipeline.shard._engine.counters.boundaries
        widths = [pipeline.shard.believed(name) for name in ('["a","in"]', '["b","in"]')]
        stale = [(answer.at, answer.settled) for answer in pipeline.answers("load")][-1]
        pipeline.set("edge", a=50.0, b=60.0)
        pipeline.tick(25)
        found.append((boundaries, widths if policy != "adaptive" else None, stale[1], last(pipeline)[3]))
        low, _, high, good = last(pipeline)
        assert good
        assert low <= 110.0 <= high
    assert found[0] == found[1]


def test_a_lone_clock_row_far_ahead_does_not_move_time_for_ever():
    pipeline = settled(LOAD, a=1.0, b=2.0)
    pipeline.clock(pipeline.now + 3 * JUMP)
    pipeline.read()
    assert pipeline.shard.watermark <= pipeline.now
    again = type(pipeline.shard)(pipeline.stream, 0, 1, "checkpoint")
    again.restore(pipeline.shard.snapshot())
    assert again.snapshot() == pipeline.shard.snapshot()
    pipeline.shard = again
    pipeline.set("edge", a=100.0)
    pipeline.tick(3)
    assert "did not bear it out" in pipeline.rows("dead_letters.traffic")[-1]["reason"]
    assert last(pipeline)[3]
    assert last(pipeline)[1] == pytest.approx(102.0, abs=5)


def test_which_clock_rows_count():
    clock = Clock(10 * SECOND)
    assert clock.take(0) == ([0], [])
    assert clock.take(JUMP) == ([JUMP], [])
    assert clock.take(JUMP - SECOND) == ([JUMP], [])  # time does not go back
    assert clock.take(5 * JUMP) == ([], [])
    taken, refused = clock.take(9 * JUMP)  # two that are far ahead and far from each other: the nearer one waits
    assert (taken, [row.at for row in refused]) == ([], [9 * JUMP])
    assert clock.take(5 * JUMP - 1) == ([5 * JUMP, 5 * JUMP], [])
    restored = Clock(0)
    restored.load(clock.state())
    assert restored == clock


def test_long_periods_make_long_jumps():
    assert Clock(JUMP).take(0) == ([0], [])
    clock = Clock(JUMP)
    clock.take(0)
    assert clock.take(100 * JUMP) == ([100 * JUMP], [])


# -- sources that slept ------------------------------------------------------------------------------------------------


def source(policy):
    made = SourceCore("edge", 1, StreamOptions(policy=policy))
    handles = made.register(["a", "b"])
    grants = [Grant(item, 4.0, 0.05 if policy == "adaptive" else 0.0, 1, 1, False, 1.0) for item in ("a", "b")]
    made.grant(grants, 1)
    for tick in range(1, 30):  # a moves steadily, which predictive filters expect
        made.offer(handles, [2.0 * tick, 1.0] * __import__("numpy").ones(2), tick * SECOND)
    made.drain()
    return made, handles


@pytest.mark.parametrize("policy", ["predictive", "adaptive"])
def test_a_source_that_slept_for_years_wakes_at_once(policy):
    made, _ = source(policy)
    now = 40 * 365 * DAY
    made.advance(now)
    batch = made.drain()
    assert batch is not None
    assert len(batch) < 100
    assert made.clock == now
    for name in ("a", "b"):
        state = made.filter_of(name)
        assert state is not None
        assert abs(state.centre - {"a": 58.0, "b": 1.0}[name]) <= state.width / 2 + 1e-9


@pytest.mark.parametrize("policy", ["predictive", "adaptive"])
def test_a_source_that_slept_says_in_the_end_what_one_says_that_walked(policy, monkeypatch):
    found = []
    for most in (10**9, 5):
        monkeypatch.setattr(event_clock, "LEAP", most)
        made, _ = source(policy)
        made.advance(2000 * SECOND)
        rows = {row["key"]: (row["value"], row["grant"]) for row in made.drain().to_pylist() if row["key"]}
        widths = [made.filter_of(name).width for name in ("a", "b")]
        found.append((widths, made.clock, {key: value[1] for key, value in rows.items()}))
    assert found[0][:2] == found[1][:2]
