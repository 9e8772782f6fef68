"""One shard through everything that can happen to it, each in a few lines; the simulator does it at random."""

import numpy as np
import pytest
from stream_pipeline import START, TRAFFIC, StreamPipeline, key

from tolerant.kernels.versions import version
from tolerant.kinds.bounded.shard import BoundedShard
from tolerant.sql import parse
from tolerant.streams import SECOND
from tolerant.transport.rows import NO_TIME, clock_batch, updates_batch

AVERAGE = "CREATE QUERY load AS SELECT AVG(rate) FROM traffic WITHIN 5"


def settled(*statements: str, stream: str = TRAFFIC, **values: float) -> StreamPipeline:
    """A pipeline whose queries have settled on these values of one source."""
    pipeline = StreamPipeline(*statements, stream=stream)
    pipeline.start_source("edge")
    pipeline.set("edge", **(values or {"a": 10.0, "b": 20.0}))
    pipeline.tick(4)
    return pipeline


def last(pipeline: StreamPipeline, query: str = "load", group: str = "") -> tuple:
    answer = pipeline.answers(query, group)[-1]
    return answer.low, answer.value, answer.high, answer.settled


def test_a_query_settles_once_its_widths_are_confirmed() -> None:
    pipeline = settled(AVERAGE)
    answers = pipeline.answers("load")
    assert [answer.settled for answer in answers][-1]
    assert (answers[-1].low, answers[-1].value, answers[-1].high) == (10, 15, 20)
    assert all(answer.settling for answer in answers if answer.low is None and answer.value is not None)
    assert pipeline.rows("replies")[0]["accepted"]


def test_a_value_inside_its_filter_is_not_sent_and_one_outside_moves_the_answer() -> None:
    pipeline = settled(AVERAGE)
    before = pipeline.log.end()
    pipeline.set("edge", a=14.9)
    assert pipeline.log.end() == before
    pipeline.set("edge", a=15.1)
    pipeline.tick(2)
    assert last(pipeline)[1] == pytest.approx(17.55)


def test_altering_takes_effect_in_both_directions() -> None:
    pipeline = settled(AVERAGE, stream=f"{TRAFFIC} WITH (policy = 'adaptive')")
    pipeline.send(parse("ALTER QUERY load WITHIN 1"))
    pipeline.tick()
    assert pipeline.answers("load")[-1].settling
    pipeline.tick(3)
    assert last(pipeline) == (14, 15, 16, True)
    pipeline.send(parse("ALTER QUERY load WITHIN 50"))
    pipeline.tick()
    assert last(pipeline)[3]
    pipeline.tick(25)
    low, _, high, good = last(pipeline)
    assert good
    assert high - low > 50


def test_dropped_queries_let_their_items_go_silent_and_can_come_back() -> None:
    pipeline = settled(AVERAGE)
    pipeline.send(parse("DROP QUERY load"))
    pipeline.tick(2)
    before = pipeline.log.end()
    pipeline.set("edge", a=1e6)
    assert pipeline.log.end() == before
    assert not [row for row in pipeline.rows("current.load") if row["body"] is not None]
    pipeline.send(parse(AVERAGE))
    pipeline.tick(4)
    assert last(pipeline) == (500_005, 500_010, 500_015, True)


def test_a_name_that_is_taken_is_refused_and_the_same_statement_changes_nothing() -> None:
    pipeline = settled(AVERAGE)
    pipeline.send(parse(AVERAGE))
    pipeline.send(parse("CREATE QUERY load AS SELECT SUM(rate) FROM traffic WITHIN 5"))
    pipeline.tick()
    assert [(reply["accepted"], reply["message"][:9]) for reply in pipeline.rows("replies")][1] == (True, "unchanged")
    assert not pipeline.rows("replies")[2]["accepted"]


def test_groups_appear_with_their_first_item_and_each_is_a_query() -> None:
    pipeline = settled("CREATE QUERY each AS SELECT SUM(rate) FROM traffic GROUP BY host WITHIN 2", a=1.0)
    assert last(pipeline, "each", "a") == (-1, 1, 3, True)
    pipeline.set("edge", b=7.0)
    pipeline.tick(4)
    assert last(pipeline, "each", "b") == (5, 7, 9, True)


