"""Aggregators: copies within their bounds, parts while everything is known, and the way round a dead parent."""

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tolerant.edge import Source
from tolerant.edge.aggregators import Aggregator, AggregatorCore
from tolerant.planning import Network, Part, PartServer, copy_routes, feed_widths
from tolerant.streams import SECOND, Limits
from tolerant.testing.networks import SimulatedNetwork
from tolerant.transport import Fenced
from tolerant.transport.plans import Announcement, Wanted
from tolerant.transport.rows import pack, unpack, updates_batch

TREE = Network({"top": {"x": 0.5, "y": 0.0}, "low": {"x": 2.0, "y": 0.3, "z": 1.0}}, parents={"low": "top"})


def test_wiring_leaves_every_bound_whole():
    assert feed_widths(TREE, None) == {"x": 0.5, "y": 0.0, "z": 1.0}
    assert feed_widths(TREE, "top") == {"x": 1.5, "y": 0.3}
    for aggregator in TREE.aggregators:
        for item, listed in copy_routes(TREE, aggregator).items():
            for giver, step in listed:
                above = TREE.bounds[giver][item] if giver else 0.0
                assert above + feed_widths(TREE, giver)[item] + step <= TREE.bounds[aggregator][item] + 1e-12


@settings(max_examples=8, deadline=None)
@given(st.integers(0, 10_000))
@example(3645)  # an aggregator that waits for items which the one below it does not have
def test_copies_are_never_further_from_their_sources_than_the_network_says(seed):
    simulation = SimulatedNetwork(seed, faults=False, queries=[])
    for _ in range(120):
        simulation.turn()
        for name, aggregator in simulation.aggregators.items():
            if aggregator is None or not aggregator.core.copies:
                continue
            for item, copy in aggregator.core.copies.items():
                truth = simulation.journal[item].at(aggregator.core.watermark)
                assert truth is None or abs(truth - copy) <= simulation.network.bounds[name][item] + 1e-9


def rows(simulation, topic, position=0):
    return [row for entry in simulation.log.read(topic, position) for row in unpack(entry.payload).to_pylist()]


def test_a_child_finds_a_way_round_a_dead_parent():
    simulation = SimulatedNetwork(2, TREE, faults=False, queries=[])
    simulation.steps = dict.fromkeys(simulation.items, 0.3)
    simulation.run(6)
    assert {row["key"] for row in rows(simulation, "copies.prices.top")} >= {"x", "y"}
    simulation.kill("top", 100.0)
    simulation.run(3 + 2)
    low = simulation.aggregators["low"].core
    assert set(low.copies) == {"x", "y", "z"}
    for item, copy in low.copies.items():
        assert abs(simulation.journal[item].at(low.watermark) - copy) <= TREE.bounds["low"][item]


def test_parts_agree_with_part_servers():
    """The same pushes as the core's own `PartServer` makes."""
    network = Network({"D": {"p": 0.5, "q": 0.25}})
    simulation = SimulatedNetwork(4, network, faults=False, queries=[])
    core = AggregatorCore("D", 1, simulation.stream, network)
    wanted = Wanted("D", 0, 7, "sum", {"p": 2.0, "q": -1.0}, 1.0)
    source = Source("prices", simulation.log, "s", clock=lambda: simulation.now)
    rng, values, server, pushed = np.random.default_rng(1), np.array([10.0, 20.0]), None, []
    from tolerant.edge.aggregators.inflow import read_received_rows

    position = 0
    for tick in range(300):
        simulation.now += SECOND // 10
        if tick:
            values = values + rng.normal(0, 0.3, 2)
        source.set_many(["p", "q"], values)
        source.advance(simulation.now)
        for entry in simulation.log.read("feeds.prices", position):
            core.receive(read_received_rows(entry.payload, "", simulation.stream.options.limits))
            position = entry.position
        if tick == 0:
            core.announce([Announcement("q", "", 7, (wanted,))])
        core.advance(simulation.now + simulation.stream.options.latency)
        heard = {item: core._inflow.value(item, core.watermark) for item in ("p", "q")}
        if server is None:
            part = Part("D", {"p": 2.0, "q": -1.0}, 2.25, 1.25)
            server = PartServer(part, {item: step for item, (_, step) in heard.items()}, {"p": 10.0, "q": 20.0})
        else:
            sent = server.offer_many({item: value for item, (value, _) in heard.items()})
            if sent is not None:
                pushed.append(sent)
    rows = [row for what, batch in core.drain() if what == "parts" for row in batch.to_pylist()]
    said = [row for row in rows if row["key"] == '["q","",0]']
    assert [row["kind"] for row in said[:2]] == ["hello", "update"]
    assert {row["grant"] for row in said} == {7}
    assert [row["value"] for row in said[1:]] == pytest.approx(pushed)
    assert len(pushed) > 5


