"""An item on leave that is asked tells where it has been, so that an answer which waits for it is settled in time."""

import random
from bisect import bisect_right

import numpy as np
import pytest
from rig import Rig, key

from tolerant.edge.recent import Recent
from tolerant.kernels.versions import version
from tolerant.spark.kinds.bounded import BoundedShard
from tolerant.streams import SECOND
from tolerant.transport.rows import RECALLING, UPDATES, read_grants, unpack, updates_batch

WITHIN = 4.0
LATENCY = 4
SLOW = (
    "CREATE STREAM traffic (host STRING, kind STRING, rate DOUBLE) KEY (host, kind) "
    f"WITH (latency = '{LATENCY} s', lease = '10 min', period = 5)"
)


def edge(fn: str) -> str:
    return f"CREATE QUERY edge AS SELECT {fn}(rate) FROM traffic WITHIN {WITHIN}"


def leave(rig: Rig) -> None:
    """Let `far` go on leave, above `low`, for longer than it can remember."""
    for value in (100.0, 110.0, 120.0, 130.0):
        rig.set("source", low=0.0, far=value)
        rig.tick(4)
    rig.tick(2 * LATENCY + 4)
    assert rig.sources["source"]._bank.far.any()


def jump(rig: Rig, trip: int) -> int:
    """`low` jumps over the floor of `far`, to which grants take `trip` seconds; when it jumped."""
    jumped = rig.now
    rig.set("source", low=90.0)
    for second in range(12):
        rig.now += SECOND
        if second >= trip:
            rig.deliver()
        rig.clock()
        rig.read()
    return jumped


@pytest.mark.parametrize("trip", range(LATENCY))
def test_a_minimum_that_jumps_is_settled_at_once_if_the_round_trip_takes_less_than_the_latency(trip) -> None:
    rig = Rig(edge("MIN"), stream=SLOW)
    rig.start("source")
    leave(rig)
    jumped = jump(rig, trip)
    [answer] = [answer for answer in rig.answers("edge") if answer.at >= jumped]
    assert answer.settled
    assert (answer.at, answer.low, answer.high) == (jumped, 86.0, 94.0)


def test_a_minimum_that_jumps_is_settling_while_a_longer_round_trip_takes() -> None:
    rig = Rig(edge("MIN"), stream=SLOW)
    rig.start("source")
    leave(rig)
    jumped = jump(rig, LATENCY + 1)
    first, second = [answer for answer in rig.answers("edge") if answer.at >= jumped]
    assert first.at == jumped
    assert first.settling
    assert first.high == 94.0
    assert second.settled


def test_an_item_is_asked_when_the_row_arrives_and_not_when_its_time_comes() -> None:
    rig = Rig(edge("MIN"), stream=SLOW)
    rig.start("source")
    leave(rig)
    before = rig.log.read("grants.traffic")[-1].position
    rig.set("source", low=90.0)
    rig.now += SECOND // 10
    rig.clock()
    rig.read()
    [asked] = rig.log.read("grants.traffic", before)
    assert [grant.item for grant in read_grants(unpack(asked.payload)) if grant.confirm] == [key("far")]
    rig.clock()
    rig.read()
    assert rig.log.read("grants.traffic", asked.position) == []  # once


def test_an_item_of_a_minimum_that_goes_makes_the_next_one_matter() -> None:
    rig = Rig(edge("MIN"), stream=SLOW)
    core = rig.start("source")
    leave(rig)
    gone = core.remove(int(core.register([key("low")])[0]), rig.now)
    rig.flush("source")
    rig.tick(8)
    later = [answer for answer in rig.answers("edge") if answer.at >= gone]
    assert all(answer.settled for answer in later)
    assert later[0].at == gone
    assert later[0].low <= 130.0 <= later[0].high


def test_only_rows_that_tell_something_carry_the_columns_for_it() -> None:
    rig = Rig(edge("MIN"), stream=SLOW)
    rig.start("source")
    leave(rig)
    rig.set("source", far=125.0)
    jump(rig, 0)
    batches = [unpack(entry.payload) for entry in rig.log.read("updates.traffic")]
    assert {batch.schema == UPDATES for batch in batches} == {True, False}
    told = [row for batch in batches if batch.schema == RECALLING for row in batch.to_pylist()]
    [(kind, least, most)] = [(row["kind"], row["least"], row["most"]) for row in told if row["least"] is not None]
    assert (kind, least, most) == ("ack", 125.0, 130.0)


def told_by_hand(rig: Rig, at: int, source: str = "source") -> None:
    """An ack that does not end the leave, of an older version, and tells where `far` has been."""
    been = (np.array([120.0]), np.array([140.0]))
    row = updates_batch(
        kind="ack", keys=[key("far")], at=[at], source=source, sequence=[version(1, 10**6)], through=at, value=[130.0],
        grant=[1], been=been,
    )  # fmt: skip
    rig.log.append("updates.traffic", row)
    rig.read()


def test_what_an_item_has_told_holds_until_then_and_no_longer() -> None:
    rig = Rig(edge("MIN"), stream=SLOW)
    rig.start("source")
    leave(rig)
    floor = rig.shard.ends(key("far"))[0]
    told_by_hand(rig, rig.now)
    assert rig.shard.ends(key("far")) == (120.0, 140.0)
    rig.tick(LATENCY - 1)
    assert rig.shard.ends(key("far")) == (120.0, 140.0)
    rig.tick(1)
    assert not rig.shard.recalled(key("far"))
    assert rig.shard.ends(key("far"))[0] <= floor


@pytest.mark.parametrize("ahead", [LATENCY + 1, -LATENCY])
def test_what_is_told_of_another_time_than_the_answer_waits_for_is_not_used(ahead) -> None:
    rig = Rig(edge("MIN"), stream=SLOW)
    rig.start("source")
    leave(rig)
    told_by_hand(rig, rig.now + ahead * SECOND)
    assert not rig.shard.recalled(key("far"))