def test_of_several_shards_only_the_one_with_the_items_answers() -> None:
    sharded = TRAFFIC + " WITH (shards = 2, shard = host)"
    pipeline = StreamPipeline(
        "CREATE QUERY n AS SELECT COUNT(*) FROM traffic WHERE host = 'a' WITHIN 0", stream=sharded
    )
    pipeline.tick(2)
    assert pipeline.answers("n") == []
    pipeline.start_source("edge")
    pipeline.set("edge", a=1.0)
    pipeline.tick(2)
    assert [answer.value for answer in pipeline.answers("n")] == [1]


def test_a_count_follows_items_at_once() -> None:
    pipeline = settled("CREATE QUERY n AS SELECT COUNT(*) FROM traffic WITHIN 0")
    pipeline.set("edge", c=1.0)
    pipeline.tick(2)
    pipeline.sources["edge"].remove(int(pipeline.sources["edge"].register([key("a")])[0]), pipeline.now)
    pipeline.append_updates("edge")
    pipeline.tick(2)
    assert [answer.value for answer in pipeline.answers("n")] == [2, 3, 2]


def test_weights_and_conditions_choose_the_items() -> None:
    pipeline = settled(
        "CREATE QUERY few AS SELECT SUM(2 * rate) FROM traffic WHERE host IN ('a', 'c') WITHIN 1", a=3.0, b=9.0
    )
    assert last(pipeline, "few") == (5, 6, 7, True)


def test_withheld_answers_are_not_said_until_they_settle() -> None:
    pipeline = settled(AVERAGE + " OTHERWISE WITHHOLD")
    assert all(answer.settled for answer in pipeline.answers("load"))
    assert last(pipeline) == (10, 15, 20, True)


def test_a_silent_source_makes_its_items_stale_from_the_end_of_its_lease() -> None:
    pipeline = settled(AVERAGE)
    heard = max(row["at"] for row in pipeline.rows("updates.traffic") if row["kind"] != "clock")
    pipeline.sources.clear()
    pipeline.tick(15)
    stale = next(answer for answer in pipeline.answers("load") if answer.stale)
    assert stale.at == heard + pipeline.stream.options.lease + 1


def test_a_source_that_restarts_is_stale_until_each_item_is_heard() -> None:
    pipeline = settled(AVERAGE)
    old = pipeline.sources["edge"]
    pipeline.start_source("edge", epoch=2)
    pipeline.advance()
    pipeline.set("edge", a=11.0)
    pipeline.tick(2)
    assert pipeline.answers("load")[-1].stale, "b has not been heard since"
    pipeline.set("edge", b=21.0)
    pipeline.tick(3)
    assert last(pipeline)[3]
    assert old is not pipeline.sources["edge"]


def test_a_late_row_is_counted_and_applied_at_once() -> None:
    pipeline = settled(AVERAGE)
    at, sequence = pipeline.now, version(1, 1000)
    pipeline.tick(5)
    grant = pipeline.sources["edge"].filter_of(key("a")).version
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
    pipeline.log.append("updates.traffic", late)
    pipeline.tick(10)
    assert pipeline.answers("load")[-1].value == 30
    assert pipeline.summary()["late"] == 1
    assert pipeline.summary()["queries"]["load"]["late_us"] > 4 * SECOND


def test_a_backlog_after_downtime_makes_nothing_late() -> None:
    pipeline = settled(AVERAGE)
    for step in range(200):
        pipeline.now += SECOND
        pipeline.set("edge", a=float(step))
        pipeline.sources["edge"].advance(pipeline.now)
        pipeline.append_updates("edge")
    pipeline.tick(10)
    assert pipeline.summary()["late"] == 0
    assert last(pipeline)[3]


