"""Every kind of shard with a bug in it, hosted without Spark: exactly the entry at fault is put into quarantine, its
items are not known until they are confirmed, and every replay says the same.
"""

import json
import os
import signal
import subprocess
import sys

import pytest
from hosted_shard import HostedShard, Stopped
from stream_pipeline import StreamPipeline, key
from test_network_shard import VALUES, Desk
from test_pair_shard import TOLD, PairPipeline, Teller
from test_polled_shard import KNOWN, QUOTES, QUOTES_TEXT, TOTAL, PolledPipeline, known
from test_table_shard import AREA, CHEAP, StockPipeline

from tolerant.kernels.versions import version
from tolerant.kinds.bounded.engine import Engine
from tolerant.kinds.bounded.open_queries import OpenQueries
from tolerant.kinds.bounded.shard import BoundedShard
from tolerant.kinds.joins import queries as pair_queries
from tolerant.kinds.network.planned_queries import PlannedQueries
from tolerant.kinds.network.shard import NetworkShard
from tolerant.kinds.polled.shard import PolledShard
from tolerant.pipeline.entry_by_entry import Careful, EntryFailed, Suspect, rows_at_fault
from tolerant.pipeline.entry_contents import named_rows
from tolerant.pipeline.intake import ACK, GONE
from tolerant.pipeline.rows_shard import RowsShard
from tolerant.pipeline.splitter import Split
from tolerant.spark.recovery import MOST, Recovery, suspected
from tolerant.sql import parse
from tolerant.testing.simulation import _function_of_the_log
from tolerant.transport import Fence, Fenced, MemoryLog
from tolerant.transport.log import Entry
from tolerant.transport.pulls import Pull, pulls_batch
from tolerant.transport.quarantine import (
    NamedRow,
    Quarantined,
    WaitingRow,
    as_marked,
    bodies,
    marked,
    quarantined,
    read_marked,
    record,
)
from tolerant.transport.rows import clock_batch, pack, updates_batch
from tolerant.transport.topics import is_compacted

SUM = "CREATE QUERY total AS SELECT SUM(rate) FROM traffic WITHIN 4"
SHARDED = (
    "CREATE STREAM traffic (host STRING, kind STRING, rate DOUBLE) KEY (host, kind) WITH (shards = 2, shard = host)"
)
EACH = "CREATE QUERY each AS SELECT host, SUM(rate) FROM traffic GROUP BY host WITHIN 4"


@pytest.fixture(autouse=True)
def _teller(monkeypatch):
    monkeypatch.setattr(pair_queries, "shard_query_of", lambda query: Teller)


def broken(monkeypatch, owner, name, is_poison):
    """Let a method raise when its arguments are poison."""
    whole = getattr(owner, name)

    def method(self, *arguments, **options):
        if is_poison(self, *arguments):
            raise ZeroDivisionError("a bug")
        return whole(self, *arguments, **options)

    monkeypatch.setattr(owner, name, method)


def replay(log, pipeline, topics, factory, cut, until):
    """What a pipeline says that reads the log from its beginning, in batches of so many entries."""
    entries = [entry for entry in log.read(topics) if entry.position <= until]
    entries = marked(entries, bodies(log, pipeline))
    shard, outputs = factory(0), []
    for start in range(0, len(entries), cut):
        outputs += shard.apply(entries[start : start + cut])
    return shard, outputs


def comparable(outputs):
    """What must come out the same however the log is cut, without the plans of networks."""
    return _function_of_the_log([output for output in outputs if output.topic != "grants.prices"])


def check_replays(log, pipeline, topics, factory, host, until):
    """Once from scratch, cut differently, and once from a checkpoint, it comes to the same."""
    said = comparable(host.outputs)
    whole, outputs = replay(log, pipeline, topics, factory, 10_000, until)
    assert comparable(outputs) == said
    other, outputs = replay(log, pipeline, topics, factory, 3, until)
    assert comparable(outputs) == said
    again, _ = replay(log, pipeline, topics, factory, 3, until)
    assert again.snapshot() == other.snapshot()
    restored = factory(0)
    restored.restore(other.snapshot())
    assert restored.snapshot() == other.snapshot()
    assert host.core().believed(key("a")) == whole.believed(key("a")) if isinstance(whole, BoundedShard) else True


# -- streams -----------------------------------------------------------------------------------------------------------

TOPICS = ["queries", "updates.traffic"]