def test_a_part_goes_with_its_source_and_comes_back():
    simulation = SimulatedNetwork(6, Network({"D": {"p": 0.5}}), faults=False, queries=[])
    simulation.owner = {"p": "source-1"}
    simulation.run(3)
    aggregator = simulation.aggregators["D"]
    wanted = Wanted("D", 0, 7, "sum", {"p": 1.0}, 0.1)
    aggregator.core.announce([Announcement("q", "", 7, (wanted,))])
    simulation.run(1)
    feed, simulation._feed = simulation._feed, lambda: None  # the source dies
    simulation.run(6)
    simulation._feed, simulation.sources = feed, {}
    simulation.run(2)
    kinds = [
        row["kind"]
        for row in rows(simulation, "updates.prices")
        if row["key"] == '["q","",0]' and row["kind"] != "update"
    ]
    assert kinds == ["hello", "gone", "hello"]
    aggregator.core.announce([Announcement("q", "", 6, ()), Announcement("q", "", 8, ())])
    simulation.run(1)
    assert aggregator.core.parts() == []


def test_who_may_aggregate_and_who_may_feed():
    simulation = SimulatedNetwork(7, TREE, faults=False, queries=[])
    with pytest.raises(ValueError, match=r"no aggregator of network\.toml is called 'nobody'; there are top, low"):
        Aggregator("prices", "nobody", simulation.log)
    with pytest.raises(LookupError, match="no stream other"):
        Aggregator("other", "top", simulation.log, timeout=0.0)
    unserved = pytest.raises(ValueError, match=r"item 'w' is at no aggregator of network\.toml")
    with Source("prices", simulation.log, "s", clock=lambda: simulation.now) as source, unserved:
        source.set("w", 1.0)
    simulation.run(1)
    first = simulation.aggregators["top"]
    Aggregator("prices", "top", simulation.log)
    with pytest.raises(Fenced, match="another aggregator named 'top'"):
        first.step()


def test_one_that_starts_again_says_what_is_and_not_what_was():
    simulation = SimulatedNetwork(2, TREE, faults=False, queries=[])
    simulation.steps = dict.fromkeys(simulation.items, 0.3)
    simulation.run(4)
    simulation.kill("top", 2.0)
    simulation.run(1.9)
    position, began = simulation.log.end(), simulation.now
    simulation.run(1)
    said = [row for row in rows(simulation, "copies.prices.top", position) if row["kind"] != "heartbeat"]
    assert {row["key"] for row in said[:2]} == {"x", "y"}
    assert all(row["at"] >= began - simulation.stream.options.latency for row in said)
    for row in said:
        assert row["value"] == pytest.approx(
            simulation.journal[row["key"]].at(row["at"]), abs=TREE.bounds["top"][row["key"]]
        )


def test_a_part_that_begins_is_stamped_with_the_moment_it_is_of():
    simulation = SimulatedNetwork(6, Network({"D": {"p": 0.0}}), faults=False, queries=[])
    simulation.owner, simulation.steps = {"p": "source-1"}, {"p": 1.0}
    simulation.run(3)
    core = simulation.aggregators["D"].core
    core.announce([Announcement("q", "", 7, (Wanted("D", 0, 7, "sum", {"p": 1.0}, 0.0),))])
    simulation.wake["D"] = simulation.now + SECOND // 2  # values go on meanwhile
    simulation.run(2)
    (hello,) = [
        row for row in rows(simulation, "updates.prices") if row["kind"] == "hello" and row["key"] == '["q","",0]'
    ]
    assert hello["value"] == simulation.journal["p"].at(hello["at"])


def test_an_aggregator_keeps_to_the_limits_of_the_stream():
    from tolerant.edge.aggregators.inflow import read_received_rows

    def entry(*keys, source="s"):
        size = len(keys)
        rows = updates_batch(kind="update", keys=list(keys), at=[1] * size, source=source,
                             sequence=list(range(1, size + 1)), through=1, value=[1.0] * size)  # fmt: skip
        return pack(rows)

    limits = Limits(entry_rows=2, key_length=5)
    assert [row.key for row in read_received_rows(entry("p", "q" * 6), "", limits)] == ["p"]
    assert read_received_rows(entry("p", "q", "r"), "", limits) == []
    assert read_received_rows(entry("p", source="s" * 65), "", limits) == []
    assert len(read_received_rows(entry("p", source="s" * 64), "", limits)) == 1
