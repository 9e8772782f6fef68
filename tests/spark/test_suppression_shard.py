"""MIN and MAX where far items go unheard until they are asked (`docs/design/filters.md` §5.3), from sources to
answers.
"""

import numpy as np
import pytest
from stream_pipeline import StreamPipeline

from tolerant.edge.source_core import SourceCore
from tolerant.kernels.versions import version
from tolerant.sql import parse
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


def play(fn: str, values: np.ndarray) -> StreamPipeline:
    pipeline = StreamPipeline(STATEMENTS[fn])
    pipeline.start_source("source")
    for row in values:
        pipeline.set("source", **{f"h{number}": float(value) for number, value in enumerate(row)})
        pipeline.tick()
    return pipeline


def messages(pipeline: StreamPipeline) -> int:
    grants = sum(len(read_grants(unpack(entry.payload))) for entry in pipeline.log.read("grants.traffic"))
    return grants + sum(row["kind"] in ("update", "ack") for row in pipeline.rows("updates.traffic"))


def broken(pipeline: StreamPipeline, fn: str, values: np.ndarray) -> list[tuple]:
    """Settled answers that are wrong or too wide, at the end of the tick that they are of."""
    found = []
    extreme = values.min(axis=1) if fn == "min" else values.max(axis=1)
    for answer in pipeline.answers("edge"):
        tick = (answer.at - 1_000_000_000_000) // 1_000_000
        if answer.settled and not (
            answer.low - 1e-6 <= extreme[tick] <= answer.high + 1e-6 and answer.high - answer.low <= 2 * WITHIN + 1e-6
        ):
            found.append((answer, extreme[tick]))
    return found


@pytest.mark.parametrize("fn", ["min", "max"])
def test_far_items_cost_next_to_nothing_and_every_settled_answer_is_right(fn, monkeypatch) -> None:
    values = walks(12, 400, seed=3)
    pipeline = play(fn, values)
    answers = pipeline.answers("edge")
    assert broken(pipeline, fn, values) == []
    assert sum(answer.settled for answer in answers) > 0.9 * len(answers)
    monkeypatch.setattr("tolerant.filters.width_policies.PredictiveWidths._suppress", lambda self, at, tick: None)
    assert messages(pipeline) < 0.5 * messages(play(fn, values))


def test_an_item_that_comes_near_is_asked_and_one_that_falls_below_its_floor_says_so() -> None:
    pipeline = StreamPipeline(STATEMENTS["min"])
    pipeline.start_source("source")
    filters = pipeline.sources["source"]._filters
    for value in (100.0, 110.0, 120.0, 130.0):
        pipeline.set("source", low=0.0, far=value)
        pipeline.tick(4)
    assert filters.suppress_side.any()
    pipeline.set("source", far=90.0)  # outside its filter, above its floor
    pipeline.tick(4)
    assert pipeline.answers("edge")[-1].low == -WITHIN
    assert filters.suppress_side.any()
    for value in (30.0, 60.0, 90.0):
        pipeline.set("source", low=value)
        pipeline.tick(6)
    assert not filters.suppress_side.any()
    assert pipeline.answers("edge")[-1].settled
    assert pipeline.answers("edge")[-1].value == pytest.approx(90.0, abs=WITHIN)
    pipeline.set("source", far=50.0)
    pipeline.tick(4)
    assert pipeline.answers("edge")[-1].value == pytest.approx(50.0, abs=WITHIN)


def test_a_sum_over_items_on_leave_calls_them_back() -> None:
    pipeline = StreamPipeline(STATEMENTS["min"])
    pipeline.start_source("source")
    for value in (100.0, 110.0, 120.0, 130.0):
        pipeline.set("source", low=0.0, far=value)
        pipeline.tick(4)
    assert pipeline.sources["source"]._filters.suppress_side.any()
    pipeline.send(parse("CREATE QUERY total AS SELECT SUM(rate) FROM traffic WITHIN 2"))
    pipeline.tick(1)
    assert not pipeline.answers("total")[-1].settled
    pipeline.tick(6)
    assert not pipeline.sources["source"]._filters.suppress_side.any()
    assert pipeline.answers("total")[-1].settled
    assert pipeline.answers("total")[-1].value == pytest.approx(130.0, abs=2)


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