def hosted_stream(tmp_path, *queries, stream=None, split=False):
    pipeline = StreamPipeline(*queries, **({"stream": stream} if stream else {}))

    def factory(shard):
        return BoundedShard(pipeline.stream, shard, 1, "checkpoint")

    pipeline.shard = HostedShard(pipeline.log, "traffic", factory, tmp_path, Split(pipeline.stream) if split else None)
    pipeline.start_source("one")
    return pipeline, factory


def walk(pipeline, ticks, **more):
    """Two items that move a little at each tick, and others that are set once; the truth of their sum by time."""
    truth = {}
    for tick in range(ticks):
        values = {"a": float(tick % 7), "b": 10.0 - tick % 3} | (more if tick == 0 else {})
        pipeline.set("one", **values)
        truth[pipeline.now] = values["a"] + values["b"] + sum(more.values())
        pipeline.tick()
    return truth


def check_settled(answers, truth, least=1):
    """Settled answers hold the truth, and there are some. Rows of one moment are stamped a microsecond apart."""
    checked = 0
    for answer in answers:
        known = [[value for at, value in truth.items() if at <= answer.at - before][-1:] for before in (0, 10)]
        if answer.settled and all(known):
            checked += 1
            assert any(answer.low - 1e-9 <= value <= answer.high + 1e-9 for (value,) in known)
    assert checked >= least


def has(name, value):
    """Whether rows that an engine applies have this value of this item, other than to confirm a grant."""

    def is_poison(engine, rows):
        names = engine._coordinator.membership.item_names
        found = rows[(rows["item"] >= 0) & (rows["value"] == value) & (rows["kind"] != ACK)]
        return any(names[item] == key(name) for item in found["item"])

    return is_poison


def brings_more_than(limit):
    def is_poison(shard, arrived, partition):
        return bool((arrived.rows["kind"] != ACK)[arrived.rows["value"] > limit].any())

    return is_poison


def test_a_row_that_breaks_the_core_is_dropped_alone(tmp_path, monkeypatch):
    """The bug strikes when the row's time has come, at a clock row: no other row is lost with it."""
    pipeline, factory = hosted_stream(tmp_path, SUM)
    broken(monkeypatch, Engine, "_apply", has("bad", 100.0))
    truth = walk(pipeline, 15)
    truth |= walk(pipeline, 10, bad=100.0)
    (skipped,) = quarantined(pipeline.log, "traffic")
    assert [decision.what for decision in pipeline.shard.decisions] == ["retry", "retry", "quarantine"]
    assert [row.kind for row in skipped.rows] == ["clock"]
    assert [row.key for row in skipped.waiting] == [key("bad")]
    letters = pipeline.rows("dead_letters.traffic")
    assert [row["key"] for row in letters] == ["", key("bad")]
    assert all(row["reason"].startswith("quarantined: entry ") for row in letters)
    pipeline.tick(15)
    assert pipeline.answers("total")[-1].settled  # the item was told to exist, and has confirmed its grant
    check_settled(pipeline.answers("total"), truth, 2)
    check_replays(pipeline.log, "traffic", TOPICS, factory, pipeline.shard, pipeline.position)


def test_items_of_a_skipped_entry_are_unknown_until_they_are_confirmed(tmp_path, monkeypatch):
    pipeline, factory = hosted_stream(tmp_path, SUM)
    truth = walk(pipeline, 25)
    assert pipeline.answers("total")[-1].settled
    broken(monkeypatch, BoundedShard, "_take_arrived", brings_more_than(60.0))
    pipeline.set("one", a=77.0)
    position, moment = pipeline.log.end(), pipeline.now
    truth[pipeline.now] = truth[max(truth)] - float(24 % 7) + 77.0
    pipeline.tick()
    assert pipeline.shard.skipped == [position]
    (skipped,) = quarantined(pipeline.log, "traffic")
    assert [(row.kind, row.key) for row in skipped.rows] == [("update", key("a"))]
    assert not any(answer.settled for answer in pipeline.answers("total") if answer.at >= moment)
    pipeline.tick(30)  # the width is granted again, and its confirmation tells the value
    assert pipeline.answers("total")[-1].settled
    check_settled(pipeline.answers("total"), truth, 2)
    check_replays(pipeline.log, "traffic", TOPICS, factory, pipeline.shard, pipeline.position)


