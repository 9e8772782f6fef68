"""An item that two sources claim: the one that lost it is told and takes it back, and meanwhile nothing is promised."""

import warnings

import pytest
from stream_pipeline import StreamPipeline, key

from tolerant.edge import ConflictWarning, Source, SourceConflict
from tolerant.kinds.bounded.shard import BoundedShard
from tolerant.streams import SECOND
from tolerant.transport.conflicts import Conflict, open_conflicts

TOTAL = "CREATE QUERY total AS SELECT SUM(rate) FROM traffic WITHIN 5"
AVERAGE = "CREATE QUERY load AS SELECT AVG(rate) FROM traffic WITHIN 5"
LEASE = 10


class Live:
    """A pipeline whose sources are real ones, on its log and its clock."""

    def __init__(self) -> None:
        self.pipeline = StreamPipeline(AVERAGE)
        self.sources: dict[str, Source] = {}

    def start(self, name: str, **options: str) -> Source:
        self.sources[name] = Source("traffic", self.pipeline.log, name, clock=lambda: self.pipeline.now, **options)
        return self.sources[name]

    def tick(self, count: int = 1) -> None:
        for _ in range(count):
            self.pipeline.now += SECOND
            for source in self.sources.values():
                source.advance()
            self.pipeline.clock()
            self.pipeline.read()

    @property
    def answer(self):
        return self.pipeline.answers("load")[-1]

    def conflicts(self) -> list[Conflict]:
        return open_conflicts(self.pipeline.log, "traffic")


def owned() -> Live:
    """Source "owner" has two items, and the average is settled."""
    live = Live()
    live.start("owner")
    live.sources["owner"].set_many([("a", "in"), ("b", "in")], [10.0, 20.0])
    live.tick(4)
    assert live.answer.settled
    return live


def test_the_owner_is_warned_and_takes_its_item_back_when_the_intruder_has_left() -> None:
    live = owned()
    intruder = live.start("intruder")
    intruder.set(("a", "in"), 500.0)
    taken = live.pipeline.now
    live.tick()
    del live.sources["intruder"]  # it dies
    live.pipeline.read()
    with pytest.warns(ConflictWarning, match=r"'owner' has lost items of stream 'traffic'.*'\[\"a\",\"in\"\]' by 'int"):
        live.tick(2)
    live.sources["owner"].set(("a", "in"), 11.0)
    live.tick(1)
    assert live.answer.value == pytest.approx(15.5, abs=5)
    live.tick(LEASE + 4)
    assert live.answer.settled
    assert live.answer.low <= 15.5 <= live.answer.high
    assert live.conflicts() == []
    # While both claimed it, nothing was promised.
    assert not [a for a in live.pipeline.answers("load") if a.settled and taken <= a.at <= taken + LEASE * SECOND]
    live.sources["owner"].set(("a", "in"), 100.0)
    live.tick(2)
    assert live.answer.low <= 60 <= live.answer.high
    assert live.pipeline.rows("dead_letters.traffic") == []


def test_a_source_that_raises_says_who_took_what_and_then_takes_it_back() -> None:
    live = Live()
    owner = live.start("owner", on_conflict="raise")
    owner.set(("a", "in"), 10.0)
    live.tick(4)
    live.start("intruder").set(("a", "in"), 500.0)
    live.tick()
    live.pipeline.now += SECOND
    owner.flush()  # it takes what is new in the log
    with pytest.raises(SourceConflict, match="by 'intruder'"):
        owner.set(("a", "in"), 11.0)
    assert owner.items() == []
    owner.set(("a", "in"), 12.0)
    assert owner.items() == [key("a")]
    del live.sources["intruder"]
    live.tick(3)
    assert live.answer.value == pytest.approx(12.0, abs=5)


def test_the_log_keeps_the_conflict_until_it_is_over() -> None:
    live = owned()
    taken = live.start("intruder").set(("a", "in"), 500.0)
    live.tick()
    live.sources.pop("intruder")
    with pytest.warns(ConflictWarning):
        live.tick(8)
    assert live.conflicts() == [Conflict(key("a"), "intruder", "owner", taken)]
    live.tick(LEASE + 2)
    assert live.pipeline.log.latest("conflicts.traffic", key("a")) is None