def test_what_another_source_tells_is_not_used() -> None:
    rig = Rig(edge("MIN"), stream=SLOW)
    rig.start("source")
    leave(rig)
    told_by_hand(rig, rig.now, source="stranger")
    assert not rig.shard.recalled(key("far"))


def test_recent_is_what_brute_force_finds() -> None:
    rng = np.random.default_rng(5)
    for span in (1, 3, 4, 10, 17):
        recent, far, last = Recent(span), np.ones(3, np.int8), np.zeros(3)
        at, values = 100, [[(100, 0.0)] for _ in range(3)]
        recent.reach(at, far, last)
        recent.begin(np.arange(3))
        for _ in range(400):
            at += int(rng.integers(0, 2 * span + 2))
            recent.reach(at, far, last)
            some = np.flatnonzero(rng.random(3) < 0.5)
            last[some] = rng.normal(size=len(some))
            recent.see(some, last[some])
            for item in some.tolist():
                values[item].append((at, last[item]))
            least, most = recent.ends(np.arange(3), last)
            for item in range(3):
                held = bisect_right(values[item], (at - span, np.inf)) - 1
                lately = [value for _, value in values[item][max(held, 0) :]]
                assert least[item] <= min(lately)
                assert most[item] >= max(lately)
                if at > 100 + 2 * span + 4:
                    longer = bisect_right(values[item], (at - 2 * span - 4, np.inf)) - 1
                    assert least[item] >= min(value for _, value in values[item][max(longer, 0) :])


# -- anything may happen -----------------------------------------------------------------------------------------------


class History:
    """Walks and jumps of a few items, grants that take their time, batches of any size, all chosen by a seed."""

    def __init__(self, seed: int, fn: str) -> None:
        self.random = random.Random(seed)
        self.fn = min if fn == "MIN" else max
        self.rig = Rig(edge(fn), stream=SLOW)
        self.rig.start("source")
        self.truth: dict[str, list[tuple[int, float]]] = {}
        self.values = {f"h{number}": 40.0 * number for number in range(4)}
        self.recalled = 0

    def play(self, turns: int) -> None:
        rig, chance = self.rig, self.random.random
        self._set(self.values)
        for _ in range(turns):
            rig.now += self.random.randint(1, SECOND)
            if chance() < 0.35:
                self._move()
            if chance() < 0.5:
                rig.deliver()
            if chance() < 0.6:
                rig.clock()
            if chance() < 0.6:
                rig.read()
                self.recalled += any(rig.shard.recalled(key(host)) for host in self.values)

    def _move(self) -> None:
        host, jumps = self.random.choice(list(self.values)), self.random.random() < 0.15
        step = self.random.uniform(-150, 150) if jumps else self.random.gauss(0, 3)
        self._set({host: min(max(self.values[host] + step, 0.0), 300.0)})

    def _set(self, values: dict[str, float]) -> None:
        core = self.rig.sources["source"]
        self.rig.set("source", **values)
        self.values |= values
        for host, value in values.items():
            self.truth.setdefault(host, []).append((core.clock, value))

    def broken(self) -> list[str]:
        """Settled answers that were wrong or too wide at any time until the next one."""
        answers, found = self.rig.answers("edge"), []
        horizon = self.rig.shard.horizon
        moments = sorted({at for line in self.truth.values() for at, _ in line})
        for answer, after in zip(answers, [*(one.at for one in answers[1:]), horizon + 1], strict=True):
            if not answer.settled or answer.value is None:
                continue
            if answer.high - answer.low > 2 * WITHIN + 1e-9:
                found.append(f"{answer} is too wide")
            for moment in [answer.at, *(at for at in moments if answer.at < at < after)]:
                truth = self.fn(line[bisect_right(line, (moment, np.inf)) - 1][1] for line in self.truth.values())
                if not answer.low - 1e-9 <= truth <= answer.high + 1e-9:
                    found.append(f"{answer}: at {moment} the truth is {truth}")
        return found


def histories(seeds: range) -> list[History]:
    found = []
    for seed in seeds:
        history = History(seed, "MIN" if seed % 2 else "MAX")
        history.play(400)
        found.append(history)
    return found


def test_whatever_happens_settled_answers_are_right() -> None:
    played = histories(range(16))
    assert [broken for history in played for broken in history.broken()] == []
    assert sum(history.recalled for history in played) > 16


class RemembersTooLittle(Recent):
    """What is told is of a shorter time than it is taken for."""

    def __init__(self, span):
        super().__init__(span // 8)


def test_a_source_that_tells_of_a_shorter_time_is_caught(monkeypatch) -> None:
    monkeypatch.setattr("tolerant.edge.bank.Recent", RemembersTooLittle)
    assert any(history.broken() for history in histories(range(16, 32)))


def test_a_shard_restored_while_it_relies_on_what_was_told_says_the_same() -> None:
    history = History(1, "MIN")
    while not history.recalled:
        history.play(1)
    rig = history.rig
    twin = BoundedShard(rig.stream, 0, 1, "checkpoint")
    twin.restore(rig.shard.snapshot(), [])
    position = rig.position
    history.play(60)
    rig.clock(rig.now + 20 * SECOND)
    entries = [entry for topic in ("queries", "updates.traffic") for entry in rig.log.read(topic, position)]
    entries.sort(key=lambda entry: entry.position)
    rig.read()
    outputs, _ = twin.apply(entries)
    rows = [row for output in outputs if output.topic == "answers.edge" for row in unpack(output.payload).to_pylist()]
    assert rows
    assert rows == rig.rows("answers.edge")[-len(rows) :]
