"""A source that has died is not known to have, until its lease is over: until then settled answers hold the last values
that it set, whatever its filters would have done by themselves had it lived.
"""

import numpy as np
import pytest
from rig import Rig, key

from tolerant.kernels.versions import version
from tolerant.streams import SECOND
from tolerant.transport.rows import updates_batch

TOP = "CREATE QUERY top AS SELECT MAX(rate) FROM traffic WITHIN 3"
TOTAL = "CREATE QUERY total AS SELECT SUM(rate) FROM traffic WITHIN 6"
STREAM = "CREATE STREAM traffic (host STRING, kind STRING, rate DOUBLE) KEY (host, kind) WITH (lease = '30 s'{})"


def climb(rig: Rig, ticks: int, **slopes: float) -> dict[str, float]:
    """Set values that change steadily, a tick apart; what they came to."""
    values: dict[str, float] = {}
    for _ in range(ticks):
        rig.now += SECOND
        rig.deliver()
        values = {host: slope * (rig.now // SECOND % 100_000) for host, slope in slopes.items()}
        rig.set("edge", **values)
        rig.clock()
        rig.read()
    return values


def watched(rig: Rig, query: str, since: int) -> list:
    return [answer for answer in rig.answers(query) if answer.settled and answer.at > since]


@pytest.mark.parametrize("slope", [1.0, -1.0, 7.0])
def test_the_predicted_value_of_a_dead_source_does_not_leave_its_last_one_behind(slope: float) -> None:
    rig = Rig(TOP, TOTAL, stream=STREAM.format(""))
    rig.start("edge")
    climb(rig, 150, a=slope, b=0.0)
    assert rig.shard._engine._coordinator.item_view(rig.shard._engine.registry.items()).believed.max() <= 6
    assert rig.answers("top")[-1].settled
    assert rig.answers("total")[-1].settled
    values = climb(rig, 1, a=slope, b=0.0)
    died = rig.now
    del rig.sources["edge"]
    rig.tick(45)
    top, total = max(values.values()), sum(values.values())
    for query, truth in (("top", top), ("total", total)):
        wrong = [answer for answer in watched(rig, query, died) if not answer.low <= truth <= answer.high]
        assert not wrong, wrong[:3]
        # Unsettled ones have the interval that is true, too.
        later = [answer for answer in rig.answers(query) if answer.at > died and answer.low is not None]
        assert all(answer.low <= truth <= answer.high for answer in later)
    assert not rig.answers("total")[-1].settled


def test_a_live_climb_stays_settled_by_a_row_per_tick() -> None:
    rig = Rig(TOTAL, stream=STREAM.format(""))
    rig.start("edge")
    climb(rig, 150, a=0.5, b=0.25)
    before, since = rig.summary(), rig.now
    climb(rig, 60, a=0.5, b=0.25)
    assert all(answer.settled for answer in rig.answers("total") if answer.at > since)
    after = rig.summary()
    assert after["update"] - before["update"] <= 10
    assert after["heartbeat"] - before["heartbeat"] <= 60


def test_the_width_of_a_dead_source_does_not_shrink() -> None:
    hosts = "CREATE QUERY hosts AS SELECT host, SUM(rate) FROM traffic GROUP BY host WITHIN 6"
    rig = Rig(TOTAL, hosts, stream=STREAM.format(", policy = 'adaptive', period = 2, shrink = 0.3"))
    rig.start("edge")
    rig.set("edge", a=10.0, b=20.0)
    rig.tick(5)
    believed = {host: rig.shard.believed(key(host)) for host in "ab"}
    values = {host: centre + 0.49 * width for host, (centre, width) in believed.items()}
    rig.set("edge", **values)
    rig.clock()
    rig.read()
    died = rig.now
    del rig.sources["edge"]
    rig.tick(25)
    for host, value in values.items():
        answers = [answer for answer in rig.answers("hosts", host) if answer.at > died]
        standing = rig.answers("hosts", host)[-1]
        assert all(answer.low <= value <= answer.high for answer in [*answers, standing] if answer.low is not None)
        low, high = rig.shard.ends(key(host))
        assert low <= value <= high


def test_a_source_that_shrinks_by_itself_says_so_at_each_boundary() -> None:
    rig = Rig(TOTAL, stream=STREAM.format(", policy = 'adaptive', period = 2, shrink = 0.3"))
    rig.start("edge")
    rig.set("edge", a=10.0, b=20.0)
    rig.tick(5)
    since = rig.now
    rig.tick(40)
    assert all(answer.settled for answer in rig.answers("total") if answer.at > since)


def test_a_new_start_does_not_vouch_for_the_time_before_it() -> None:
    """The hello of a restart is read before its time has come; the items are those of the start before until then."""
    rig = Rig(TOP, stream=STREAM.format(", latency = '5 s'"))
    rig.start("edge")
    values = climb(rig, 150, a=2.0)
    died = rig.now
    core = rig.sources.pop("edge")
    rig.tick(4)
    rig.log.append(
        "updates.traffic",
        updates_batch(
            kind="hello", keys=[key("a")], at=[rig.now + 2 * SECOND], source="edge", sequence=[version(2, 1)],
            through=rig.now + 2 * SECOND, value=[0.0],
        ),
    )  # fmt: skip
    rig.tick(7)
    assert core.epoch == 1
    between = [a for a in rig.answers("top") if died < a.at < died + 6 * SECOND and a.settled]
    assert not [a for a in between if not a.low <= values["a"] <= a.high]


def test_how_long_sources_have_lived_survives_a_restart_of_the_pipeline() -> None:
    rig = Rig(TOTAL, stream=STREAM.format(""))
    rig.start("edge")
    climb(rig, 150, a=1.0, b=3.0)
    del rig.sources["edge"]
    rig.tick(3)
    twin = type(rig.shard)(rig.stream, 0, 1, "checkpoint")
    twin.restore(rig.shard.snapshot())
    assert twin.snapshot() == rig.shard.snapshot()
    assert [twin.ends(key(host)) for host in "ab"] == [rig.shard.ends(key(host)) for host in "ab"]
    low, high = rig.shard.ends(key("b"))
    assert high - low > 9  # three ticks of a slope of 3, beside the filter
    assert np.isfinite(high)