def test_of_an_entry_that_nobody_can_decode_every_item_may_be(tmp_path, monkeypatch):
    pipeline, factory = hosted_stream(tmp_path, SUM)
    walk(pipeline, 25)
    broken(monkeypatch, BoundedShard, "_take_arrived", lambda shard, arrived, partition: bool(arrived.dead))
    pipeline.log.append_packed([("updates.traffic", b"nobody can read this")])
    moment = pipeline.now
    pipeline.tick()
    (skipped,) = quarantined(pipeline.log, "traffic")
    assert skipped.rows is None
    assert not any(answer.settled for answer in pipeline.answers("total") if answer.at >= moment)
    pipeline.tick(30)
    assert pipeline.answers("total")[-1].settled
    check_replays(pipeline.log, "traffic", TOPICS, factory, pipeline.shard, pipeline.position)


def test_an_item_whose_departure_is_skipped_may_or_may_not_exist(tmp_path, monkeypatch):
    pipeline, factory = hosted_stream(tmp_path, SUM.replace("SUM", "COUNT"))
    walk(pipeline, 15)
    assert pipeline.answers("total")[-1].settled
    broken(monkeypatch, BoundedShard, "_take_arrived", lambda shard, arrived, partition: GONE in arrived.rows["kind"])
    moment = pipeline.now
    source = pipeline.sources["one"]
    source.remove(int(source.register([key("b")])[0]), pipeline.now)
    pipeline.append_updates("one")
    pipeline.tick(20)
    assert len(pipeline.shard.skipped) == 1
    assert not any(answer.settled for answer in pipeline.answers("total") if answer.at >= moment)
    pipeline.set("one", b=3.0)
    pipeline.tick(20)
    assert pipeline.answers("total")[-1].settled
    check_replays(pipeline.log, "traffic", TOPICS, factory, pipeline.shard, pipeline.position)


def test_a_query_that_cannot_be_opened_is_dropped_alone(tmp_path, monkeypatch):
    pipeline, factory = hosted_stream(tmp_path, SUM)
    walk(pipeline, 15)
    broken(monkeypatch, OpenQueries, "open", lambda queries, selects, at: "poison" in selects)
    pipeline.send(parse(SUM.replace("total", "poison")))
    pipeline.send(parse(SUM.replace("total", "fine")))
    walk(pipeline, 20)
    (skipped,) = quarantined(pipeline.log, "traffic")
    assert [row.key for row in skipped.waiting] == ["poison"]
    assert pipeline.answers("fine")[-1].settled
    assert not pipeline.answers("poison")
    check_replays(pipeline.log, "traffic", TOPICS, factory, pipeline.shard, pipeline.position)


def test_a_query_that_cannot_be_altered_answers_no_more(tmp_path, monkeypatch):
    """Those who read the statements take the new tolerance for granted: the old one must not be called settled."""
    pipeline, factory = hosted_stream(tmp_path, SUM)
    walk(pipeline, 20)
    broken(monkeypatch, OpenQueries, "alter", lambda queries, name, select, at: True)
    pipeline.send(parse("ALTER QUERY total WITHIN 1"))
    moment = pipeline.now
    walk(pipeline, 10)
    assert len(pipeline.shard.skipped) == 1
    assert not [answer for answer in pipeline.answers("total") if answer.at > moment]
    check_replays(pipeline.log, "traffic", TOPICS, factory, pipeline.shard, pipeline.position)


def test_shards_and_splitter_skip_the_same(tmp_path, monkeypatch):
    pipeline, _ = hosted_stream(tmp_path, EACH, stream=SHARDED, split=True)
    walk(pipeline, 15)
    broken(monkeypatch, Engine, "_apply", has("b", 55.0))
    pipeline.set("one", b=55.0)
    truth = {pipeline.now: 55.0}
    pipeline.tick(30)
    assert len(pipeline.shard.skipped) == 1
    assert pipeline.answers("each", "b")[-1].settled
    check_settled([one for one in pipeline.answers("each", "b") if one.at >= min(truth)], truth)
    before = pipeline.shard.skipped
    broken(monkeypatch, Split, "parts", lambda split, topic, payload: b"poison" in payload)
    pipeline.start_source("poison")
    pipeline.set("poison", c=1.0)
    pipeline.tick()
    (position,) = set(pipeline.shard.skipped) - set(before)
    assert pipeline.shard.decisions[-1].suspect.position == position
    pipeline.sources.pop("poison")
    pipeline.set("one", b=20.0)
    pipeline.tick(20)
    assert pipeline.answers("each", "b")[-1].settled


