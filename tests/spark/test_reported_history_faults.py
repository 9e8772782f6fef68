"""An item on leave that is asked tells where it has been, so that an answer which waits for it is settled in time."""

import random
from bisect import bisect_right
from collections.abc import Iterator

import numpy as np
import pytest
from stream_pipeline import StreamPipeline, key

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


def on_leave() -> StreamPipeline:
    """A minimum over `low` and `far`, which is on leave above it."""
    pipeline = StreamPipeline(edge("MIN"), stream=SLOW)
    pipeline.start_source("source")
    for value in (100.0, 110.0, 120.0, 130.0):
        pipeline.set("source", low=0.0, far=value)
        pipeline.tick(4)
    pipeline.tick(4)
    assert pipeline.sources["source"]._filters.suppress_side.any()
    return pipeline


def jump(pipeline: StreamPipeline, trip: int) -> int:
    """`low` jumps over the floor of `far`, to which grants take `trip` seconds; when it jumped."""
    jumped = pipeline.now
    pipeline.set("source", low=90.0)
    for second in range(12):
        pipeline.now += SECOND
        if second >= trip:
            pipeline.advance()
        pipeline.clock()
        pipeline.read()
    return jumped


@pytest.mark.parametrize("trip", range(LATENCY))
def test_a_minimum_that_jumps_is_settled_at_once_if_the_round_trip_takes_less_than_the_latency(trip) -> None:
    pipeline = on_leave()
    jumped = jump(pipeline, trip)
    [answer] = [answer for answer in pipeline.answers("edge") if answer.at >= jumped]
    assert answer.settled
    assert (answer.at, answer.low, answer.high) == (jumped, 86.0, 94.0)


def test_a_minimum_that_jumps_is_settling_while_a_longer_round_trip_takes() -> None:
    pipeline = on_leave()
    jumped = jump(pipeline, LATENCY + 1)
    first, second = [answer for answer in pipeline.answers("edge") if answer.at >= jumped]
    assert first.at == jumped
    assert first.settling
    assert first.high == 94.0
    assert second.settled


def test_an_item_is_asked_when_the_row_arrives_and_not_when_its_time_comes() -> None:
    pipeline = on_leave()
    before = pipeline.log.read("grants.traffic")[-1].position
    pipeline.set("source", low=90.0)
    pipeline.now += SECOND // 10
    pipeline.clock()
    pipeline.read()
    [asked] = pipeline.log.read("grants.traffic", before)
    assert [grant.item for grant in read_grants(unpack(asked.payload)) if grant.confirm] == [key("far")]
    pipeline.clock()
    pipeline.read()
    assert pipeline.log.read("grants.traffic", asked.position) == []  # once


def test_an_item_of_a_minimum_that_goes_makes_the_next_one_matter() -> None:
    pipeline = on_leave()
    core = pipeline.sources["source"]
    gone = core.remove(int(core.register([key("low")])[0]), pipeline.now)
    pipeline.append_updates("source")
    pipeline.tick(8)
    later = [answer for answer in pipeline.answers("edge") if answer.at >= gone]
    assert all(answer.settled for answer in later)
    assert later[0].at == gone
    assert later[0].low <= 130.0 <= later[0].high


def test_only_rows_that_tell_something_carry_the_columns_for_it() -> None:
    pipeline = on_leave()
    pipeline.set("source", far=125.0)
    jump(pipeline, 0)
    batches = [unpack(entry.payload) for entry in pipeline.log.read("updates.traffic")]
    assert {batch.schema == UPDATES for batch in batches} == {True, False}
    told = [row for batch in batches if batch.schema == UPDATES_WITH_HISTORY for row in batch.to_pylist()]
    [(kind, way)] = [(row["kind"], row["recent_ranges"]) for row in told if row["recent_ranges"] is not None]
    assert kind == "ack"
    assert [(piece["least"], piece["most"]) for piece in way] == [(125.0, 130.0)]


def told_by_hand(pipeline: StreamPipeline, at: int, source: str = "source") -> None:
    """An ack that does not end the leave, of an older version, and tells where `far` has been."""
    way = [TimedRange(at - 10 * SECOND, 120.0, 140.0), TimedRange(at - SECOND, 150.0, 160.0)]
    row = updates_batch(
        kind="ack", keys=[key("far")], at=[at], source=source, sequence=[version(1, 10**6)], through=at, value=[130.0],
        grant=[1], ways=[way],
    )  # fmt: skip
    pipeline.log.append("updates.traffic", row)
    pipeline.read()


def test_what_an_item_has_told_holds_until_then_and_no_longer() -> None:
    pipeline = on_leave()
    floor = pipeline.shard.ends(key("far"))[0]
    told_by_hand(pipeline, pipeline.now)
    assert pipeline.shard.ends(key("far")) == (120.0, 140.0)
    pipeline.tick(LATENCY - 2)
    assert pipeline.shard.ends(key("far")) == (120.0, 140.0)
    pipeline.tick(1)
    assert pipeline.shard.ends(key("far")) == (150.0, 160.0)
    pipeline.tick(1)
    assert not pipeline.shard.recalled(key("far"))
    assert pipeline.shard.ends(key("far"))[0] <= floor


