"""An item on leave that is asked tells where it has been, so that an answer which waits for it is settled in time."""

import random
from bisect import bisect_right
from collections.abc import Iterator

import numpy as np
import pytest
from rig import Rig, key

from tolerant.edge.recent_ranges import RecentRanges
from tolerant.kernels.versions import version
from tolerant.kinds.bounded.shard import BoundedShard
from tolerant.streams import SECOND
from tolerant.transport.rows import UPDATES, UPDATES_WITH_HISTORY, TimedRange, read_grants, unpack, updates_batch

WITHIN = 4.0
LATENCY = 4
SLOW = (
    "CREATE STREAM traffic (host STRING, kind STRING, rate DOUBLE) KEY (host, kind) "
    f"WITH (latency = '{LATENCY} s', lease = '10 min', period = 5)"
)


def edge(fn: str) -> str:
    return f"CREATE QUERY edge AS SELECT {fn}(rate) FROM traffic WITHIN {WITHIN}"


def on_leave() -> Rig:
    """A minimum over `low` and `far`, which is on leave above it."""
    rig = Rig(edge("MIN"), stream=SLOW)
    rig.start("source")
    for value in (100.0, 110.0, 120.0, 130.0):
        rig.set("source", low=0.0, far=value)
        rig.tick(4)
    rig.tick(4)
    assert rig.sources["source"]._filters.suppress_side.any()
    return rig


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
    rig = on_leave()
    jumped = jump(rig, trip)
    [answer] = [answer for answer in rig.answers("edge") if answer.at >= jumped]
    assert answer.settled
    assert (answer.at, answer.low, answer.high) == (jumped, 86.0, 94.0)


def test_a_minimum_that_jumps_is_settling_while_a_longer_round_trip_takes() -> None:
    rig = on_leave()
    jumped = jump(rig, LATENCY + 1)
    first, second = [answer for answer in rig.answers("edge") if answer.at >= jumped]
    assert first.at == jumped
    assert first.settling
    assert first.high == 94.0
    assert second.settled


def test_an_item_is_asked_when_the_row_arrives_and_not_when_its_time_comes() -> None:
    rig = on_leave()
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
    rig = on_leave()
    core = rig.sources["source"]
    gone = core.remove(int(core.register([key("low")])[0]), rig.now)
    rig.flush("source")
    rig.tick(8)
    later = [answer for answer in rig.answers("edge") if answer.at >= gone]
    assert all(answer.settled for answer in later)
    assert later[0].at == gone
    assert later[0].low <= 130.0 <= later[0].high


def test_only_rows_that_tell_something_carry_the_columns_for_it() -> None:
    rig = on_leave()
    rig.set("source", far=125.0)
    jump(rig, 0)
    batches = [unpack(entry.payload) for entry in rig.log.read("updates.traffic")]
    assert {batch.schema == UPDATES for batch in batches} == {True, False}
    told = [row for batch in batches if batch.schema == UPDATES_WITH_HISTORY for row in batch.to_pylist()]
    [(kind, way)] = [(row["kind"], row["recent_ranges"]) for row in told if row["recent_ranges"] is not None]
    assert kind == "ack"
    assert [(piece["least"], piece["most"]) for piece in way] == [(125.0, 130.0)]


def told_by_hand(rig: Rig, at: int, source: str = "source") -> None:
    """An ack that does not end the leave, of an older version, and tells where `far` has been."""
    way = [TimedRange(at - 10 * SECOND, 120.0, 140.0), TimedRange(at - SECOND, 150.0, 160.0)]
    row = updates_batch(
        kind="ack", keys=[key("far")], at=[at], source=source, sequence=[version(1, 10**6)], through=at, value=[130.0],
        grant=[1], ways=[way],
    )  # fmt: skip
    rig.log.append("updates.traffic", row)
    rig.read()


def test_what_an_item_has_told_holds_until_then_and_no_longer() -> None:
    rig = on_leave()
    floor = rig.shard.ends(key("far"))[0]
    told_by_hand(rig, rig.now)
    assert rig.shard.ends(key("far")) == (120.0, 140.0)
    rig.tick(LATENCY - 2)
    assert rig.shard.ends(key("far")) == (120.0, 140.0)
    rig.tick(1)
    assert rig.shard.ends(key("far")) == (150.0, 160.0)
    rig.tick(1)
    assert not rig.shard.recalled(key("far"))
    assert rig.shard.ends(key("far"))[0] <= floor


