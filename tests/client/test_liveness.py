"""A dead pipeline must not look alive to a client."""

import itertools
import json

import pytest
from test_answer_listener import answer, publish

from tolerant.client import Client, StatementClient, liveness, load_catalogue
from tolerant.kernels.versions import version
from tolerant.sql import PipelineId, StatementError
from tolerant.transport import MemoryLog
from tolerant.transport.heartbeats import LEASE, Heartbeat, heartbeat_batch
from tolerant.transport.log import START
from tolerant.transport.rows import compacted
from tolerant.transport.topics import HEARTBEATS, current_topic

NOW = 1_700_000_000_000_000
STATEMENTS = """
CREATE STREAM s (host STRING, rate DOUBLE) KEY (host);
CREATE QUERY q AS SELECT SUM(rate) FROM s WITHIN 5;
CREATE TABLE stock (id BIGINT, x DOUBLE) KEY (id);
CREATE QUERY area(low, high) AS SELECT * FROM stock WHERE x BETWEEN low AND high;
CREATE QUERY v AS SELECT COUNT(*) AS n FROM stock REFRESH WITHIN '5 s';
"""


class SimulatedCluster:
    """A log with the query `q`, a wall clock that is set by hand, and a pipeline that beats when it is told to."""

    def __init__(self):
        self.log, self.now, self.beats = MemoryLog(), NOW, 0
        StatementClient(self.log).register(STATEMENTS)

    def beat(self, query="q", **changes):
        self.beats += 1
        pipeline = str(PipelineId.of(load_catalogue(self.log).queries[query].select))
        beat = Heartbeat(pipeline, self.now, **{"processed": self.now, **changes})
        self.log.append(HEARTBEATS, heartbeat_batch([(beat, version(1, self.beats))]))


@pytest.fixture
def world(monkeypatch):
    made = SimulatedCluster()
    monkeypatch.setattr(liveness, "wall_clock", lambda: made.now)
    monkeypatch.setattr(liveness, "CHECK", 0.0)
    return made


def test_the_current_answer_of_a_dead_pipeline_is_not_settled(world):
    publish(world.log, answer(1, 5.0))
    world.beat()
    client = Client(world.log)
    (live,) = client.current("q")
    assert live.settled
    assert client.outage("q") is None
    world.now += LEASE + 1
    (dead,) = client.current("q")
    assert not dead.settled
    assert dead.no_pipeline_since == NOW
    assert (dead.low, dead.value, dead.high) == (live.low, live.value, live.high)
    assert client.outage("q").since == NOW


def test_listeners_hear_of_an_outage_and_of_its_end(world):
    publish(world.log, answer(1, 5.0, "a"), answer(1, 6.0, "b"))
    world.beat()
    changes = Client(world.log).answers("q")
    assert [change.answer.settled for change in itertools.islice(changes, 2)] == [True, True]
    world.now += LEASE + 1
    out = list(itertools.islice(changes, 2))
    assert [(change.answer.group, change.answer.settled) for change in out] == [("a", False), ("b", False)]
    assert all(change.position is None for change in out)
    world.beat()
    back = list(itertools.islice(changes, 2))
    assert [change.answer.settled for change in back] == [True, True]
    publish(world.log, answer(2, 7.0, "a"))
    change = next(changes)
    assert (change.answer.value, change.answer.settled) == (7.0, True)
    assert change.position is not None


def test_a_pipeline_that_catches_up_publishes_nothing_current(world):
    publish(world.log, answer(1, 5.0))
    world.beat(processed=NOW - LEASE - 1)
    changes = Client(world.log).answers("q")
    assert not next(changes).answer.settled
    publish(world.log, answer(2, 6.0))
    assert next(changes).answer.no_pipeline_since == NOW - LEASE - 1


