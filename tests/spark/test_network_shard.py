"""A network's shard, without Spark: sound against the true values, however the log is cut, through any crash."""

import json

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tolerant.client import Client, StatementClient
from tolerant.client.answer_listener import current_answers
from tolerant.edge.aggregators.aggregator_core import AggregatorCore
from tolerant.kernels.versions import version
from tolerant.kinds import shard_factory
from tolerant.kinds.network.liveness import Alive
from tolerant.kinds.network.queries import NetworkQuery
from tolerant.kinds.network.shard import NetworkShard
from tolerant.planning import Network, PlanClient
from tolerant.sql import parse
from tolerant.streams import SECOND
from tolerant.testing.networks import SimulatedNetwork
from tolerant.transport.plans import PRESENCE, part_key
from tolerant.transport.rows import clock_batch, unpack, updates_batch
from tolerant.transport.topics import reports_topic

TOPICS = ["queries", "updates.prices", reports_topic("prices")]
PAIR = Network({"D1": {"S1": 0.5, "S3": 0.2}, "D2": {"S1": 1.0, "S2": 0.1, "S3": 0.4}})
TOTAL = "CREATE QUERY total AS SELECT SUM(price) FROM prices WITHIN 4"


@settings(max_examples=4, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.integers(0, 10_000))
def test_settled_answers_hold_the_truth(seed):
    world = SimulatedNetwork(seed)
    world.run(15)
    assert world.violations() == []
    assert world.shard._counters["late"] == 0


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(200))
def test_settled_answers_hold_the_truth_in_long_runs(seed):
    world = SimulatedNetwork(seed)
    world.run(60)
    assert world.violations() == []


@pytest.mark.parametrize("trusting", [False, True])
def test_nothing_is_promised_of_what_a_dead_aggregator_said_last(monkeypatch, trusting):
    """Its items go on without it; who trusts it until its lease is over is seen by the audit."""
    if trusting:
        restart = Alive.restart
        monkeypatch.setattr(Alive, "read", lambda alive, epoch, through: None)
        monkeypatch.setattr(Alive, "restart", lambda alive, epoch, through: restart(alive, epoch, 2**62))
    network = Network({"D1": {"p": 0.1}, "D2": {"q": 0.1}})
    query = "CREATE QUERY least AS SELECT MIN(price) FROM prices WITHIN 1"
    world = SimulatedNetwork(2, network, faults=False, queries=[query])
    world.steps = dict.fromkeys(world.items, 0.5)
    world.run(6)
    assert world.answers("least")[-1].settled
    world.kill("D2", 100.0)
    world.values["q"] = min(world.values.values()) - 50.0
    world.run(4)
    assert bool(world.violations()) == trusting


def test_the_audit_sees_parts_that_are_sent_too_late(monkeypatch):
    """§2.2: a part that is sent only beyond C, not beyond C − X, breaks the promise."""
    begin = AggregatorCore._begin
    monkeypatch.setattr(AggregatorCore, "_begin", lambda core, key, part: begin(core, key, part._replace(push=4.0)))
    network = Network({"D1": {"S1": 1.9}, "D2": {"S2": 1.9}})
    world = SimulatedNetwork(3, network, faults=False, queries=[TOTAL])
    world.steps = dict.fromkeys(world.items, 0.5)
    world.run(20)
    assert world.violations()


def test_batches_cut_anyhow_and_restores_say_the_same():
    world = SimulatedNetwork(11)
    world.run(20)
    entries = world.log.read(TOPICS)
    whole = NetworkShard(world.stream, 0, "checkpoint")
    outputs = whole.apply(entries)
    expected = answers(outputs)
    assert expected
    again = shard_factory(world.stream, 9, "checkpoint")(0)  # a restart has another epoch, before it is in the log
    again.apply(entries)
    assert again.snapshot() == whole.snapshot()
    for size in (1, 7):
        shard, said = NetworkShard(world.stream, 0, "checkpoint"), []
        for start in range(0, len(entries), size):
            outputs = shard.apply(entries[start : start + size])
            said += outputs
            if start // size % 29 == 0:
                snapshot = shard.snapshot()
                shard = NetworkShard(world.stream, 0, "checkpoint")
                shard.restore(snapshot)
                assert shard.snapshot() == snapshot
        assert answers(said) == expected
        assert shard.snapshot() == whole.snapshot()


def answers(outputs):
    found = {}
    for output in outputs:
        if output.topic.startswith("answers."):
            found.setdefault(output.topic, []).extend(unpack(output.payload).to_pylist())
    return found


