"""One shard through everything that can happen to it, each in a few lines; the simulator does it at random."""

import numpy as np
import pytest
from rig import START, TRAFFIC, Rig, key

from tolerant.kernels.versions import version
from tolerant.kinds.bounded.shard import BoundedShard
from tolerant.streams import SECOND
from tolerant.transport.rows import NO_TIME, clock_batch, updates_batch

AVERAGE = "CREATE QUERY load AS SELECT AVG(rate) FROM traffic WITHIN 5"


def settled(*statements: str, stream: str = TRAFFIC, **values: float) -> Rig:
    """A rig whose queries have settled on these values of one source."""
    rig = Rig(*statements, stream=stream)
    rig.start("edge")
    rig.set("edge", **(values or {"a": 10.0, "b": 20.0}))
    rig.tick(4)
    return rig


def last(rig: Rig, query: str = "load", group: str = "") -> tuple:
    answer = rig.answers(query, group)[-1]
    return answer.low, answer.value, answer.high, answer.settled


def test_a_query_settles_once_its_widths_are_confirmed() -> None:
    rig = settled(AVERAGE)
    answers = rig.answers("load")
    assert [answer.settled for answer in answers][-1]
    assert (answers[-1].low, answers[-1].value, answers[-1].high) == (10, 15, 20)
    assert all(answer.settling for answer in answers if answer.low is None and answer.value is not None)
    assert rig.rows("replies")[0]["accepted"]


def test_a_value_inside_its_filter_is_not_sent_and_one_outside_moves_the_answer() -> None:
    rig = settled(AVERAGE)
    before = rig.log.end()
    rig.set("edge", a=14.9)
    assert rig.log.end() == before
    rig.set("edge", a=15.1)
    rig.tick(2)
    assert last(rig)[1] == pytest.approx(17.55)


def test_altering_takes_effect_in_both_directions() -> None:
    rig = settled(AVERAGE, stream=f"{TRAFFIC} WITH (policy = 'adaptive')")
    rig.say("ALTER QUERY load WITHIN 1")
    rig.tick()
    assert rig.answers("load")[-1].settling
    rig.tick(3)
    assert last(rig) == (14, 15, 16, True)
    rig.say("ALTER QUERY load WITHIN 50")
    rig.tick()
    assert last(rig)[3]
    rig.tick(25)
    low, _, high, good = last(rig)
    assert good
    assert high - low > 50


def test_dropped_queries_let_their_items_go_silent_and_can_come_back() -> None:
    rig = settled(AVERAGE)
    rig.say("DROP QUERY load")
    rig.tick(2)
    before = rig.log.end()
    rig.set("edge", a=1e6)
    assert rig.log.end() == before
    assert not [row for row in rig.rows("current.load") if row["body"] is not None]
    rig.say(AVERAGE)
    rig.tick(4)
    assert last(rig) == (500_005, 500_010, 500_015, True)


def test_a_name_that_is_taken_is_refused_and_the_same_statement_changes_nothing() -> None:
    rig = settled(AVERAGE)
    rig.say(AVERAGE)
    rig.say("CREATE QUERY load AS SELECT SUM(rate) FROM traffic WITHIN 5")
    rig.tick()
    assert [(reply["accepted"], reply["message"][:9]) for reply in rig.rows("replies")][1] == (True, "unchanged")
    assert not rig.rows("replies")[2]["accepted"]


def test_groups_appear_with_their_first_item_and_each_is_a_query() -> None:
    rig = settled("CREATE QUERY each AS SELECT SUM(rate) FROM traffic GROUP BY host WITHIN 2", a=1.0)
    assert last(rig, "each", "a") == (-1, 1, 3, True)
    rig.set("edge", b=7.0)
    rig.tick(4)
    assert last(rig, "each", "b") == (5, 7, 9, True)


def test_of_several_shards_only_the_one_with_the_items_answers() -> None:
    sharded = TRAFFIC + " WITH (shards = 2, shard = host)"
    rig = Rig("CREATE QUERY n AS SELECT COUNT(*) FROM traffic WHERE host = 'a' WITHIN 0", stream=sharded)
    rig.tick(2)
    assert rig.answers("n") == []
    rig.start("edge")
    rig.set("edge", a=1.0)
    rig.tick(2)
    assert [answer.value for answer in rig.answers("n")] == [1]


def test_a_count_follows_items_at_once() -> None:
    rig = settled("CREATE QUERY n AS SELECT COUNT(*) FROM traffic WITHIN 0")
    rig.set("edge", c=1.0)
    rig.tick(2)
    rig.sources["edge"].remove(int(rig.sources["edge"].register([key("a")])[0]), rig.now)
    rig.flush("edge")
    rig.tick(2)
    assert [answer.value for answer in rig.answers("n")] == [2, 3, 2]


def test_weights_and_conditions_choose_the_items() -> None:
    rig = settled(
        "CREATE QUERY few AS SELECT SUM(2 * rate) FROM traffic WHERE host IN ('a', 'c') WITHIN 1", a=3.0, b=9.0
    )
    assert last(rig, "few") == (5, 6, 7, True)