def test_two_sources_that_go_on_are_both_told_and_nothing_is_promised_while_they_do() -> None:
    live = owned()
    live.start("intruder")
    since = live.pipeline.now

    def quarrel() -> None:
        for number in range(2 * LEASE):
            for name, value in (("owner", 10.0), ("intruder", 500.0)):
                live.sources[name].set(("a", "in"), value + 20 * number)
            live.tick()

    with pytest.warns(ConflictWarning) as told:
        quarrel()
    named = {str(one.message).split("'")[1] for one in told}
    assert named == {"owner", "intruder"}
    assert not [a for a in live.pipeline.answers("load") if a.settled and a.at > since]


@pytest.mark.parametrize("starts", [1, 5], ids="of {} starts".format)
@pytest.mark.parametrize("names", [("owner", "intruder"), ("intruder", "owner")], ids=lambda names: f"{names[0]} first")
def test_of_two_values_of_one_moment_only_that_of_the_new_owner_counts(names: tuple[str, str], starts: int) -> None:
    """Sources stamp their readings with the tick, so two that say something of an item say it of the same moment."""
    pipeline = StreamPipeline(TOTAL)
    owner = pipeline.start_source("owner")
    pipeline.set("owner", a=10.0, b=20.0)
    pipeline.tick(4)
    pipeline.start_source("intruder", epoch=starts)
    pipeline.set("intruder", a=500.0)
    pipeline.tick(2)
    owner.give_up([key("a")], pipeline.now + SECOND // 2)
    pipeline.now += SECOND
    for name in names:
        pipeline.set(name, a={"owner": 11.0, "intruder": 600.0}[name])
    del pipeline.sources["intruder"]
    pipeline.clock()
    pipeline.tick(2 * LEASE)
    answer = pipeline.answers("total")[-1]
    assert answer.settled
    assert answer.low <= 31.0 <= answer.high


def test_of_two_that_take_an_item_at_one_moment_both_are_told() -> None:
    """The one whose hello is refused is not to take the item for its own ever after."""
    live = owned()
    for name in ("first", "second"):
        live.start(name)

    def quarrel() -> None:
        for number in range(8):
            for name in ("first", "second"):
                live.sources[name].set(("a", "in"), 500.0 + 20 * number)
            live.tick()

    with pytest.warns(ConflictWarning) as told:
        quarrel()
    assert {"first", "second"} <= {str(one.message).split("'")[1] for one in told}


def test_a_source_is_warned_again_when_the_same_happens_again() -> None:
    live = owned()
    intruder = live.start("intruder")
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("default")
        for number in range(3):
            intruder.set(("a", "in"), 500.0 + number)
            for _ in range(2):
                live.tick()
            live.sources["owner"].set(("a", "in"), 11.0)
            live.tick(2)
    assert len([one for one in told if "'owner' has lost" in str(one.message)]) == 3


def test_an_item_of_a_source_that_is_silent_changes_hands_without_a_conflict() -> None:
    live = owned()
    live.sources.clear()
    live.tick(LEASE + 2)
    live.start("heir").set_many([("a", "in"), ("b", "in")], [1.0, 2.0])
    live.tick(4)
    assert live.answer.settled
    assert live.conflicts() == []


def test_conflicts_survive_a_restart_of_the_pipeline() -> None:
    live = owned()
    live.start("intruder").set(("a", "in"), 500.0)
    live.tick()
    live.sources.clear()
    live.tick(2)
    pipeline = live.pipeline
    assert pipeline.log.latest("conflicts.traffic", key("a")) is not None
    twin = BoundedShard(pipeline.stream, 0, 1, "checkpoint")
    twin.restore(pipeline.shard.snapshot())
    assert twin.snapshot() == pipeline.shard.snapshot()
    pipeline.shard = twin
    live.tick(LEASE + 2)
    assert pipeline.log.latest("conflicts.traffic", key("a")) is None


def test_what_to_do_about_conflicts_is_one_of_two() -> None:
    pipeline = StreamPipeline()
    with pytest.raises(ValueError, match="on_conflict must be"):
        Source("traffic", pipeline.log, "a", on_conflict="ignore")
