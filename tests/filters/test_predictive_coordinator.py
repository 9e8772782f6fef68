"""The pipeline's side of the predictive policy: centres that move, reports, plans that wait for confirmations."""

import numpy as np
import pytest

from tolerant.filters import Coordinator
from tolerant.filters.source_forecasts import Forecasts
from tolerant.kernels.snapshots import Schema
from tolerant.queries import Aggregate

SUM = Aggregate("both", "sum", {"x": 1, "y": -2}, 6)


def spoken(found):
    return [
        (int(at), float(value))
        for said in found.emitter.drain_answers()
        for at, value in zip(said.at, said.value, strict=True)
    ]


def test_a_slope_moves_the_answer_at_every_tick():
    found = Coordinator([SUM], values={"x": 10, "y": 1}, policy="predictive")
    spoken(found)
    found.update("x", 10, 4, slope=0.5)
    found.update("y", 1, 6, slope=0.25)
    found.emitter.advance_to(8)
    assert spoken(found) == [(5, 8.5), (6, 9.0)]
    found.update("x", 20, 9)
    found.emitter.advance_to(11)
    assert spoken(found) == [(9, 18 - 1.5), (10, 16.0), (11, 15.5)]


def test_of_an_extreme_too():
    found = Coordinator([Aggregate.over("low", "min", ["x", "y"], 1)], values={"x": 0, "y": 5}, policy="predictive")
    spoken(found)
    found.update("x", 0, 1, slope=2.0)
    found.emitter.advance_to(4)
    assert spoken(found)[-3:] == [(2, 2.0), (3, 4.0), (4, 5.0)]


def test_time_in_microseconds_moves_centres_at_multiples_of_the_tick():
    found = Coordinator([SUM], values={"x": 10, "y": 1}, policy="predictive", interval=100, tick=10)
    found.update("x", 10, 25, slope=1.0)
    spoken(found)
    found.emitter.advance_to(29)
    assert spoken(found) == []
    found.emitter.advance_to(45)
    assert spoken(found) == [(30, 9.0), (40, 10.0)]


def feed(found, sources, values, widths, at):
    """One tick of two items whose sources run ladders, as an edge would."""
    handles = np.arange(2)
    sources.observe(handles, values)
    off = np.abs(values - found.centres) > widths / 2
    for item in handles[off]:
        found.centres[item] = values[item]
        found.coordinator.update_many(
            np.array([item]),
            values[[item]],
            np.array([at]),
            sequences=found.coordinator.membership.sequences(np.array([item])) + 1,
            grants=found.coordinator.grant_log.newest(np.array([item])),
            reports=sources.reports(np.array([item]), widths[[item]]),
        )


class SimulatedCluster:
    def __init__(self):
        total = Aggregate.over("both", "sum", ["x", "y"], 8)
        self.coordinator = Coordinator([total], values={"x": 0, "y": 0}, policy="predictive")
        self.sources = Forecasts()
        self.sources.make_room(2)
        self.sources.begin(np.arange(2), np.array([8.0, 8.0]), np.zeros(2))
        self.centres = np.zeros(2)


def run(ticks):
    world, random, values, moved = SimulatedCluster(), np.random.default_rng(5), np.zeros(2), {}
    for at in range(1, ticks):
        values = values + random.normal(0, 1, 2) * np.array([3.0, 0.01])
        feed(world, world.sources, values.copy(), np.array(list(world.coordinator.widths.values())), at)
        world.coordinator.policy.on_settle(at)
        if at % 10 == 0:
            for item, width in world.coordinator.boundary(at).items():
                moved.setdefault(item, []).append(width)
                # The confirmation, which brings a report too.
                index = world.coordinator.membership.find([item])
                world.centres[index] = values[index]
                world.coordinator.update(item, float(values[index][0]), at)
        world.coordinator.grant_log.drain_grants()
    return world.coordinator, moved


def test_width_moves_from_the_quiet_item_to_the_busy_one():
    found, moved = run(400)
    assert found.widths["x"] > 10 > 6 > found.widths["y"]
    assert sum(found.widths.values()) <= 16 * (1 + 1e-9)
    assert moved


def test_it_goes_on_from_its_state_as_if_nothing_had_happened():
    found, _ = run(200)
    other = Coordinator(policy="predictive")
    schema = Schema("coordinator", 1)
    other.load(schema.unpack(schema.pack(found.state())))
    assert other.widths == found.widths
    for one in (found, other):
        one.update("x", 99.0, 300, slope=0.5)
        one.boundary(310)
    assert other.answers() == found.answers()
    assert other.grant_log.drain_grants().width.tolist() == found.grant_log.drain_grants().width.tolist()


def test_a_growth_waits_until_the_tightening_is_confirmed():
    total = Aggregate.over("both", "sum", ["x", "y"], 8)
    found = Coordinator([total], values={"x": 0, "y": 0}, policy="predictive")
    found.grant_log.issue(np.array([1]), np.array([2.0]), np.zeros(1, bool), 5)
    found.emitter.refresh(5)
    found.membership.items.pending[0] = 12.0
    found.policy.on_settle(6)
    assert found.widths == {"x": 8.0, "y": 2.0}
    found.update("y", 0, 7)
    found.policy.on_settle(8)
    assert found.widths == {"x": 12.0, "y": 2.0}


def test_unknown_policies_are_named():
    with pytest.raises(ValueError, match="predictive"):
        Coordinator(policy="psychic")