def test_withheld_answers_are_not_said_until_they_settle() -> None:
    rig = settled(AVERAGE + " OTHERWISE WITHHOLD")
    assert all(answer.settled for answer in rig.answers("load"))
    assert last(rig) == (10, 15, 20, True)


def test_a_silent_source_makes_its_items_stale_from_the_end_of_its_lease() -> None:
    rig = settled(AVERAGE)
    heard = max(row["at"] for row in rig.rows("updates.traffic") if row["kind"] != "clock")
    rig.sources.clear()
    rig.tick(15)
    stale = next(answer for answer in rig.answers("load") if answer.stale)
    assert stale.at == heard + rig.stream.options.lease + 1


def test_a_source_that_restarts_is_stale_until_each_item_is_heard() -> None:
    rig = settled(AVERAGE)
    old = rig.sources["edge"]
    rig.start("edge", epoch=2)
    rig.deliver()
    rig.set("edge", a=11.0)
    rig.tick(2)
    assert rig.answers("load")[-1].stale, "b has not been heard since"
    rig.set("edge", b=21.0)
    rig.tick(3)
    assert last(rig)[3]
    assert old is not rig.sources["edge"]


def test_a_late_row_is_counted_and_applied_at_once() -> None:
    rig = settled(AVERAGE)
    at, sequence = rig.now, version(1, 1000)
    rig.tick(5)
    grant = rig.sources["edge"].filter_of(key("a")).version
    late = updates_batch(
        kind="update",
        keys=[key("a")],
        at=[at],
        source="edge",
        sequence=[sequence],
        through=at,
        value=[40.0],
        grant=[grant],
    )
    rig.log.append("updates.traffic", late)
    rig.tick(10)
    assert rig.answers("load")[-1].value == 30
    assert rig.summary()["late"] == 1
    assert rig.summary()["queries"]["load"]["late_us"] > 4 * SECOND


def test_a_backlog_after_downtime_makes_nothing_late() -> None:
    rig = settled(AVERAGE)
    for step in range(200):
        rig.now += SECOND
        rig.set("edge", a=float(step))
        rig.sources["edge"].advance(rig.now)
        rig.flush("edge")
    rig.tick(10)
    assert rig.summary()["late"] == 0
    assert last(rig)[3]


def test_a_row_from_the_future_is_a_dead_letter_and_shakes_the_width() -> None:
    rig = settled(AVERAGE)
    at = rig.now + 60 * SECOND
    newest = max(row["sequence"] for row in rig.rows("updates.traffic") if row["kind"] != "clock")
    row = updates_batch(
        kind="update", keys=[key("a")], at=[at], source="edge", sequence=[newest], through=at, value=[1.0]
    )
    rig.log.append("updates.traffic", row)
    rig.tick()
    assert "ahead" in rig.rows("dead_letters.traffic")[0]["reason"]
    assert rig.answers("load")[-1].settling
    rig.tick(15)
    assert last(rig)[3]
    assert rig.summary()["sources"]["edge"]["skew"] > 50 * SECOND


@pytest.mark.parametrize("count", [False, True])
def test_an_item_whose_first_row_is_from_the_future_is_waited_for(count: bool) -> None:
    rig = settled(AVERAGE.replace("AVG", "COUNT").replace("WITHIN 5", "WITHIN 0") if count else AVERAGE)
    truth = 3 if count else 20
    rig.start("ahead")
    rig.now += 20 * SECOND
    rig.set("ahead", c=30.0)  # never changes again, so it is not sent again
    rig.now -= 20 * SECOND
    rig.tick()
    assert "ahead" in rig.rows("dead_letters.traffic")[0]["reason"]
    assert not last(rig)[3]
    rig.tick(40)
    assert last(rig)[3]
    assert last(rig)[1] == truth
    assert all(answer.value == truth for answer in rig.answers("load") if answer.settled and answer.at > rig.now)


def test_a_row_from_the_future_is_found_after_the_rows_before_it() -> None:
    rig = settled(AVERAGE)
    rig.set("edge", a=100.0)
    at = rig.now + 60 * SECOND
    ahead = {"at": [at], "source": "edge", "sequence": [version(1, 900)], "through": at, "value": [7.0]}
    rig.log.append("updates.traffic", updates_batch(kind="update", keys=[key("b")], **ahead))
    rig.tick()
    assert [answer.value for answer in rig.answers("load")][-1] == 60
    assert rig.answers("load")[-1].settling


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"value": [np.nan]}, "finite"),
        ({"kind": "nonsense"}, "kind"),
        ({"keys": ["no json"]}, "key"),
        ({"keys": ['["a", 3]']}, "kind must be STRING"),
        ({"sequence": [0]}, "sequence"),
    ],
)
def test_a_row_that_cannot_be_used_is_a_dead_letter_and_the_rest_goes_on(change: dict, reason: str) -> None:
    rig = settled(AVERAGE)
    row = {
        "kind": "update",
        "keys": [key("a")],
        "at": [rig.now],
        "source": "edge",
        "sequence": [version(1, 900)],
        "through": rig.now,
        "value": [1.0],
    }
    rig.log.append("updates.traffic", updates_batch(**(row | change)))
    rig.set("edge", b=90.0)
    rig.tick(2)
    assert reason in rig.rows("dead_letters.traffic")[0]["reason"]
    assert rig.answers("load")[-1].value == 50


