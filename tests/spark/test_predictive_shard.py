"""What predictive filters cost between sources and shard, against what `simulate` says that they cost."""

from collections import Counter

import numpy as np
from stream_pipeline import StreamPipeline, key

from tolerant.filters import simulate
from tolerant.queries import Aggregate
from tolerant.streams import SECOND
from tolerant.traces import Trace
from tolerant.transport.rows import read_grants, unpack

HOSTS, TICKS, WITHIN = 12, 600, 6.0
STATEMENT = f"CREATE QUERY total AS SELECT SUM(rate) FROM traffic WITHIN {WITHIN}"


def readings(seed: int) -> np.ndarray:
    """Half of the hosts climb and fall for a while, the others walk, some a hundred times as fast as others."""
    random = np.random.default_rng(seed)
    scale = np.geomspace(0.02, 2, HOSTS)
    trends = np.repeat(random.normal(0, 1, (TICKS // 50, HOSTS)), 50, axis=0) * (np.arange(HOSTS) % 2)
    return np.cumsum((trends + random.normal(0, 0.2, (TICKS, HOSTS))) * scale, axis=0)


def play(values: np.ndarray, late: int = 0) -> tuple[StreamPipeline, Counter]:
    """Readings at every tick; grants reach the source `late` ticks after the shard has said them."""
    pipeline = StreamPipeline(STATEMENT)
    core = pipeline.start_source("source")
    handles = core.register([key(f"h{number}") for number in range(HOSTS)])
    sent: Counter = Counter()
    under_way: list[list] = []
    for row in values:
        pipeline.now += SECOND
        core.offer(handles, row, pipeline.now)
        pipeline.append_updates("source")
        pipeline.clock(pipeline.now + SECOND - 1)
        pipeline.read()
        new = []
        for entry in pipeline.log.read("grants.traffic", pipeline.granted["source"]):
            pipeline.granted["source"] = entry.position
            new += read_grants(unpack(entry.payload))
        sent["grant"] += len(new)
        under_way.append(new)
        if len(under_way) > late:
            core.grant(under_way.pop(0), pipeline.now + SECOND // 2)
            pipeline.append_updates("source")
    sent.update(row["kind"] for row in pipeline.rows("updates.traffic"))
    return pipeline, sent


def simulated(values: np.ndarray) -> int:
    names = [key(f"h{number}") for number in range(HOSTS)]
    run = simulate(Trace(tuple(names), values), [Aggregate.over("total", "sum", names, WITHIN)], "predictive")
    return run.updates + run.grants


def test_they_cost_between_sources_and_shard_what_the_simulation_says():
    values = readings(seed=1)
    pipeline, sent = play(values)
    assert sent["update"] + sent["grant"] + sent["ack"] < 1.1 * simulated(values) + 3 * HOSTS
    truth = values.sum(axis=1)
    for answer in pipeline.answers("total"):
        if answer.settled:
            tick = (answer.at - 1_000_000 * SECOND) // SECOND - 1
            assert answer.low - 1e-9 <= truth[tick] <= answer.high + 1e-9


def test_grants_that_are_long_under_way_are_not_taken_for_lost():
    values = readings(seed=2)
    _, prompt = play(values)
    _, late = play(values, late=25)
    assert late["grant"] < prompt["grant"] + 2 * HOSTS