def test_a_row_from_the_future_is_a_dead_letter_and_shakes_the_width() -> None:
    pipeline = settled(AVERAGE)
    at = pipeline.now + 60 * SECOND
    newest = max(row["sequence"] for row in pipeline.rows("updates.traffic") if row["kind"] != "clock")
    row = updates_batch(
        kind="update", keys=[key("a")], at=[at], source="edge", sequence=[newest], through=at, value=[1.0]
    )
    pipeline.log.append("updates.traffic", row)
    pipeline.tick()
    assert "ahead" in pipeline.rows("dead_letters.traffic")[0]["reason"]
    assert pipeline.answers("load")[-1].settling
    pipeline.tick(15)
    assert last(pipeline)[3]
    assert pipeline.summary()["sources"]["edge"]["skew"] > 50 * SECOND


@pytest.mark.parametrize("count", [False, True])
def test_an_item_whose_first_row_is_from_the_future_is_waited_for(count: bool) -> None:
    pipeline = settled(AVERAGE.replace("AVG", "COUNT").replace("WITHIN 5", "WITHIN 0") if count else AVERAGE)
    truth = 3 if count else 20
    pipeline.start_source("ahead")
    pipeline.now += 20 * SECOND
    pipeline.set("ahead", c=30.0)  # never changes again, so it is not sent again
    pipeline.now -= 20 * SECOND
    pipeline.tick()
    assert "ahead" in pipeline.rows("dead_letters.traffic")[0]["reason"]
    assert not last(pipeline)[3]
    pipeline.tick(40)
    assert last(pipeline)[3]
    assert last(pipeline)[1] == truth
    assert all(
        answer.value == truth for answer in pipeline.answers("load") if answer.settled and answer.at > pipeline.now
    )


def test_a_row_from_the_future_is_found_after_the_rows_before_it() -> None:
    pipeline = settled(AVERAGE)
    pipeline.set("edge", a=100.0)
    at = pipeline.now + 60 * SECOND
    ahead = {"at": [at], "source": "edge", "sequence": [version(1, 900)], "through": at, "value": [7.0]}
    pipeline.log.append("updates.traffic", updates_batch(kind="update", keys=[key("b")], **ahead))
    pipeline.tick()
    assert [answer.value for answer in pipeline.answers("load")][-1] == 60
    assert pipeline.answers("load")[-1].settling


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
    pipeline = settled(AVERAGE)
    row = {
        "kind": "update",
        "keys": [key("a")],
        "at": [pipeline.now],
        "source": "edge",
        "sequence": [version(1, 900)],
        "through": pipeline.now,
        "value": [1.0],
    }
    pipeline.log.append("updates.traffic", updates_batch(**(row | change)))
    pipeline.set("edge", b=90.0)
    pipeline.tick(2)
    assert reason in pipeline.rows("dead_letters.traffic")[0]["reason"]
    assert pipeline.answers("load")[-1].value == 50


def test_bytes_that_are_no_batch_are_a_dead_letter() -> None:
    pipeline = settled(AVERAGE)
    pipeline.log.append_packed([("updates.traffic", b"not arrow"), ("queries", b"not arrow either")])
    pipeline.set("edge", b=90.0)
    pipeline.tick(2)
    assert len(pipeline.rows("dead_letters.traffic")) == 2
    assert pipeline.answers("load")[-1].value == 50


def test_a_repeated_row_is_dropped() -> None:
    pipeline = settled(AVERAGE)
    entries = pipeline.log.read("updates.traffic")
    pipeline.set("edge", a=30.0)
    pipeline.log.append_packed([(entry.topic, entry.payload) for entry in entries if b"hello" in entry.payload])
    pipeline.tick(12)
    assert pipeline.answers("load")[-1].value == 25
    assert pipeline.summary()["duplicates"] >= 2


