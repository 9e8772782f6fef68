"""Time that leaps, in the shards of polled streams, networks, tables and views."""

import pytest
from test_polled_shard import QUOTES_TEXT, TOTAL, PolledPipeline
from test_table_shard import AREA, StockPipeline

from tolerant.kinds.network import shard as network
from tolerant.pipeline.clocks import MINUTE, Clock
from tolerant.streams import SECOND
from tolerant.testing.networks import SimulatedNetwork
from tolerant.transport.changes import clock_row
from tolerant.transport.rows import clock_batch

YEARS = 30 * 366 * 24 * 3600 * SECOND


def test_a_polled_stream_passes_over_years():
    pipeline = PolledPipeline(QUOTES_TEXT, TOTAL)
    for _ in range(5):
        for item in "ABC":
            pipeline.pull(item, 10.0)
        pipeline.tick()
    pipeline.log.append("updates.quotes", clock_batch(pipeline.now + YEARS, 1, "checkpoint"))
    pipeline.tick()  # goes on from before: the one that was far ahead is nobody's
    assert "did not bear it out" in list(dead(pipeline, "quotes"))[-1]["reason"]
    pipeline.now += YEARS
    pipeline.tick()
    pipeline.tick()
    assert pipeline.shard.watermark == pipeline.now - SECOND // 2
    for item in "ABC":
        pipeline.pull(item, 20.0)
    pipeline.tick()
    assert pipeline.shard.poller.last_pull("A") == (20.0, pipeline.second - 1)
    again = PolledPipeline(QUOTES_TEXT)
    again.history.fold(pipeline.shard.snapshot())
    again.restart()
    assert again.shard.snapshot() == pipeline.shard.snapshot()


def dead(pipeline, name):
    from tolerant.transport.rows import unpack

    return [row for entry in pipeline.log.read(f"dead_letters.{name}") for row in unpack(entry.payload).to_pylist()]


@pytest.mark.parametrize("most", [10**9, 3])
def test_a_network_passes_over_years_and_leaps_as_it_walks(most, monkeypatch):
    monkeypatch.setattr(network, "LEAP", most)
    world = SimulatedNetwork(4, faults=False)
    world.run(3)
    before = world.shard._progress.passed
    world.now += 3600 * SECOND  # moderate: both ways can be gone
    world.run(6)
    assert world.shard._progress.passed - before > 3600 - 60
    assert world.violations() == []
    assert not any(alive.silent for _, alive in world.shard._aggregators.items())
    assert any(answer.settled for answer in world.answers("q0")[-5:])


def test_a_network_is_not_held_up_by_a_long_sleep():
    world = SimulatedNetwork(4, faults=False)
    world.run(3)
    world.now += YEARS
    world.run(6)
    assert (world.shard.watermark or 0) > world.now - 5 * SECOND
    assert any(answer.settled for answer in world.answers("q0")[-5:])


def test_a_table_passes_over_years_and_not_for_a_lone_clock_row():
    pipeline = StockPipeline(AREA)
    pipeline.table().insert(id=1, name="n", x=1.0, y=1)
    pipeline.tick()
    pipeline.log.append("changes.stock", clock_row(pipeline.relation.columns, pipeline.now + YEARS, 1, "checkpoint"))
    pipeline.tick()
    assert "did not bear it out" in pipeline.rows("dead_letters.stock")[-1]["reason"]
    assert pipeline.shard.watermark <= pipeline.now
    pipeline.now += YEARS
    pipeline.tick()
    pipeline.tick()
    assert pipeline.shard.watermark == pipeline.now - SECOND // 2
    pipeline.table().insert(id=2, name="n", x=1.0, y=1)
    pipeline.tick()
    pipeline.tick()
    assert len(pipeline.shard.relation) == 2


@pytest.mark.parametrize("back", [1, 20 * SECOND, 400 * 24 * 3600 * SECOND])
def test_time_does_not_go_back(back):
    clock, at = Clock(MINUTE), 2 * 10**15
    assert clock.take(at, is_named=True) == ([at], [])
    assert clock.take(at - back) == ([at], [])
    assert clock.take(at + SECOND) == ([at + SECOND], [])


@pytest.mark.parametrize("back", [5 * SECOND, 10**9])
def test_an_old_clock_row_drops_no_rows_of_a_network(back):
    """Rows that stand before it are not ahead of time."""
    world = SimulatedNetwork(7, faults=False)
    for _ in range(25):
        world.run(0.2)
        world.log.append("updates.prices", clock_batch(max(1, world.now - back)))
    world.run(1)
    assert [topic for topic in world.log.topics() if topic.startswith("dead_letters.")] == []
    assert world.settled() > 0
    assert world.violations() == []


def test_a_topic_that_nobody_reads_is_a_dead_letter():
    pipeline = StockPipeline(AREA)
    pipeline.tick()
    from tolerant.transport.log import Entry

    pipeline.shard.apply([Entry("changes.other", 0, 10**6, b"x")])
    outputs = pipeline.shard.apply([])
    assert outputs is not None
