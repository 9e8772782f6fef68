"""Time that leaps: the shards of every kind pass over years at once, and a lone clock row far ahead does not count."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from stream_pipeline import TRAFFIC, StreamPipeline
from test_bounded_shard import last, settled

from tolerant.edge import event_clock
from tolerant.edge.source_core import SourceCore
from tolerant.kernels.snapshots import Schema
from tolerant.kinds.bounded import engine
from tolerant.pipeline.clocks import MINUTE, Clock, longest_jump
from tolerant.streams import SECOND, StreamOptions
from tolerant.transport.rows import Grant, unpack

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
        later(pipeline, 3600 * SECOND)
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


@pytest.mark.parametrize("checkpoint", ["", "checkpoint"])
@pytest.mark.parametrize("ahead", [2 * MINUTE, 365 * DAY, 3 * 365 * DAY])
def test_a_lone_clock_row_far_ahead_moves_no_time(ahead, checkpoint):
    pipeline = settled(LOAD, a=1.0, b=2.0)
    pipeline.clock(pipeline.now + ahead, checkpoint=checkpoint)
    pipeline.read()
    assert pipeline.shard.watermark <= pipeline.now
    again = type(pipeline.shard)(pipeline.stream, 0, 1, "checkpoint")
    again.restore(pipeline.shard.snapshot())
    assert again.snapshot() == pipeline.shard.snapshot()
    pipeline.shard = again
    pipeline.set("edge", a=100.0)
    pipeline.tick(12)
    assert "did not bear it out" in pipeline.rows("dead_letters.traffic")[-1]["reason"]
    assert pipeline.summary()["late"] == 0
    assert last(pipeline)[3]
    assert last(pipeline)[1] == pytest.approx(102.0, abs=5)


@pytest.mark.parametrize("first", [DAY, 10 * 365 * DAY])
def test_a_first_clock_row_that_names_no_pipeline_moves_no_time(first):
    pipeline = StreamPipeline(LOAD)
    pipeline.clock(pipeline.now + first, checkpoint="")
    pipeline.start_source("edge")
    pipeline.set("edge", a=1.0, b=2.0)
    pipeline.tick(12)
    assert pipeline.shard.watermark == pipeline.now - SECOND // 2
    assert pipeline.summary()["late"] == 0
    assert last(pipeline)[1] == pytest.approx(3.0, abs=5)


def test_rows_wait_for_the_clock_row_that_bears_a_far_one_out():
    """They are neither late nor too far ahead, and are used once time has come."""
    pipeline = settled(LOAD, a=1.0, b=2.0)
    pipeline.now += DAY
    pipeline.set("edge", a=50.0)
    pipeline.clock()
    pipeline.set("edge", b=60.0)
    pipeline.read()
    assert pipeline.shard.watermark < pipeline.now - DAY + SECOND
    pipeline.tick(12)
    assert pipeline.summary()["late"] == pipeline.summary()["dead"] == 0
    assert last(pipeline)[1] == pytest.approx(110.0, abs=5)


@pytest.mark.parametrize("cut", [1, 2, 7])
def test_what_far_clock_rows_do_does_not_depend_on_how_the_log_is_cut(cut):
    pipeline = settled(LOAD, a=1.0, b=2.0)
    for ahead in (DAY, 0, 3 * DAY, 3 * DAY + SECOND, 9 * DAY):
        pipeline.now += SECOND
        pipeline.set("edge", a=float(ahead // SECOND % 7))
        pipeline.clock(pipeline.now + ahead)
    entries = [entry for topic in ("queries", "updates.traffic") for entry in pipeline.log.read(topic)]
    entries.sort(key=lambda entry: entry.position)

    def outputs(size):
        shard = type(pipeline.shard)(pipeline.stream, 0, 1, "checkpoint")
        batches = [entries[begin : begin + size] for begin in range(0, len(entries), size)]
        said = [output for batch in batches for output in shard.apply(batch) if "answers" in output.topic]
        return [row for output in said for row in unpack(output.payload).to_pylist()], shard.watermark

    assert outputs(cut) == outputs(len(entries))
    assert outputs(cut)[1] > pipeline.now + 2 * DAY


def test_which_clock_rows_count():
    clock = Clock(MINUTE)
    assert clock.take(0, is_named=True) == ([0], [])
    assert clock.take(MINUTE) == ([MINUTE], [])
    assert clock.take(MINUTE - SECOND) == ([MINUTE], [])  # time does not go back
    assert clock.take(9 * MINUTE) == ([], [])
    taken, refused = clock.take(5 * MINUTE)  # two that are far ahead and far from each other: the later row waits
    assert (taken, [row.at for row in refused]) == ([], [9 * MINUTE])
    assert clock.take(MINUTE - SECOND) == ([MINUTE], [])  # an old one says nothing about the one that waits
    assert clock.take(5 * MINUTE - 1) == ([5 * MINUTE, 5 * MINUTE], [])
    restored = Clock(MINUTE)
    restored.load(clock.state())
    assert restored == clock


def test_which_first_clock_rows_count():
    clock = Clock(MINUTE)
    assert clock.take(9 * DAY) == ([], [])
    taken, refused = clock.take(DAY)
    assert (taken, [row.at for row in refused]) == ([], [9 * DAY])
    assert "the first" in refused[0].reason
    assert clock.take(DAY + MINUTE) == ([DAY, DAY + MINUTE], [])
    named = Clock(MINUTE)
    assert named.take(0) == ([], [])
    assert named.take(DAY, is_named=True) == ([DAY], [])  # the one that waited is behind it, as any old one


def test_a_forged_clock_row_between_two_true_ones_after_a_downtime_holds_nothing_up_for_long():
    clock = Clock(MINUTE)
    clock.take(0, is_named=True)
    for at in (DAY, 2 * MINUTE, DAY + 1, 2 * 365 * DAY, DAY + 2):
        assert clock.take(at)[0] == []
    assert clock.take(DAY + 3)[0] == [DAY + 2, DAY + 3]


@given(st.lists(st.sampled_from([0, 1, 30, 59, 60, 61, 119, 120, 121, 3600, 3630, 86400, 10**9]), max_size=12))
def test_time_moves_far_only_where_two_clock_rows_in_succession_agree(seconds):
    clock, newest, before = Clock(MINUTE), None, None
    for at in (second * SECOND for second in seconds):
        (taken, _), is_ahead = clock.take(at), newest is None or at > newest
        for time in taken:
            borne_out = before is not None and abs(at - before) <= MINUTE
            assert borne_out or (newest is not None and time - newest <= MINUTE)
        assert taken == sorted(taken)
        newest, before = (taken or [newest])[-1], at if is_ahead else before


def test_long_ticks_and_leases_make_long_jumps():
    assert longest_jump(StreamOptions()) == MINUTE
    assert longest_jump(StreamOptions(period=24 * 3600)) == MINUTE  # clock rows do not wait for period ends
    assert longest_jump(StreamOptions(tick=DAY)) == 2 * DAY
    assert longest_jump(StreamOptions(lease=3600 * SECOND)) == 3600 * SECOND


def test_a_checkpoint_of_the_release_before_goes_on():
    """Its clocks had the period of the stream."""
    pipeline = settled(LOAD, a=1.0, b=2.0)
    state = pipeline.shard.SCHEMA.unpack(pipeline.shard.snapshot())
    for clock in state["shard"]["event_time"]["clocks"].values():
        clock["period"] = 10 * SECOND
    again = type(pipeline.shard)(pipeline.stream, 0, 1, "checkpoint")
    again.restore(Schema("bounded", 1).pack(state))
    assert again.snapshot() == pipeline.shard.snapshot()


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