def test_a_repeated_row_does_not_bring_back_an_item_that_is_gone() -> None:
    pipeline = settled("CREATE QUERY n AS SELECT COUNT(*) FROM traffic WITHIN 0")
    entries = pipeline.log.read("updates.traffic")
    pipeline.sources["edge"].remove(int(pipeline.sources["edge"].register([key("a")])[0]), pipeline.now)
    pipeline.append_updates("edge")
    pipeline.tick(2)
    pipeline.log.append_packed([(entry.topic, entry.payload) for entry in entries if b"hello" in entry.payload])
    pipeline.tick(2)
    assert pipeline.answers("n")[-1].value == 1


def test_an_item_changes_hands_by_a_hello_only() -> None:
    pipeline = settled(AVERAGE)
    pipeline.start_source("other")
    pipeline.set("other", a=50.0)
    pipeline.tick(4)
    assert last(pipeline)[1] == 35
    pipeline.set("edge", a=99.0)
    pipeline.tick(2)
    assert last(pipeline)[1] == 35
    assert "belongs to source 'other'" in pipeline.rows("dead_letters.traffic")[0]["reason"]


def test_a_row_that_could_not_be_used_is_only_made_good_by_a_later_one() -> None:
    pipeline = settled(AVERAGE)
    at, grant = pipeline.now, pipeline.sources["edge"].filter_of(key("a")).version
    row = {"kind": "update", "keys": [key("a")], "source": "edge", "through": at, "grant": [grant]}
    for number, value in ((901, np.nan), (900, 30.0)):
        pipeline.log.append(
            "updates.traffic", updates_batch(**row, at=[at], sequence=[version(1, number)], value=[value])
        )
    pipeline.tick(2)
    assert pipeline.answers("load")[-1].value == 25
    assert pipeline.answers("load")[-1].settling


def test_another_pipelines_clock_moves_no_time_and_makes_widths_unknown() -> None:
    pipeline = settled(AVERAGE)
    watermark = pipeline.shard.watermark
    pipeline.clock(pipeline.now + 100 * SECOND, epoch=2, checkpoint="another")
    pipeline.read()
    assert pipeline.shard.watermark == watermark
    assert pipeline.answers("load")[-1].settling


def test_a_newer_epoch_numbers_the_grants_from_then_on() -> None:
    pipeline = settled(AVERAGE)
    pipeline.clock(NO_TIME, epoch=7)
    pipeline.send(parse("ALTER QUERY load WITHIN 1"))
    pipeline.tick(4)
    newest = max(row["version"] for row in pipeline.rows("grants.traffic"))
    assert newest >> 40 == 7
    assert last(pipeline) == (14, 15, 16, True)


def test_trace_time_is_anybodys() -> None:
    pipeline = StreamPipeline(AVERAGE)
    pipeline.start_source("edge")
    pipeline.set("edge", a=1.0)
    for expected in (None, START + 2 * SECOND - pipeline.stream.options.latency):  # the first waits for another
        pipeline.log.append("updates.traffic", clock_batch(START + 2 * SECOND))
        pipeline.read()
        assert pipeline.shard.watermark == expected


def test_restoring_and_going_on_equals_going_on() -> None:
    pipeline = settled(AVERAGE, "CREATE QUERY top AS SELECT MAX(rate) FROM traffic WITHIN 2")
    twin = BoundedShard(pipeline.stream, 0, 1, "checkpoint")
    twin.restore(pipeline.shard.snapshot())
    rng = np.random.default_rng(1)
    for _ in range(30):
        pipeline.set("edge", a=float(rng.normal(0, 20)), b=float(rng.normal(0, 20)))
        pipeline.now += SECOND
        pipeline.advance()
        pipeline.clock()
        entries = sorted(
            (e for topic in ("queries", "updates.traffic") for e in pipeline.log.read(topic, pipeline.position)),
            key=lambda entry: entry.position,
        )
        pipeline.position = entries[-1].position
        outputs = pipeline.shard.apply(entries)
        pipeline.log.append_packed([(output.topic, output.payload) for output in outputs])
        again = twin.apply(entries)
        assert again == outputs
        third = BoundedShard(pipeline.stream, 0, 1, "checkpoint")
        third.restore(twin.snapshot())
        assert third.snapshot() == pipeline.shard.snapshot()