def test_a_failure_that_comes_once_leaves_no_trace(tmp_path, monkeypatch):
    pipeline, factory = hosted_stream(tmp_path, SUM)
    walk(pipeline, 10)
    strikes = iter([True])
    broken(monkeypatch, BoundedShard, "_take_arrived", lambda shard, arrived, partition: next(strikes, False))
    walk(pipeline, 10)
    assert [decision.what for decision in pipeline.shard.decisions] == ["retry"]
    assert pipeline.shard.skipped == []
    check_replays(pipeline.log, "traffic", TOPICS, factory, pipeline.shard, pipeline.position)


def test_a_pipeline_that_fails_at_everything_stops(tmp_path, monkeypatch):
    pipeline, _ = hosted_stream(tmp_path, SUM)
    broken(monkeypatch, BoundedShard, "_take_arrived", lambda shard, arrived, partition: True)
    with pytest.raises(Stopped, match=rf"a bug at entry \d+ .*; {MOST} entries have been put into quarantine"):
        walk(pipeline, MOST + 5)
    assert len(pipeline.shard.skipped) == MOST


def test_an_entry_that_cannot_even_be_skipped_stops_the_pipeline(tmp_path, monkeypatch):
    pipeline, _ = hosted_stream(tmp_path, SUM)
    walk(pipeline, 3)
    broken(monkeypatch, BoundedShard, "_take_arrived", brings_more_than(60.0))
    broken(monkeypatch, BoundedShard, "_skip", lambda shard, skipped: True)
    pipeline.set("one", a=77.0)
    with pytest.raises(Stopped, match="in quarantine already"):
        pipeline.tick()


# -- the other kinds of shard -----------------------------------------------------------------------------------------


def test_polled_streams(tmp_path, monkeypatch):
    broken(monkeypatch, PolledShard, "_replay_pull", lambda shard, pull: pull.value == 13.0)
    pipeline = PolledPipeline(QUOTES_TEXT, TOTAL)

    def factory(shard):
        return PolledShard(QUOTES.stream, shard)

    pipeline.shard = HostedShard(pipeline.log, "quotes", factory, tmp_path)
    known(pipeline)
    assert pipeline.answer("total").settled
    pipeline.pull("A", 1.0)
    pipeline.pull("B", 13.0)
    pipeline.tick()
    assert len(pipeline.shard.skipped) == 1
    assert not pipeline.answer("total").settled
    for _ in range(KNOWN):  # it is learned again
        for item, value in (("A", 1.0), ("B", 5.0), ("C", 1.0)):
            pipeline.pull(item, value)
        pipeline.tick()
    answer = pipeline.answer("total")
    assert answer.settled
    assert answer.value == 7.0
    topics = ["queries", "updates.quotes", "pulls.quotes"]
    check_replays(pipeline.log, "quotes", topics, factory, pipeline.shard, pipeline.position)


def test_networks(tmp_path, monkeypatch):
    broken(monkeypatch, PlannedQueries, "apply", lambda plans, row: row.value == 13.0)
    desk = Desk()

    def factory(shard):
        return NetworkShard(desk.stream, shard, "checkpoint")

    desk.shard = HostedShard(desk.log, "prices", factory, tmp_path)  # type: ignore[assignment]
    desk.alive()
    desk.tick()
    desk.serve(VALUES)
    desk.tick()
    assert desk.answer().settled
    aggregator, slot, number, *_ = desk.wanted()[0]
    desk.say(aggregator, json.dumps(["total", "", slot], separators=(",", ":")), 13.0, "update", number)
    desk.tick()
    assert len(desk.shard.skipped) == 1
    assert not desk.answer().settled
    for _ in range(3):  # by now another plan may be on its way
        desk.serve(VALUES)
        desk.tick()
    assert desk.answer().settled
    topics = ["queries", "updates.prices", "reports.prices"]
    check_replays(desk.log, "prices", topics, factory, desk.shard, desk.position)


def test_tables(tmp_path, monkeypatch):
    broken(monkeypatch, RowsShard, "_apply", lambda shard, found: any("3" in one.keys for one in found))
    pipeline = StockPipeline(AREA, CHEAP)
    pipeline.shard = HostedShard(pipeline.log, "stock", lambda shard: pipeline.new_shard(), tmp_path)
    pipeline.subscribe(parse("SUBSCRIBE area(0, 100)"))
    pipeline.tick()
    for number in range(6):
        pipeline.table().insert(id=number, name="n", x=float(number), y=1)
        pipeline.now += 1
    pipeline.tick()
    (skipped,) = quarantined(pipeline.log, "stock")
    assert [row.key for row in skipped.waiting] == ["3"]
    pipeline.tick()
    assert {row["key"] for row in pipeline.rows("rows.stock")} == {"0", "1", "2", "4", "5"}
    topics = ["queries", "changes.stock", "subscriptions.stock"]
    check_replays(pipeline.log, "stock", topics, lambda shard: pipeline.new_shard(), pipeline.shard, pipeline.position)


