"""A polled stream's shard, without Spark: what brute force answers, however the log is cut, after any crash."""

import json
import math
import random
from dataclasses import replace

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tolerant.client import Client, StatementClient
from tolerant.client.answer_listener import current_answers
from tolerant.kinds import shard_factory
from tolerant.kinds.polled.shard import PolledShard
from tolerant.polling import Poller
from tolerant.polling.pull_replay import advance_to, replay_pull
from tolerant.queries import Answer
from tolerant.sql import Catalogue, encode, parse
from tolerant.sql.polled_queries import PolledQueries, poller_options
from tolerant.streams import SECOND
from tolerant.testing.shard_history import ShardHistory
from tolerant.transport.memory import MemoryLog
from tolerant.transport.pulls import Pull, pulls_batch
from tolerant.transport.rows import STATEMENTS, clock_batch, unpack, updates_batch

QUOTES_TEXT = (
    "CREATE STREAM quotes (symbol STRING, price DOUBLE) KEY (symbol) FROM 'http://host/{symbol}'"
    " WITH (path = '$.price', max_interval = 4)"
)
QUOTES = parse(QUOTES_TEXT)
TOTAL = "CREATE QUERY total AS SELECT SUM(price) FROM quotes WHERE symbol IN ('A', 'B', 'C') WITHIN 2 FIDELITY 0.9"
EACH = (
    "CREATE QUERY each_one AS SELECT symbol, MAX(price) FROM quotes WHERE symbol IN ('B', 'C') GROUP BY symbol"
    " WITHIN 1 FIDELITY 0.95"
)
TOPICS = ["queries", "updates.quotes", "pulls.quotes"]
STALE = 12  # ticks: max_interval, the timeout, the latency and a little more
KNOWN = 10  # ticks of pulls after which an item is known