def test_what_is_told_too_late_is_not_used() -> None:
    rig = on_leave()
    told_by_hand(rig, rig.now - LATENCY * SECOND)
    assert not rig.shard.recalled(key("far"))


def test_what_is_told_of_later_is_used_then() -> None:
    rig = on_leave()
    told_by_hand(rig, rig.now + 8 * SECOND)
    assert not rig.shard.recalled(key("far"))
    rig.tick(2)
    assert rig.shard.ends(key("far")) == (120.0, 140.0)


def test_what_was_told_before_a_restart_does_not_hold_after_it() -> None:
    rig = on_leave()
    told_by_hand(rig, rig.now + 2 * SECOND)
    assert rig.shard.recalled(key("far"))
    rig.start("source", epoch=2)  # its clock has been set back
    rig.set("source", low=0.0, far=60.0)
    rig.tick(LATENCY)
    assert not rig.shard.recalled(key("far"))
    low, high = rig.shard.ends(key("far"))
    assert low <= 60.0 <= high


def test_a_repeated_row_from_before_a_restart_tells_nothing() -> None:
    rig = on_leave()
    at = rig.now + 60 * SECOND
    rig.start("source", epoch=2)  # its clock has been set back
    rig.set("source", low=0.0, far=60.0)
    rig.tick(LATENCY + 1)
    told_by_hand(rig, at)
    assert all(until < at for _, _, until in rig.shard._engine.history.state()["histories"])


def test_what_an_item_has_told_does_not_hold_when_another_source_has_it() -> None:
    rig = on_leave()
    told_by_hand(rig, rig.now + 2 * SECOND)
    rig.start("other")
    rig.set("other", far=60.0)
    rig.tick(LATENCY)
    assert not rig.shard.recalled(key("far"))
    low, high = rig.shard.ends(key("far"))
    assert low <= 60.0 <= high


def test_what_another_source_tells_is_not_used() -> None:
    rig = on_leave()
    told_by_hand(rig, rig.now, source="stranger")
    assert not rig.shard.recalled(key("far"))