def test_a_subscription_tells_a_dead_pipeline_from_rows_that_do_not_change(world):
    world.beat("area")
    client = Client(world.log)
    area, other = client.subscriptions("area", low=[0.0, 5.0], high=[1.0, 6.0])
    assert area.settled
    assert other.settled
    assert area.outage is None
    world.now += LEASE + 1
    assert not area.settled
    assert not other.settled
    assert area.outage == client.outage("area")
    assert area.outage.since == NOW
    assert list(area.changes(stop=lambda: True)) == []
    world.beat("area")
    assert area.settled
    StatementClient(world.log).register("DROP QUERY area")
    assert not area.settled
    assert area.outage.dropped


def test_one_look_at_the_heartbeat_serves_all_subscriptions(world, monkeypatch):
    monkeypatch.setattr(liveness, "CHECK", 60.0)
    world.beat("area")
    looks = []
    monkeypatch.setattr(liveness, "query_outage", lambda *_: looks.append(1))
    ends = {"low": [float(k) for k in range(50)], "high": [k + 0.5 for k in range(50)]}
    assert all(subscription.settled for subscription in Client(world.log).subscriptions("area", **ends))
    assert len(looks) == 1


def test_the_view_of_a_dead_pipeline_is_not_settled(world):
    header = json.dumps({"columns": [["n", "BIGINT"]], "at": 7, "step": 1}).encode()
    world.log.append(current_topic("v"), compacted([("", version(1, 1), header), ("[]", version(1, 2), b"[[3]]")]))
    world.beat("v")
    client = Client(world.log)
    live = client.view("v")
    assert (live.rows, live.settled, live.no_pipeline_since) == (({"n": 3},), True, None)
    world.now += LEASE + 1
    dead = client.view("v")
    assert (dead.rows, dead.at, dead.settled, dead.no_pipeline_since) == (live.rows, 7, False, NOW)
    world.beat("v")
    assert client.view("v") == live


def test_history_is_what_was_published_and_the_outage_comes_last(world):
    publish(world.log, answer(1, 5.0))
    publish(world.log, answer(2, 6.0))
    world.beat()
    world.now += LEASE + 1
    changes = list(itertools.islice(Client(world.log).answers("q", START), 3))
    assert [(change.answer.at, change.answer.settled) for change in changes] == [(1, True), (2, True), (2, False)]


def test_text_says_since_when(world):
    world.beat()
    world.now += LEASE + 1
    assert "no pipeline since 2023-11-14 22:13:20 UTC" in liveness.outage_text(liveness.query_outage(world.log, "q"))
    world.beat(processed=NOW)
    assert "behind" in liveness.outage_text(liveness.query_outage(world.log, "q"))
    world.beat(stopped=True)
    assert "(stopped)" in liveness.outage_text(liveness.query_outage(world.log, "q"))


def test_a_query_that_is_dropped_is_not_current_any_more(world):
    publish(world.log, answer(1, 5.0))
    world.beat()
    client = Client(world.log)
    changes = client.answers("q")
    assert next(changes).answer.settled
    StatementClient(world.log).send(
        StatementClient(world.log).parse("DROP QUERY q")[0]
    )  # and the pipeline has not taken it yet
    dropped = next(changes).answer
    assert dropped.no_pipeline_since is not None
    assert not dropped.settled
    assert liveness.outage_text(client.outage("q")) == "the query has been dropped"
    for ask in (client.current, lambda query: next(client.answers(query))):
        with pytest.raises(StatementError, match="there is no query q; there are: area, v"):
            ask("q")
    assert client.history("q") == [answer(1, 5.0)]
    assert next(client.answers("q", START)).answer == answer(1, 5.0)


@pytest.mark.parametrize(
    "body",
    [
        b"nonsense",
        b"[1]",
        b'{"at": Infinity, "processed": 1, "stopped": false}',
        b'{"at": 4611686018427387904, "processed": 4611686018427387904, "stopped": false}',
        b'{"at": 1800000000000000, "processed": 1800000000000000, "stopped": false}',
    ],
)
def test_no_heartbeat_makes_a_dead_pipeline_look_alive(world, body):
    publish(world.log, answer(1, 5.0))
    world.log.append(HEARTBEATS, compacted([("s", version(1, 1), body)]))
    (found,) = Client(world.log).current("q")
    assert not found.settled
    assert liveness.outage_text(Client(world.log).outage("q"))