def test_subscriptions_that_break_a_query_are_skipped(tmp_path, monkeypatch):
    broken(monkeypatch, RowsShard, "_subscribe", lambda shard, entry: b"poison" in entry.payload)
    pipeline = StockPipeline(AREA, CHEAP)
    pipeline.shard = HostedShard(pipeline.log, "stock", lambda shard: pipeline.new_shard(), tmp_path)
    pipeline.log.append_packed([("subscriptions.stock", b"poison")])
    pipeline.table().insert(id=1, name="n", x=1.0, y=1)
    pipeline.tick()
    pipeline.tick()
    assert len(pipeline.shard.skipped) == 1
    assert [row["key"] for row in pipeline.rows("rows.stock")] == ["1"]


def test_pairs_of_tables(tmp_path, monkeypatch):
    broken(monkeypatch, RowsShard, "_apply", lambda shard, found: any("3" in one.keys for one in found))
    pipeline = PairPipeline(TOLD)
    pipeline.shard = HostedShard(pipeline.log, pipeline.relation.name, lambda shard: pipeline.new_shard(), tmp_path)
    pipeline.tick()
    for number in range(5):
        pipeline.table("orders").insert(id=number, part="p", a=1.0)
        pipeline.table("lines").insert(id=number + 10, part="p", c=1.0)
        pipeline.now += 1
    pipeline.tick()
    assert len(pipeline.shard.skipped) == 1
    pipeline.tick()
    assert "orders/3" not in {row["key"] for row in pipeline.rows(f"rows.{pipeline.relation.name}")}
    assert len(pipeline.rows(f"rows.{pipeline.relation.name}")) == 9
    check_replays(
        pipeline.log,
        pipeline.relation.name,
        pipeline.topics,
        lambda shard: pipeline.new_shard(),
        pipeline.shard,
        pipeline.position,
    )


# -- the record, and who finds the entry ------------------------------------------------------------------------------


def test_a_record_belongs_to_one_pipeline_and_needs_its_epoch():
    log = MemoryLog()
    fence = Fence("pipeline/traffic", log.next_epoch("pipeline/traffic"))
    position = log.append("queries", clock_batch(1))
    skipped = Quarantined("queries", position, "a bug", 5, (NamedRow("clock", "", "c", 3),), None, bytes(10_000))
    record(log, "traffic", skipped, fence)
    record(log, "traffic", skipped, fence)
    assert [(one.position, one.rows, len(one.excerpt)) for one in quarantined(log, "traffic")] == [
        (position, skipped.rows, 4096)
    ]
    assert quarantined(log, "other") == []
    assert is_compacted("quarantine.traffic")
    log.next_epoch("pipeline/traffic")
    with pytest.raises(Fenced):
        record(log, "traffic", Quarantined("queries", position + 1, "", 0, None), fence)
    assert len(quarantined(log, "traffic")) == 1


def test_marked_entries_carry_their_record():
    entries = [Entry("updates.s", 0, position, b"x") for position in (1, 2)]
    skipped = Quarantined("updates.s", 2, "a bug", 5, (NamedRow("update", "k", "s", 9),), (WaitingRow("k", "s", 9),))
    again = as_marked(skipped, entries[1])
    assert read_marked(again) == skipped
    assert marked(entries, {2: again.payload}) == [entries[0], again]
    assert marked(entries, {}) == entries


def test_rows_are_named_by_another_process():
    number = version(2, 1)
    batch = updates_batch(kind="hello", keys=["k"], at=[1], source="s", sequence=[number], through=1, value=[1.0])
    assert named_rows(pack(batch)) == (NamedRow("hello", "k", "s", number),)
    pull = pulls_batch([Pull("i", 1, 1, "value", 2.0, "", "p")])
    assert named_rows(pack(pull)) == (NamedRow("value", "i", "p", 0),)
    assert named_rows(b"nobody can read this") is None