def test_a_way_is_where_the_item_was() -> None:
    rng = np.random.default_rng(5)
    recent, values = RecentRanges(), [[(100, 0.0)] for _ in range(3)]
    recent.begin(np.arange(3), np.zeros(3), 100)
    widths, at = np.array([0.0, 1.0, 2.5]), 100
    for _ in range(300):
        at += int(rng.integers(1, 20))
        some = np.flatnonzero(rng.random(3) < 0.5)
        new = rng.normal(size=len(some))
        recent.observe(some, new, widths[some], at)
        for item, value in zip(some.tolist(), new.tolist(), strict=True):
            values[item].append((at, value))
        since = at - int(rng.integers(0, 200))
        for item in range(3):
            way = recent.history(item, since)
            assert way[0].since <= since or len(way) == 8 or way[0].since == 100
            for piece, end in zip(way, [*(one.since for one in way[1:]), at + 1], strict=True):
                held = bisect_right(values[item], (piece.since, np.inf)) - 1
                there = [value for begun, value in values[item][held:] if begun < end]
                assert piece.least == min(there)
                assert piece.most == max(there)
                assert piece.most - piece.least <= widths[item] or (len(way) == 8 and piece is way[0])


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
        self.begun = self.rig.now
        self.recalled = 0
        self.wrong: list[str] = []

    def play(self, turns: int) -> None:
        rig, chance = self.rig, self.random.random
        self._set(self.values)
        for _ in range(turns):
            rig.now += self.random.randint(1, SECOND)
            if chance() < 0.7:
                self._move()
            # One that moves steadily, far from the extreme, has a slope: answers are then given at every tick.
            passed = (rig.now - self.begun) / SECOND
            self._set({"ramp": 290 + 1.7 * passed if self.fn is min else -1.7 * passed})
            if chance() < 0.5:
                rig.deliver()
            if chance() < 0.6:
                rig.clock()
            if chance() < 0.6:
                rig.read()
                self._look()

    def _look(self) -> None:
        """Hold what the shard reckons with against what is true."""
        watermark, shard = self.rig.shard.watermark, self.rig.shard
        for host, line in self.truth.items():
            if watermark is None or watermark < line[0][0]:
                continue
            low, high = shard.ends(key(host))
            value = self._true(host, watermark)
            self.recalled += shard.recalled(key(host))
            if not low - 1e-9 <= value <= high + 1e-9:
                self.wrong.append(f"{host} is {value} at {watermark}, believed {low} … {high}")

    def _true(self, host: str, moment: int) -> float:
        line = self.truth[host]
        return line[bisect_right(line, (moment, np.inf)) - 1][1]

    def _move(self) -> None:
        host, jumps = self.random.choice([f"h{number}" for number in range(4)]), self.random.random() < 0.15
        step = self.random.uniform(-150, 150) if jumps else self.random.gauss(0, 6)
        self._set({host: min(max(self.values[host] + step, 0.0), 300.0)})

    def _set(self, values: dict[str, float]) -> None:
        core = self.rig.sources["source"]
        self.rig.set("source", **values)
        self.values |= values
        for host, value in values.items():
            self.truth.setdefault(host, []).append((core.clock, value))

    def broken(self) -> list[str]:
        """Wrong beliefs, and settled answers that were wrong or too wide at any time until the next one."""
        answers, found = self.rig.answers("edge"), [*self.wrong]
        watermark = self.rig.shard.watermark
        moments = sorted({at for line in self.truth.values() for at, _ in line})
        for answer, after in zip(answers, [*(one.at for one in answers[1:]), watermark + 1], strict=True):
            if not answer.settled or answer.value is None:
                continue
            if answer.high - answer.low > 2 * WITHIN + 1e-9:
                found.append(f"{answer} is too wide")
            for moment in [answer.at, *(at for at in moments if answer.at < at < after)]:
                truth = self.fn(self._true(host, moment) for host in self.truth)
                if not answer.low - 1e-9 <= truth <= answer.high + 1e-9:
                    found.append(f"{answer}: at {moment} the truth is {truth}")
        return found


def histories(seeds: range) -> Iterator[History]:
    for seed in seeds:
        history = History(seed, "MIN" if seed % 2 else "MAX")
        history.play(400)
        yield history


def test_whatever_happens_settled_answers_are_right() -> None:
    played = list(histories(range(16)))
    assert [broken for history in played for broken in history.broken()] == []
    assert sum(history.recalled for history in played) > 16


class DatesItBack(RecentRanges):
    """A piece of the way is taken to have begun before it did."""

    def history(self, handle, since):
        return [piece._replace(since=piece.since - 2 * SECOND) for piece in super().history(handle, since)]


class ForgetsAPiece(RecentRanges):
    """Where the item was at first is not told, and what came then is dated back."""

    def history(self, handle, since):
        way = super().history(handle, since)
        return way if len(way) < 2 else [way[1]._replace(since=way[0].since), *way[2:]]


@pytest.mark.parametrize("mistake", [DatesItBack, ForgetsAPiece])
def test_a_source_that_tells_wrong_things_is_caught(mistake, monkeypatch) -> None:
    monkeypatch.setattr("tolerant.edge.filter_array.RecentRanges", mistake)
    assert any(history.broken() for history in histories(range(16)))


def test_a_shard_restored_while_it_relies_on_what_was_told_says_the_same() -> None:
    history = History(1, "MIN")
    while not history.recalled:
        history.play(1)
    rig = history.rig
    twin = BoundedShard(rig.stream, 0, 1, "checkpoint")
    twin.restore(rig.shard.snapshot())
    position = rig.position
    history.play(60)
    rig.clock(rig.now + 20 * SECOND)
    entries = [entry for topic in ("queries", "updates.traffic") for entry in rig.log.read(topic, position)]
    entries.sort(key=lambda entry: entry.position)
    rig.read()
    outputs = twin.apply(entries)
    rows = [row for output in outputs if output.topic == "answers.edge" for row in unpack(output.payload).to_pylist()]
    assert rows
    assert rows == rig.rows("answers.edge")[-len(rows) :]
