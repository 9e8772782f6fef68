"""What delivery costs: counts against a recount by hand, and the promises of each approach."""

import numpy as np
import pytest

from tolerant.notifications import RangeMin, pack, simulate
from tolerant.notifications.offline.delivery_simulation import APPROACHES


def workload(rows=400, watched=3000, events=300, spikes=0.02, seed=0):
    rng = np.random.default_rng(seed)
    xs, ys = rng.permutation(rows) * 1e4 / rows, rng.uniform(1, 1e4, rows)
    ids = rng.integers(0, rows, events)
    new = np.where(rng.random(events) < spikes, rng.random(events), rng.uniform(1, 1e4, events))
    middle, length = rng.normal(5000, 1500, watched), np.abs(rng.normal(1000, 1000, watched))
    return (np.arange(rows), xs, ys), (ids, xs[ids], new), (middle - length / 2, middle + length / 2)


def recount(rows, changes, watched):
    """Messages, affected, effectively ignorable and packed messages, one by one."""
    table = RangeMin.of(*rows)
    messages = affected = nobody = notices = 0
    for id_, x, y in zip(*(part.tolist() for part in changes), strict=True):
        said = table.update(id_, x, y)
        reach = [
            ((m.outer_low < watched[0]) & (watched[0] <= m.inner_low) & (m.inner_high <= watched[1])
             & (watched[1] < m.outer_high)).sum()
            for m in said
        ]  # fmt: skip
        messages, affected = messages + len(said), affected + sum(reach)
        nobody += bool(said) and not any(reach)
        notices += len(pack(said))
    return messages, affected, nobody, notices


def test_counts_are_those_of_a_recount():
    work = workload()
    messages, affected, nobody, notices = recount(*work)
    runs = {approach: simulate(*work, approach, brokers=50) for approach in APPROACHES}
    assert {run.affected for run in runs.values()} == {affected}
    assert {run.effectively_ignorable for run in runs.values()} == {nobody}
    assert {run.ignorable + run.easy + run.difficult for run in runs.values()} == {300}
    assert runs["s-cn"].messages == messages
    assert runs["packed"].messages == notices
    assert runs["s-un"].messages == affected
    assert runs["s-un"].bytes == 56 * affected
    assert runs["cn"].messages == 300
    assert runs["s-cn-active"].messages < messages
    assert runs["s-un-aggregated"].messages < affected


def test_the_order_of_the_approaches():
    work = workload()
    runs = {approach: simulate(*work, approach, brokers=100) for approach in APPROACHES}
    size = {approach: run.bytes for approach, run in runs.items()}
    assert size["s-cn-active"] <= size["s-cn"] < size["cn"]
    assert size["packed"] < size["s-cn"]
    assert size["s-un-aggregated"] < size["s-un"]
    assert runs["s-cn"].max_stress <= 8
    assert runs["s-un"].max_stress > 100


def test_random_gateways_make_content_worthless():
    work = workload()
    by_content, by_chance = (simulate(*work, "s-cn", brokers=100, gateways=how) for how in ("content", "random"))
    assert by_chance.bytes > 2 * by_content.bytes
    assert by_chance == simulate(*work, "s-cn", brokers=100, gateways="random", seed=0)
    few, many = (simulate(*work, "s-un-aggregated", brokers=100, gateways=how) for how in ("content", "random"))
    assert many.messages > 2 * few.messages


def test_moves_and_deletions_are_raw_changes_of_both_places():
    rows, watched = ([1, 2], [2.0, 5.0], [3.0, 4.0]), ([0.0, 4.0], [3.0, 9.0])
    moved = simulate(rows, ([1], [8.0], [3.0]), watched, "cn", brokers=2, fan_out=2)
    assert (moved.messages, moved.bytes) == (1, 2 * 64)
    gone = simulate(rows, ([1], [0.0], [np.nan]), watched, "cn", brokers=2, fan_out=2)
    assert (gone.messages, gone.bytes) == (1, 64)


def test_nothing_happens_without_changes_or_subscriptions():
    for approach in APPROACHES:
        run = simulate(([1], [1], [1]), ([], [], []), ([1], [2]), approach)
        assert (run.messages, run.bytes, run.affected) == (0, 0, 0)
        run = simulate(([1], [1], [1]), ([1], [1], [2]), ([], []), approach)
        assert (run.bytes, run.affected) == (0, 0)


@pytest.mark.parametrize(
    ("options", "named"),
    [({"approach": "unicast"}, "approach must be one of 's-un'"), ({"gateways": "near"}, "gateways must be one of"),
     ({"brokers": 0}, "brokers must be at least 1, got 0"), ({"fan_out": 1}, "fan_out must be at least 2"),
     ({"header": -1}, "header must be at least 0")],
)  # fmt: skip
def test_what_cannot_be_right_is_refused(options, named):
    with pytest.raises(ValueError, match=named):
        simulate(([1], [1], [1]), ([1], [1], [2]), ([1], [2]), **options)