class Desk:
    """The shard of a network with two aggregators, whose rows are written by hand."""

    def __init__(self, *texts, network=PAIR):
        self.world = SimulatedNetwork(1, network, faults=False, queries=texts or [TOTAL])
        self.log, self.stream = self.world.log, self.world.stream
        self.shard, self.now, self.position, self.counts = NetworkShard(self.stream, 0, "checkpoint"), 1_000, 0, {}

    def say(self, source, key, value=0.0, kind="update", grant=0, epoch=1, at=None):
        number = self.counts[source, epoch] = self.counts.get((source, epoch), 0) + 1
        at = int((self.now if at is None else at) * SECOND)
        row = updates_batch(kind=kind, keys=[key], at=[at], source=source, sequence=[version(epoch, number)],
                            through=at + 2 * SECOND, value=[value], grant=[grant])  # fmt: skip
        self.log.append("updates.prices", row)

    def tick(self, seconds=2, checkpoint="checkpoint", epoch=1):
        self.now += seconds
        self.log.append("updates.prices", clock_batch(int(self.now * SECOND), epoch, checkpoint))
        entries = self.log.read(TOPICS, self.position)
        outputs = self.shard.apply(entries)
        self.log.append_packed([(output.topic, output.payload) for output in outputs])
        self.position = self.log.end()

    def alive(self, *names, epoch=1):
        for name in names or ("D1", "D2"):
            self.say(name, PRESENCE, kind="hello", epoch=epoch)

    def wanted(self, query="total"):
        record = self.log.latest("grants.prices", json.dumps([query, ""], separators=(",", ":")))
        return [] if record is None else json.loads(record.body)

    def serve(self, values, query="total", epoch=1, only=None):
        """Every aggregator says its parts of a query."""
        for aggregator, slot, number, fn, weights, _, level in self.wanted(query):
            if only is None or aggregator in only:
                total = {"max": max}.get(fn, sum)(weight * values[item] for item, weight in weights.items())
                total = total if level is None else max(total, level)
                self.say(aggregator, part_key(query, "", slot), total, "hello", number, epoch)

    def answer(self, query="total"):
        found = list(Client(self.log).current(query))
        return found[0] if found else None

    def dead(self):
        return [
            row["reason"] for entry in self.log.read("dead_letters.prices") for row in unpack(entry.payload).to_pylist()
        ]


VALUES = {"S1": 1.0, "S2": 2.0, "S3": 4.0}


def settled(network=PAIR):
    desk = Desk(network=network)
    desk.alive()
    desk.tick()
    assert desk.answer().settling
    desk.serve(VALUES)
    desk.tick()
    return desk


def test_late_rows_are_counted_by_aggregator():
    desk = settled()
    for _ in range(3):
        desk.say("D1", PRESENCE, kind="heartbeat", at=desk.now - 5)
    desk.tick()
    again = NetworkShard(desk.stream, 0, "checkpoint")
    again.restore(desk.shard.snapshot())
    desk.shard = again
    desk.tick(20)
    summary = json.loads(desk.log.latest("status.prices", "summary/0").body)
    assert summary["late"] == 3
    assert summary["late_sources"] == {"D1": [3, 5 * SECOND]}


def test_an_answer_is_the_sum_of_its_parts():
    desk = settled()
    answer = desk.answer()
    assert answer.settled
    assert answer.value == 7.0
    assert 0 < answer.high - answer.value <= 4.0
    assert isinstance(shard_factory(desk.stream, 1, "c")(0), NetworkShard)


def test_an_aggregator_that_falls_silent_is_planned_around():
    desk = settled(Network({"D1": dict.fromkeys(VALUES, 0.1), "D2": dict.fromkeys(VALUES, 0.2)}))
    assert {part[0] for part in desk.wanted()} == {"D1"}
    for _ in range(4):
        desk.alive("D2")
        desk.tick(1)
    assert desk.answer().stale
    assert desk.answer().low is None
    newest = max(part[2] for part in desk.wanted())
    assert all(part[0] == "D2" for part in desk.wanted() if part[2] == newest)
    desk.serve(VALUES, only={"D2"})
    desk.tick(1)
    assert desk.answer().settled
    assert all(part[0] == "D2" for part in desk.wanted())  # the old parts are not wanted any more
    for _ in range(4):  # both are silent: nothing can be planned
        desk.tick(1)
    assert desk.answer().stale
    assert desk.shard.planner.announced["total\x00"].plan is None
    desk.alive()
    desk.tick(2)
    desk.serve(VALUES)
    desk.alive()
    desk.tick(1)
    assert desk.answer().settled