def test_bytes_that_are_no_batch_are_a_dead_letter() -> None:
    rig = settled(AVERAGE)
    rig.log.append_packed([("updates.traffic", b"not arrow"), ("queries", b"not arrow either")])
    rig.set("edge", b=90.0)
    rig.tick(2)
    assert len(rig.rows("dead_letters.traffic")) == 2
    assert rig.answers("load")[-1].value == 50


def test_a_repeated_row_is_dropped() -> None:
    rig = settled(AVERAGE)
    entries = rig.log.read("updates.traffic")
    rig.set("edge", a=30.0)
    rig.log.append_packed([(entry.topic, entry.payload) for entry in entries if b"hello" in entry.payload])
    rig.tick(12)
    assert rig.answers("load")[-1].value == 25
    assert rig.summary()["duplicates"] >= 2


def test_a_repeated_row_does_not_bring_back_an_item_that_is_gone() -> None:
    rig = settled("CREATE QUERY n AS SELECT COUNT(*) FROM traffic WITHIN 0")
    entries = rig.log.read("updates.traffic")
    rig.sources["edge"].remove(int(rig.sources["edge"].register([key("a")])[0]), rig.now)
    rig.flush("edge")
    rig.tick(2)
    rig.log.append_packed([(entry.topic, entry.payload) for entry in entries if b"hello" in entry.payload])
    rig.tick(2)
    assert rig.answers("n")[-1].value == 1


def test_an_item_changes_hands_by_a_hello_only() -> None:
    rig = settled(AVERAGE)
    rig.start("other")
    rig.set("other", a=50.0)
    rig.tick(4)
    assert last(rig)[1] == 35
    rig.set("edge", a=99.0)
    rig.tick(2)
    assert last(rig)[1] == 35
    assert "belongs to source 'other'" in rig.rows("dead_letters.traffic")[0]["reason"]


def test_a_row_that_could_not_be_used_is_only_made_good_by_a_later_one() -> None:
    rig = settled(AVERAGE)
    at, grant = rig.now, rig.sources["edge"].filter_of(key("a")).version
    row = {"kind": "update", "keys": [key("a")], "source": "edge", "through": at, "grant": [grant]}
    for number, value in ((901, np.nan), (900, 30.0)):
        rig.log.append("updates.traffic", updates_batch(**row, at=[at], sequence=[version(1, number)], value=[value]))
    rig.tick(2)
    assert rig.answers("load")[-1].value == 25
    assert rig.answers("load")[-1].settling


def test_another_pipelines_clock_moves_no_time_and_makes_widths_unknown() -> None:
    rig = settled(AVERAGE)
    watermark = rig.shard.watermark
    rig.clock(rig.now + 100 * SECOND, epoch=2, checkpoint="another")
    rig.read()
    assert rig.shard.watermark == watermark
    assert rig.answers("load")[-1].settling


def test_a_newer_epoch_numbers_the_grants_from_then_on() -> None:
    rig = settled(AVERAGE)
    rig.clock(NO_TIME, epoch=7)
    rig.say("ALTER QUERY load WITHIN 1")
    rig.tick(4)
    newest = max(row["version"] for row in rig.rows("grants.traffic"))
    assert newest >> 40 == 7
    assert last(rig) == (14, 15, 16, True)


def test_trace_time_is_anybodys() -> None:
    rig = Rig(AVERAGE)
    rig.start("edge")
    rig.set("edge", a=1.0)
    for expected in (None, START + 2 * SECOND - rig.stream.options.latency):  # the first waits for another
        rig.log.append("updates.traffic", clock_batch(START + 2 * SECOND))
        rig.read()
        assert rig.shard.watermark == expected


def test_restoring_and_going_on_equals_going_on() -> None:
    rig = settled(AVERAGE, "CREATE QUERY top AS SELECT MAX(rate) FROM traffic WITHIN 2")
    twin = BoundedShard(rig.stream, 0, 1, "checkpoint")
    twin.restore(rig.shard.snapshot())
    rng = np.random.default_rng(1)
    for _ in range(30):
        rig.set("edge", a=float(rng.normal(0, 20)), b=float(rng.normal(0, 20)))
        rig.now += SECOND
        rig.deliver()
        rig.clock()
        entries = sorted(
            (e for topic in ("queries", "updates.traffic") for e in rig.log.read(topic, rig.position)),
            key=lambda entry: entry.position,
        )
        rig.position = entries[-1].position
        outputs = rig.shard.apply(entries)
        rig.log.append_packed([(output.topic, output.payload) for output in outputs])
        again = twin.apply(entries)
        assert again == outputs
        third = BoundedShard(rig.stream, 0, 1, "checkpoint")
        third.restore(twin.snapshot())
        assert third.snapshot() == rig.shard.snapshot()