class Exchange:
    """A polled stream with its shard; `tick` moves time on by a second and lets the shard read."""

    def __init__(self, *texts):
        self.log, self.now, self.position = MemoryLog(), 1_000, 0
        self.shard, self.history = PolledShard(QUOTES.stream), ShardHistory()
        self.pulls = []
        for text in texts:
            self.send(text)

    def send(self, text):
        return StatementClient(self.log).send(parse(text))

    def pull(self, item, value, *, kind="value", behind=0.0):
        at = int((self.now - behind + 0.1) * SECOND)
        pull = Pull(item, at // SECOND, at, kind, value, "" if value is not None else "status 500", "poller")
        self.pulls.append(pull)
        self.log.append("pulls.quotes", pulls_batch([pull]))

    def tick(self, cut=None):
        self.now += 1
        self.log.append("updates.quotes", clock_batch(self.now * SECOND, 1, "checkpoint"))
        entries = self.log.read(TOPICS, self.position)
        for start in range(0, len(entries), cut or len(entries)):
            part = entries[start : start + (cut or len(entries))]
            outputs = self.shard.apply(part)
            self.log.append_packed([(output.topic, output.payload) for output in outputs])
            self.history.add(part)
            self.position = part[-1].position

    def restart(self):
        self.shard = PolledShard(QUOTES.stream)
        self.history.restore(self.shard)

    def fold(self):
        self.history.fold(self.shard.snapshot())

    def answer(self, query, group=""):
        found = [one for one in Client(self.log).current(query) if one.group == group]
        return found[0] if found else None

    def rows(self, topic):
        return [row for entry in self.log.read(topic) for row in unpack(entry.payload).to_pylist()]


def test_an_answer_is_the_values_pulled_with_the_tolerance_on_either_side():
    exchange = Exchange(QUOTES_TEXT, TOTAL)
    exchange.tick()
    exchange.pull("A", 1.0)
    exchange.tick()
    answer = exchange.answer("total")
    assert (answer.low, answer.value, answer.high, answer.settling, answer.stale) == (None, None, None, True, False)
    exchange.pull("B", 2.0)
    exchange.pull("C", 4.0)
    exchange.tick()
    assert exchange.answer("total") == Answer(
        "total", int((exchange.now - 0.5) * SECOND), 5.0, 7.0, 9.0, settling=True, fidelity=0.9, learning=True
    )
    exchange.pull("C", 4.0, kind="unchanged")
    before = len(exchange.rows("answers.total"))
    exchange.tick()
    assert len(exchange.rows("answers.total")) == before  # nothing new to say


def test_what_is_too_old_claims_nothing_until_it_is_pulled_again():
    exchange = known(Exchange(QUOTES_TEXT, TOTAL))
    assert exchange.answer("total").settled
    claims = []
    for _ in range(5):
        exchange.pull("A", 1.0)
        exchange.pull("B", 1.0)
        exchange.pull("C", None, kind="failed")
        exchange.tick()
        claims.append(exchange.answer("total").fidelity)
    assert claims == sorted(claims, reverse=True)
    assert claims[-1] < 0.8
    answer = exchange.answer("total")
    assert (answer.low, answer.value, answer.high, answer.stale) == (None, 3.0, None, True)
    exchange.pull("C", 5.0)
    exchange.pull("A", 1.0)
    exchange.pull("B", 1.0)
    exchange.tick()
    assert exchange.answer("total").settled
    assert exchange.answer("total").value == 7.0


def known(exchange):
    """Pull every item until its model is believed."""
    for _ in range(KNOWN):
        for item in "ABC":
            exchange.pull(item, 1.0)
        exchange.tick()
    return exchange


def test_no_pulls_at_all_do_what_failed_ones_do():
    """The poller is dead: only the clock goes on."""
    exchange = known(Exchange(QUOTES_TEXT, TOTAL))
    assert exchange.answer("total").settled
    for _ in range(STALE):
        exchange.tick()
    assert exchange.answer("total").stale
    when = next(row["at"] for row in exchange.rows("answers.total") if row["stale"]) / SECOND
    assert when - (exchange.now - STALE) < STALE - 3  # before the value is too old to answer with at all
    exchange.restart()
    known(exchange)
    assert exchange.answer("total").settled


def test_stale_after_is_what_the_stream_says():
    assert poller_options(QUOTES.stream)["stale_after"] == STALE
    text = QUOTES_TEXT.replace("max_interval = 4", "max_interval = 4, stale_after = '5 s', tick = '2 s'")
    assert poller_options(parse(text).stream)["stale_after"] == 2


def test_an_answer_learns_until_its_items_are_known():
    exchange = Exchange(QUOTES_TEXT, TOTAL)
    known(exchange)
    rows = exchange.rows("answers.total")
    learning = [row["learning"] for row in rows]
    assert learning[0]
    assert not learning[-1]
    assert all(row["settling"] == row["learning"] for row in rows)


def test_withheld_queries_say_nothing_while_they_cannot_promise():
    exchange = Exchange(QUOTES_TEXT, TOTAL + " OTHERWISE WITHHOLD")
    exchange.tick()
    assert exchange.rows("answers.total") == []
    known(exchange)
    for _ in range(STALE + 3):
        exchange.tick()
    assert {row["stale"] for row in exchange.rows("answers.total")} == {False}
    assert {row["learning"] for row in exchange.rows("answers.total")} == {False}


def test_queries_come_change_and_go():
    exchange = Exchange(QUOTES_TEXT, TOTAL)
    for item in "ABC":
        exchange.pull(item, 1.0)
    exchange.tick()
    exchange.send("ALTER QUERY total WITHIN 5")
    exchange.tick()
    assert (exchange.answer("total").low, exchange.answer("total").high) == (-2.0, 8.0)
    exchange.send(EACH)
    exchange.tick()
    assert exchange.answer("each_one", "B").value == 1.0
    exchange.send("DROP QUERY total")
    exchange.tick()
    assert current_answers(exchange.log, "total") == []
    assert exchange.shard.poller.items == ["B", "C"]
    exchange.send(TOTAL)
    exchange.tick()
    assert exchange.answer("total").settling  # A was forgotten


def test_fidelity_one_is_accepted_and_the_reply_says_what_it_means():
    exchange = Exchange(QUOTES_TEXT, TOTAL.replace("FIDELITY 0.9", ""))
    exchange.tick()
    (reply,) = exchange.rows("replies")
    assert reply["accepted"]
    assert "every tick" in reply["message"]
    assert exchange.rows("answers.total")[0]["fidelity"] == 0.9999


def test_bad_rows_are_buried_and_lose_nothing():
    exchange = Exchange(QUOTES_TEXT, TOTAL)
    exchange.tick()
    for item in "ABC":
        exchange.pull(item, 1.0)
    at = exchange.now * SECOND
    bad = [
        Pull("A", 0, at, "value", math.nan, "", "p"),
        Pull("A", 0, at, "guess", 1.0, "", "p"),
        Pull("A", 0, at + 3600 * SECOND, "value", 9.0, "", "p"),
    ]
    exchange.log.append("pulls.quotes", pulls_batch(bad))
    exchange.log.append("pulls.quotes", pa.record_batch({"x": [1]}))
    exchange.log.append("updates.quotes", pa.record_batch({"x": [1]}))
    exchange.tick()
    assert exchange.answer("total").value == 3.0
    reasons = [row["reason"] for row in exchange.rows("dead_letters.quotes")]
    assert len(reasons) == 5
    assert any("finite" in reason for reason in reasons)
    assert any("ahead of the pipeline's clock" in reason for reason in reasons)


def test_a_late_pull_counts_at_once():
    exchange = Exchange(QUOTES_TEXT, TOTAL)
    for item in "ABC":
        exchange.pull(item, 1.0)
    exchange.tick()
    exchange.tick()
    exchange.pull("C", 3.0, behind=1.0)
    exchange.tick()
    assert exchange.answer("total").value == 5.0
    assert exchange.shard._counters["late"] == 1
    exchange.fold()
    exchange.restart()
    for _ in range(12):
        exchange.tick()
    summary = json.loads(exchange.log.latest("status.quotes", "summary/0").body)
    assert summary["late_sources"] == {"poller": [1, int(0.9 * SECOND)]}


def test_pollers_beyond_the_limit_are_refused_with_their_pulls_and_rows():
    exchange = Exchange(QUOTES_TEXT, TOTAL)
    exchange.shard = PolledShard(parse(f"{QUOTES_TEXT[:-1]}, max_sources = 1)").stream)
    for item in "ABC":
        exchange.pull(item, 1.0)
    exchange.tick()
    other = replace(exchange.pulls[-1], source="other", value=500.0)
    exchange.log.append("pulls.quotes", pulls_batch([other]))
    before = exchange.shard.watermark
    heartbeat = updates_batch(
        kind="heartbeat", keys=[""], at=[other.at], source="third", sequence=[1], through=other.at, value=[0.0]
    )
    exchange.log.append("updates.quotes", heartbeat)
    exchange.pull("C", 2.0)
    exchange.tick()
    assert [(row["source"], row["reason"]) for row in exchange.rows("dead_letters.quotes")] == [
        ("other", "the stream has 1 sources, the most it may have"),
        ("third", "the stream has 1 sources, the most it may have"),
    ]
    assert exchange.answer("total").value == 4.0
    assert exchange.shard._heard.keys() == {"poller"}
    assert exchange.shard.watermark == before + SECOND  # the limit is not for clock rows, which name their pipeline


def test_the_pollers_of_one_entry_are_limited_too():
    exchange = Exchange(QUOTES_TEXT, TOTAL)
    exchange.shard = PolledShard(parse(f"{QUOTES_TEXT[:-1]}, max_sources = 2)").stream)
    exchange.pull("A", 1.0)
    many = [replace(exchange.pulls[0], source=f"p{number}") for number in range(5)]
    exchange.log.append("pulls.quotes", pulls_batch(many))
    exchange.tick()
    assert exchange.shard._heard.keys() == {"poller", "p0"}
    assert len(exchange.rows("dead_letters.quotes")) == 4


def test_the_fidelity_delivered_so_far_is_told():
    exchange, chance = Exchange(QUOTES_TEXT, TOTAL), random.Random(3)
    poller, level = Poller(PolledQueries(QUOTES.stream).of(catalogue(TOTAL)), **poller_options(QUOTES.stream)), 0.0
    for _ in range(450):
        level += chance.gauss(0, 0.3)
        for item in poller.due(exchange.now):
            exchange.pull(item, level)
            poller.pulled(item, level, exchange.now)
        exchange.tick()
    answer = exchange.answer("total")
    assert 0.8 < answer.delivered <= 1.0
    # The pipeline knows what the poller knows.
    for _ in advance_to(poller, exchange.shard.poller.now):
        pass
    assert answer.delivered == pytest.approx(poller.current()[0].fidelity)
    assert exchange.shard.poller.due(exchange.now) == poller.due(exchange.now)


STEPS = st.one_of(
    st.tuples(st.just("pull"), st.sampled_from("ABCX"), st.floats(-5, 5), st.sampled_from([0.0, 0.3, 2.0])),
    st.tuples(st.just("fail"), st.sampled_from("ABC")),
    st.tuples(st.just("tick"), st.sampled_from([None, 1, 2])),
    st.tuples(st.just("say"), st.sampled_from([EACH, "DROP QUERY each_one", "ALTER QUERY total WITHIN 3"])),
    st.tuples(st.just("restart")),
    st.tuples(st.just("fold")),
)


@settings(deadline=None, max_examples=40)
@given(steps=st.lists(STEPS, max_size=40))
def test_the_same_log_gives_the_same_answers_however_it_is_cut(steps):
    exchange = Exchange(QUOTES_TEXT, TOTAL)
    for step in steps:
        match step:
            case ("pull", item, value, behind):
                exchange.pull(item, value, behind=behind)
            case ("fail", item):
                exchange.pull(item, None, kind="failed")
            case ("tick", cut):
                exchange.tick(cut)
            case ("say", text):
                exchange.log.append("queries", statement(text))
            case ("restart",):
                exchange.restart()
            case ("fold",):
                exchange.fold()
    exchange.tick()
    exchange.tick()
    anew = PolledShard(QUOTES.stream)
    said = anew.apply(exchange.log.read(TOPICS))
    topics = ("answers.total", "answers.each_one", "dead_letters.quotes", "replies")
    for topic in topics:
        once = [row for output in said if output.topic == topic for row in unpack(output.payload).to_pylist()]
        assert once == exchange.rows(topic)
    again = PolledShard(QUOTES.stream)
    again.restore(exchange.shard.snapshot())
    assert again.snapshot() == exchange.shard.snapshot()
    check_values(exchange)


def check_values(exchange):
    """What is answered last is the sum of what was pulled last, in the order of the ticks."""
    newest = {}
    for pull in exchange.pulls:  # as they arrived: of one tick the later one counts
        if pull.value is not None and pull.tick >= newest.get(pull.item, (0, 0.0))[0]:
            newest[pull.item] = (pull.tick, pull.value)
    answer = exchange.answer("total")
    if any(item not in newest for item in "ABC"):
        assert answer.settling
    else:
        assert answer.value == pytest.approx(sum(newest[item][1] for item in "ABC"))
        if any(exchange.shard.poller.now - newest[item][0] > STALE for item in "ABC"):
            assert answer.stale
        if answer.settled:
            assert answer.fidelity <= 0.9


def test_a_polled_stream_has_its_own_kind_of_shard():
    assert isinstance(shard_factory(QUOTES.stream, 1, "c")(0), PolledShard)


def catalogue(*texts):
    return Catalogue(parse(text) for text in (QUOTES_TEXT, *texts))


def statement(text):
    """A statement as the log has it, unchecked: a pipeline may have to refuse it."""
    said = parse(text)
    row = {"kind": said.kind, "key": said.about, "request": "r", "text": text, "body": encode(said)}
    return pa.RecordBatch.from_pylist([row], STATEMENTS)


def test_learning_needs_a_query_that_refers_to_the_item():
    poller = Poller()
    assert not replay_pull(poller, Pull("A", 0, 0, "value", 1.0))