def test_an_aggregator_that_starts_again_is_not_trusted_before_it_has_said_its_parts():
    desk = settled()
    name = desk.wanted()[0][0]
    desk.alive(name, epoch=2)
    desk.tick(1)
    assert desk.answer().stale
    desk.serve(VALUES, only={name})  # rows of its former life
    desk.alive(*({"D1", "D2"} - {name}))
    desk.tick(1)
    assert desk.answer().stale
    desk.serve(VALUES | {"S1": 2.0, "S3": 4.0}, epoch=2, only={name})
    desk.tick(1)
    assert desk.answer().settled


def test_a_part_that_is_gone_makes_the_answer_stale():
    desk = settled()
    aggregator, slot, number, *_ = desk.wanted()[0]
    desk.say(aggregator, part_key("total", "", slot), 0.0, "gone", number)
    desk.tick(1)
    assert desk.answer().stale
    assert desk.answer().value == 7.0
    desk.serve(VALUES)
    desk.tick(1)
    assert desk.answer().settled


def test_altering_keeps_answering_and_dropping_ends():
    desk = settled()
    before = desk.wanted()
    StatementClient(desk.log).send(parse("ALTER QUERY total WITHIN 3"))
    desk.alive()
    desk.tick(1)
    assert desk.answer().settling  # the old plan answers, wider than is wanted now
    assert desk.answer().value == 7.0
    assert len(desk.wanted()) > len(before)
    desk.serve(VALUES)
    desk.tick(1)
    assert desk.answer().settled
    assert desk.answer().high <= 10.0
    StatementClient(desk.log).send(parse("ALTER QUERY total WITHIN 0.5"))  # tighter than any plan
    desk.alive()
    desk.tick(1)
    assert desk.answer().settling
    replies = [row["message"] for e in desk.log.read("replies") for row in unpack(e.payload).to_pylist()]
    assert "but for now" in replies[-1]
    StatementClient(desk.log).send(parse("DROP QUERY total"))
    desk.alive()
    desk.tick(1)
    assert current_answers(desk.log, "total") == []
    assert desk.wanted() == []


def test_rows_that_cannot_be_used_are_told_and_doubted():
    desk = settled()
    aggregator, slot, number, *_ = desk.wanted()[0]
    key = part_key("total", "", slot)
    desk.say(aggregator, key, float("nan"), grant=number)
    desk.say("nobody", key, 1.0, grant=number)
    desk.say(aggregator, "no key", 1.0, grant=number)
    desk.say(aggregator, key, 3.0, grant=number, at=desk.now + 100)
    desk.log.append("updates.prices", pa.record_batch({"x": [1]}))
    desk.tick(1)
    assert desk.answer().stale
    reasons = " ".join(desk.dead())
    for told in ("finite", "'nobody'", "key cannot be read", "ahead of the pipeline's clock", "columns"):
        assert told in reasons
    desk.serve(VALUES)
    desk.tick(1)
    assert desk.answer().settled


def test_another_pipeline_in_between_makes_plans_be_asked_for_again():
    desk = settled()
    before = max(part[2] for part in desk.wanted())
    desk.tick(1, checkpoint="another", epoch=2)
    desk.alive()
    desk.tick(1, epoch=3)
    assert desk.answer().settling
    assert min(part[2] for part in desk.wanted()) > max(before, version(2, 1 << 20))
    desk.serve(VALUES)
    desk.tick(1, epoch=3)
    assert desk.answer().settled


def test_duplicates_and_strays_change_nothing():
    desk = settled()
    aggregator, slot, number, *_ = desk.wanted()[0]
    other = "D1" if aggregator == "D2" else "D2"
    desk.say(other, part_key("total", "", slot), 50.0, grant=number)
    desk.say(aggregator, part_key("total", "", 99), 50.0, grant=number)
    desk.say(aggregator, part_key("nothing", "", 0), 50.0, grant=number)
    desk.say(aggregator, part_key("total", "", slot), 50.0, grant=number - 1)
    first = desk.log.read("updates.prices")
    desk.log.append_packed([(entry.topic, entry.payload) for entry in first if b"hello" in entry.payload])
    desk.tick(1)
    assert desk.answer().value == 7.0
    assert desk.answer().settled


