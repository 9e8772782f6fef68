"""MIN and MAX where far items go unheard until they are asked (`docs/design/filters.md` §5.3), from sources to
answers.
"""

import numpy as np
import pytest
from rig import Rig

from tolerant.edge.source_core import SourceCore
from tolerant.kernels.versions import version
from tolerant.streams import StreamOptions
from tolerant.testing import simulate_faults
from tolerant.transport.rows import Grant, read_grants, unpack

WITHIN = 4.0
STATEMENTS = {
    fn: f"CREATE QUERY edge AS SELECT {fn.upper()}(rate) FROM traffic WITHIN {WITHIN}" for fn in ("min", "max")
}


def walks(count: int, ticks: int, seed: int) -> np.ndarray:
    random = np.random.default_rng(seed)
    return random.uniform(0, 400, count) + np.cumsum(random.normal(0, 1, (ticks, count)), axis=0)


def play(fn: str, values: np.ndarray) -> Rig:
    rig = Rig(STATEMENTS[fn])
    rig.start("source")
    for row in values:
        rig.set("source", **{f"h{number}": float(value) for number, value in enumerate(row)})
        rig.tick()
    return rig


def messages(rig: Rig) -> int:
    grants = sum(len(read_grants(unpack(entry.payload))) for entry in rig.log.read("grants.traffic"))
    return grants + sum(row["kind"] in ("update", "ack") for row in rig.rows("updates.traffic"))


def broken(rig: Rig, fn: str, values: np.ndarray) -> list[tuple]:
    """Settled answers that are wrong or too wide, at the end of the tick that they are of."""
    found = []
    extreme = values.min(axis=1) if fn == "min" else values.max(axis=1)
    for answer in rig.answers("edge"):
        tick = (answer.at - 1_000_000_000_000) // 1_000_000
        if answer.settled and not (
            answer.low - 1e-6 <= extreme[tick] <= answer.high + 1e-6 and answer.high - answer.low <= 2 * WITHIN + 1e-6
        ):
            found.append((answer, extreme[tick]))
    return found


@pytest.mark.parametrize("fn", ["min", "max"])
def test_far_items_cost_next_to_nothing_and_every_settled_answer_is_right(fn, monkeypatch) -> None:
    values = walks(12, 400, seed=3)
    rig = play(fn, values)
    answers = rig.answers("edge")
    assert broken(rig, fn, values) == []
    assert sum(answer.settled for answer in answers) > 0.9 * len(answers)
    monkeypatch.setattr("tolerant.filters.width_policies.PredictiveWidths._suppress", lambda self, at, tick: None)
    assert messages(rig) < 0.5 * messages(play(fn, values))


def test_an_item_that_comes_near_is_asked_and_one_that_falls_below_its_floor_says_so() -> None:
    rig = Rig(STATEMENTS["min"])
    rig.start("source")
    filters = rig.sources["source"]._filters
    for value in (100.0, 110.0, 120.0, 130.0):
        rig.set("source", low=0.0, far=value)
        rig.tick(4)
    assert filters.suppress_side.any()
    rig.set("source", far=90.0)  # outside its filter, above its floor
    rig.tick(4)
    assert rig.answers("edge")[-1].low == -WITHIN
    assert filters.suppress_side.any()
    for value in (30.0, 60.0, 90.0):
        rig.set("source", low=value)
        rig.tick(6)
    assert not filters.suppress_side.any()
    assert rig.answers("edge")[-1].settled
    assert rig.answers("edge")[-1].value == pytest.approx(90.0, abs=WITHIN)
    rig.set("source", far=50.0)
    rig.tick(4)
    assert rig.answers("edge")[-1].value == pytest.approx(50.0, abs=WITHIN)


def test_a_sum_over_items_on_leave_calls_them_back() -> None:
    rig = Rig(STATEMENTS["min"])
    rig.start("source")
    for value in (100.0, 110.0, 120.0, 130.0):
        rig.set("source", low=0.0, far=value)
        rig.tick(4)
    assert rig.sources["source"]._filters.suppress_side.any()
    rig.say("CREATE QUERY total AS SELECT SUM(rate) FROM traffic WITHIN 2")
    rig.tick(1)
    assert not rig.answers("total")[-1].settled
    rig.tick(6)
    assert not rig.sources["source"]._filters.suppress_side.any()
    assert rig.answers("total")[-1].settled
    assert rig.answers("total")[-1].value == pytest.approx(130.0, abs=2)


class KeepsItsLeave(SourceCore):
    """A leave goes on after the item has sent a row."""

    def _send(self, kind, handles, at, ways=None):
        far = self._filters.suppress_side[handles].copy()
        super()._send(kind, handles, at, ways)
        self._filters.suppress_side[handles] = far
        if self.watch:
            self.watch(at, handles)


def test_a_source_that_overstays_its_leave_is_caught() -> None:
    assert any(not simulate_faults(seed, source_factory=KeepsItsLeave).ok for seed in (98, 194, 290, 386))


def test_a_leave_ends_with_the_next_row_and_its_grant_does_not_give_it_again() -> None:
    core = SourceCore("source", 1, StreamOptions(policy="predictive"))
    handle = core.register(["item"])
    core.offer(handle, np.array([100.0]), now=10)
    grant = Grant("item", 2.0, 0.0, 1, version(1, 1), False, 2.0, far=1, leave=50.0)
    core.grant([grant], now=20)
    core.drain()
    core.offer(handle, np.array([500.0]), now=30)
    assert core.drain() is None
    core.offer(handle, np.array([49.0]), now=40)
    assert core.drain().column("value").to_pylist() == [49.0]
    core.grant([grant], now=50)
    core.offer(handle, np.array([60.0]), now=60)
    assert core.drain().column("value").to_pylist() == [60.0]
