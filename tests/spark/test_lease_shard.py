"""A source that has died is not known to have, until its lease is over: until then settled answers hold the last values
that it set, whatever its filters would have done by themselves had it lived.
"""

import numpy as np
import pytest
from stream_pipeline import StreamPipeline, key

from tolerant.kernels.versions import version
from tolerant.streams import SECOND
from tolerant.transport.rows import updates_batch

TOP = "CREATE QUERY top AS SELECT MAX(rate) FROM traffic WITHIN 3"
TOTAL = "CREATE QUERY total AS SELECT SUM(rate) FROM traffic WITHIN 6"
STREAM = "CREATE STREAM traffic (host STRING, kind STRING, rate DOUBLE) KEY (host, kind) WITH (lease = '30 s'{})"


def climb(pipeline: StreamPipeline, ticks: int, **slopes: float) -> dict[str, float]:
    """Set values that change steadily, a tick apart; what they came to."""
    values: dict[str, float] = {}
    for _ in range(ticks):
        pipeline.now += SECOND
        pipeline.advance()
        values = {host: slope * (pipeline.now // SECOND % 100_000) for host, slope in slopes.items()}
        pipeline.set("edge", **values)
        pipeline.clock()
        pipeline.read()
    return values


def watched(pipeline: StreamPipeline, query: str, since: int) -> list:
    return [answer for answer in pipeline.answers(query) if answer.settled and answer.at > since]


@pytest.mark.parametrize("slope", [1.0, -1.0, 7.0])
def test_the_predicted_value_of_a_dead_source_does_not_leave_its_last_one_behind(slope: float) -> None:
    pipeline = StreamPipeline(TOP, TOTAL, stream=STREAM.format(""))
    pipeline.start_source("edge")
    climb(pipeline, 150, a=slope, b=0.0)
    assert pipeline.shard._engine._coordinator.item_view(pipeline.shard._engine.registry.items()).believed.max() <= 6
    assert pipeline.answers("top")[-1].settled
    assert pipeline.answers("total")[-1].settled
    values = climb(pipeline, 1, a=slope, b=0.0)
    died = pipeline.now
    del pipeline.sources["edge"]
    pipeline.tick(45)
    top, total = max(values.values()), sum(values.values())
    for query, truth in (("top", top), ("total", total)):
        wrong = [answer for answer in watched(pipeline, query, died) if not answer.low <= truth <= answer.high]
        assert not wrong, wrong[:3]
        # Unsettled ones have the interval that is true, too.
        later = [answer for answer in pipeline.answers(query) if answer.at > died and answer.low is not None]
        assert all(answer.low <= truth <= answer.high for answer in later)
    assert not pipeline.answers("total")[-1].settled


def test_a_live_climb_stays_settled_by_a_row_per_tick() -> None:
    pipeline = StreamPipeline(TOTAL, stream=STREAM.format(""))
    pipeline.start_source("edge")
    climb(pipeline, 150, a=0.5, b=0.25)
    before, since = pipeline.summary(), pipeline.now
    climb(pipeline, 60, a=0.5, b=0.25)
    assert all(answer.settled for answer in pipeline.answers("total") if answer.at > since)
    after = pipeline.summary()
    assert after["update"] - before["update"] <= 10
    assert after["heartbeat"] - before["heartbeat"] <= 60


def test_the_width_of_a_dead_source_does_not_shrink() -> None:
    hosts = "CREATE QUERY hosts AS SELECT host, SUM(rate) FROM traffic GROUP BY host WITHIN 6"
    pipeline = StreamPipeline(TOTAL, hosts, stream=STREAM.format(", policy = 'adaptive', period = 2, shrink = 0.3"))
    pipeline.start_source("edge")
    pipeline.set("edge", a=10.0, b=20.0)
    pipeline.tick(5)
    believed = {host: pipeline.shard.believed(key(host)) for host in "ab"}
    values = {host: centre + 0.49 * width for host, (centre, width) in believed.items()}
    pipeline.set("edge", **values)
    pipeline.clock()
    pipeline.read()
    died = pipeline.now
    del pipeline.sources["edge"]
    pipeline.tick(25)
    for host, value in values.items():
        answers = [answer for answer in pipeline.answers("hosts", host) if answer.at > died]
        standing = pipeline.answers("hosts", host)[-1]
        assert all(answer.low <= value <= answer.high for answer in [*answers, standing] if answer.low is not None)
        low, high = pipeline.shard.ends(key(host))
        assert low <= value <= high


def test_a_source_that_shrinks_by_itself_says_so_at_each_boundary() -> None:
    pipeline = StreamPipeline(TOTAL, stream=STREAM.format(", policy = 'adaptive', period = 2, shrink = 0.3"))
    pipeline.start_source("edge")
    pipeline.set("edge", a=10.0, b=20.0)
    pipeline.tick(5)
    since = pipeline.now
    pipeline.tick(40)
    assert all(answer.settled for answer in pipeline.answers("total") if answer.at > since)


def test_a_new_start_does_not_vouch_for_the_time_before_it() -> None:
    """The hello of a restart is read before its time has come; the items are those of the start before until then."""
    pipeline = StreamPipeline(TOP, stream=STREAM.format(", latency = '5 s'"))
    pipeline.start_source("edge")
    values = climb(pipeline, 150, a=2.0)
    died = pipeline.now
    core = pipeline.sources.pop("edge")
    pipeline.tick(4)
    pipeline.log.append(
        "updates.traffic",
        updates_batch(
            kind="hello", keys=[key("a")], at=[pipeline.now + 2 * SECOND], source="edge", sequence=[version(2, 1)],
            through=pipeline.now + 2 * SECOND, value=[0.0],
        ),
    )  # fmt: skip
    pipeline.tick(7)
    assert core.epoch == 1
    between = [a for a in pipeline.answers("top") if died < a.at < died + 6 * SECOND and a.settled]
    assert not [a for a in between if not a.low <= values["a"] <= a.high]


def test_how_long_sources_have_lived_survives_a_restart_of_the_pipeline() -> None:
    pipeline = StreamPipeline(TOTAL, stream=STREAM.format(""))
    pipeline.start_source("edge")
    climb(pipeline, 150, a=1.0, b=3.0)
    del pipeline.sources["edge"]
    pipeline.tick(3)
    twin = type(pipeline.shard)(pipeline.stream, 0, 1, "checkpoint")
    twin.restore(pipeline.shard.snapshot())
    assert twin.snapshot() == pipeline.shard.snapshot()
    assert [twin.ends(key(host)) for host in "ab"] == [pipeline.shard.ends(key(host)) for host in "ab"]
    low, high = pipeline.shard.ends(key("b"))
    assert high - low > 9  # three ticks of a slope of 3, beside the filter
    assert np.isfinite(high)