def test_plans_follow_what_the_aggregators_report():
    """Items that turn out to move against each other end up in one part."""
    network = Network({"D1": {"S1": 0.0}, "D2": {"S1": 0.1, "S2": 0.1}})
    world = SimulatedNetwork(5, network, faults=False, queries=[TOTAL])
    world.steps = {"S1": 0.0, "S2": 0.0}
    world.run(5)
    for _ in range(400):
        move = world.rng.gauss(0, 0.4)
        world.values["S1"] += move
        world.values["S2"] -= move
        world.turn()
    plan = world.shard.planner.announced["total\x00"].plan
    assert [part.aggregator for part in plan.parts] == ["D2"]
    assert world.violations() == []
    assert world.shard._counters["reports"] > 5


def test_parts_far_below_a_maximum_are_given_levels_which_are_taken_back():
    network = Network({"D1": {"S1": 0.1}, "D2": {"S2": 0.1}})
    desk = Desk("CREATE QUERY top AS SELECT MAX(price) FROM prices WITHIN 1", network=network)
    desk.alive()
    desk.tick()
    for low in range(5):  # S2 is far away, and speaks all the time
        desk.serve({"S1": 30.0, "S2": 2.0 * low}, "top")
        desk.tick(1)
    assert desk.answer("top").value == 30.0
    given = {part[0]: part[6] for part in desk.wanted("top")}
    assert given["D1"] is None
    assert 8.0 < given["D2"] < 30.0
    assert desk.answer("top").settled  # while the level is on its way
    desk.serve({"S1": 30.0, "S2": 8.0}, "top")
    desk.tick(1)
    assert desk.answer("top").settled
    assert desk.answer("top").high == 31.0

    # The answer falls below the level: what is true is said, and the level is taken back.
    snapshot = desk.shard.snapshot()
    desk.shard = NetworkShard(desk.stream, 0, "checkpoint")
    desk.shard.restore(snapshot)
    desk.serve({"S1": 5.0, "S2": 8.0}, "top", only={"D1"})
    desk.alive("D2")
    desk.tick(1)
    answer = desk.answer("top")
    assert answer.settling
    assert (answer.low, answer.high) == (4.0, given["D2"] + 1.0)
    assert {part[6] for part in desk.wanted("top")} == {None}
    desk.serve({"S1": 5.0, "S2": 8.0}, "top")
    desk.tick(1)
    assert desk.answer("top").settled
    assert desk.answer("top").value == 8.0
    assert desk.shard._counters["levels"] == 2


PEAKS = "CREATE QUERY peak AS SELECT MAX(price) FROM prices WITHIN 0.3"
ISLANDS = Network({"D1": {"S1": 0.1}, "D2": {"S2": 0.1}, "D3": {"S3": 0.1}})


def peaks(seed):
    """Three items that move fast and cross each other now and then."""
    world = SimulatedNetwork(seed, ISLANDS, faults=False, queries=[PEAKS])
    world.values = {"S1": 0.0, "S2": 3.0, "S3": 6.0}
    world.steps = dict.fromkeys(world.items, 0.3)
    world.run(60)
    return world


def test_maxima_with_levels_hold_the_truth_and_save_rows(monkeypatch):
    world = peaks(2)
    assert world.violations() == []
    assert world.shard._counters["levels"] > 5
    monkeypatch.setattr(NetworkQuery, "give", lambda group, version: False)
    without = peaks(2)
    assert without.shard._counters["levels"] == 0
    rows = [one.shard._counters[kind] for one in (world, without) for kind in ("update", "ack")]
    assert sum(rows[:2]) + world.shard._counters["levels"] < 0.9 * sum(rows[2:])


def test_the_audit_sees_levels_that_are_taken_for_values(monkeypatch):
    refresh = PlanClient.refresh
    monkeypatch.setattr(
        PlanClient, "refresh", lambda client, part, value, version, level=None: refresh(client, part, value, version)
    )
    assert peaks(2).violations()


def test_items_are_split_where_the_stream_says_so():
    network = Network({"D1": {"S1": 0.01, "S2": 0.01}, "D2": {"S2": 0.01, "S3": 0.01}})
    for seed in (4, 5):  # odd seeds have policy = 'split'
        world = SimulatedNetwork(seed, network, faults=False, queries=[TOTAL])
        world.steps = dict.fromkeys(world.items, 0.5)
        world.run(30)
        parts = world.shard.planner.announced["total\x00"].plan.parts
        assert sum(len(part.weights) for part in parts) == (4 if seed % 2 else 3)
        assert sum(part.weights.get("S2", 0.0) for part in parts) == pytest.approx(1.0)
        assert world.violations() == []
        assert world.settled() > 0.9