CHILD = """
import os, signal, sys
from tolerant.pipeline.entry_by_entry import Careful
from tolerant.transport.log import Entry
entries = [Entry("updates.s", 0, position, b"") for position in range(1, 5)]
Careful(sys.argv[1], 4).each(entries, lambda e: os.kill(os.getpid(), signal.SIGSEGV) if e.position == 3 else [])
"""


def test_a_worker_that_dies_names_its_entry(tmp_path):
    file = str(tmp_path / "applying")
    died = subprocess.run([sys.executable, "-c", CHILD, file], env=os.environ, check=False)
    assert died.returncode == -signal.SIGSEGV
    careful = Careful(file, 4)
    assert careful.suspect() == Suspect("updates.s", 3)
    with pytest.raises(InterruptedError):  # another shard must not write over it
        careful.each([Entry("updates.s", 0, 1, b"")], lambda entry: [])
    assert careful.suspect() == Suspect("updates.s", 3)
    careful.clear()
    assert careful.each([Entry("updates.s", 0, 1, b"")], lambda entry: [entry.position]) == [1]
    assert careful.suspect() is None


def test_an_exception_names_its_entry_in_the_file_and_in_the_text(tmp_path):
    careful = Careful(str(tmp_path / "applying"), 4)
    with pytest.raises(EntryFailed) as failed:
        careful.each([Entry("updates.s", 0, 3, b"")], lambda entry: [1 / 0], lambda number: (WaitingRow("k", "s", 1),))
    text = f"Traceback (most recent call last):\ntolerant.spark.entry_by_entry.EntryFailed: {failed.value}"
    assert suspected(text, None) == Suspect("updates.s", 3, "ZeroDivisionError: division by zero")
    assert suspected(text, careful.suspect()).waiting == (WaitingRow("k", "s", 1),)


def test_a_note_of_a_worker_that_was_stopped_is_not_believed():
    """Two shards: one raised outside of any entry, and the other was stopped in the middle of one."""
    text = "Traceback (most recent call last):\nOSError: no space left on device"
    assert suspected(text, Suspect("updates.s", 3)) is None
    assert suspected("Python worker exited unexpectedly (crashed)", Suspect("updates.s", 3)).position == 3


@pytest.mark.parametrize("kind", ["Fenced", "StateError", "Deleted", "LogError"])
def test_some_failures_are_final(kind):
    text = f"Traceback (most recent call last):\nx.{kind}: for good"
    assert Recovery().decide(text, None, True, [], 0).what == "stop"


def test_a_failure_that_names_no_entry_twice_is_final():
    recovery = Recovery()
    assert recovery.decide("a", None, True, [], 0).what == "retry"
    assert recovery.decide("a", None, False, [], 0).what == "stop"
    recovery = Recovery()
    assert recovery.decide("a", None, True, [], 0).what == "retry"
    assert recovery.decide("a", None, True, [], 0).what == "retry"  # it had gone on in between
    assert [recovery.decide("a", None, True, [], 0).what for _ in range(40)][-1] == "stop"


def test_a_worker_that_starts_too_slowly_says_nothing_of_the_batch():
    recovery, slow = Recovery(), "Python worker failed to connect back."
    assert recovery.decide("a", None, True, [], 0).what == "retry"
    assert recovery.decide(slow, None, False, [], 0).what == "retry"
    assert recovery.decide("a", Suspect("t", 3, "x"), False, [], 0).what == "retry"
    assert recovery.decide(slow, None, False, [], 0).what == "retry"
    assert recovery.decide("a", Suspect("t", 3, "x"), False, [], 0).what == "quarantine"
    assert [recovery.decide(slow, None, False, [], 0).what for _ in range(6)][-1] == "stop"  # not for ever


def test_two_entries_that_fail_in_turn_are_both_found():
    recovery = Recovery()
    recovery.decide("a", None, True, [], 0)
    first, second = Suspect("t", 3, "x"), Suspect("t", 5, "y")
    assert [recovery.decide("a", one, False, [], 0).what for one in (first, second, first)] == [
        "retry", "retry", "quarantine",
    ]  # fmt: skip


def test_rows_at_fault_are_none_where_the_entry_itself_is():
    class Stubborn(BoundedShard):
        def apply(self, batch):
            if any(entry.topic == "updates.traffic" for entry in batch):
                raise ZeroDivisionError
            return []

    pipeline = StreamPipeline()
    entry = Entry("updates.traffic", 0, 1, pack(clock_batch(1)))
    assert rows_at_fault(entry, lambda: Stubborn(pipeline.stream, 0, 1, "c")) is None