def test_what_is_told_too_late_is_not_used() -> None:
    pipeline = on_leave()
    told_by_hand(pipeline, pipeline.now - LATENCY * SECOND)
    assert not pipeline.shard.recalled(key("far"))


def test_what_is_told_of_later_is_used_then() -> None:
    pipeline = on_leave()
    told_by_hand(pipeline, pipeline.now + 8 * SECOND)
    assert not pipeline.shard.recalled(key("far"))
    pipeline.tick(2)
    assert pipeline.shard.ends(key("far")) == (120.0, 140.0)


def test_what_was_told_before_a_restart_does_not_hold_after_it() -> None:
    pipeline = on_leave()
    told_by_hand(pipeline, pipeline.now + 2 * SECOND)
    assert pipeline.shard.recalled(key("far"))
    pipeline.start_source("source", epoch=2)  # its clock has been set back
    pipeline.set("source", low=0.0, far=60.0)
    pipeline.tick(LATENCY)
    assert not pipeline.shard.recalled(key("far"))
    low, high = pipeline.shard.ends(key("far"))
    assert low <= 60.0 <= high


def test_a_repeated_row_from_before_a_restart_tells_nothing() -> None:
    pipeline = on_leave()
    at = pipeline.now + 60 * SECOND
    pipeline.start_source("source", epoch=2)  # its clock has been set back
    pipeline.set("source", low=0.0, far=60.0)
    pipeline.tick(LATENCY + 1)
    told_by_hand(pipeline, at)
    assert all(until < at for _, _, until in pipeline.shard._engine.history.state()["histories"])


def test_what_an_item_has_told_does_not_hold_when_another_source_has_it() -> None:
    pipeline = on_leave()
    told_by_hand(pipeline, pipeline.now + 2 * SECOND)
    pipeline.start_source("other")
    pipeline.set("other", far=60.0)
    pipeline.tick(LATENCY)
    assert not pipeline.shard.recalled(key("far"))
    low, high = pipeline.shard.ends(key("far"))
    assert low <= 60.0 <= high


def test_what_another_source_tells_is_not_used() -> None:
    pipeline = on_leave()
    told_by_hand(pipeline, pipeline.now, source="stranger")
    assert not pipeline.shard.recalled(key("far"))


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
        self.pipeline = StreamPipeline(edge(fn), stream=SLOW)
        self.pipeline.start_source("source")
        self.truth: dict[str, list[tuple[int, float]]] = {}
        self.values = {f"h{number}": 40.0 * number for number in range(4)}
        self.begun = self.pipeline.now
        self.recalled = 0
        self.wrong: list[str] = []

    def play(self, turns: int) -> None:
        pipeline, chance = self.pipeline, self.random.random
        self._set(self.values)
        for _ in range(turns):
            pipeline.now += self.random.randint(1, SECOND)
            if chance() < 0.7:
                self._move()
            # One that moves steadily, far from the extreme, has a slope: answers are then given at every tick.
            passed = (pipeline.now - self.begun) / SECOND
            self._set({"ramp": 290 + 1.7 * passed if self.fn is min else -1.7 * passed})
            if chance() < 0.5:
                pipeline.advance()
            if chance() < 0.6:
                pipeline.clock()
            if chance() < 0.6:
                pipeline.read()
                self._look()

    def _look(self) -> None:
        """Hold what the shard reckons with against what is true."""
        watermark, shard = self.pipeline.shard.watermark, self.pipeline.shard
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
        core = self.pipeline.sources["source"]
        self.pipeline.set("source", **values)
        self.values |= values
        for host, value in values.items():
            self.truth.setdefault(host, []).append((core.clock, value))

    def broken(self) -> list[str]:
        """Wrong beliefs, and settled answers that were wrong or too wide at any time until the next one."""
        answers, found = self.pipeline.answers("edge"), [*self.wrong]
        watermark = self.pipeline.shard.watermark
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
    pipeline = history.pipeline
    twin = BoundedShard(pipeline.stream, 0, 1, "checkpoint")
    twin.restore(pipeline.shard.snapshot())
    position = pipeline.position
    history.play(60)
    pipeline.clock(pipeline.now + 20 * SECOND)
    entries = [entry for topic in ("queries", "updates.traffic") for entry in pipeline.log.read(topic, position)]
    entries.sort(key=lambda entry: entry.position)
    pipeline.read()
    outputs = twin.apply(entries)
    rows = [row for output in outputs if output.topic == "answers.edge" for row in unpack(output.payload).to_pylist()]
    assert rows
    assert rows == pipeline.rows("answers.edge")[-len(rows) :]
