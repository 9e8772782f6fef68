"""`docs/design/filters.md` §2.7: what arrives late and out of order, and answers that hold for now."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tolerant.filters import BoundCache, Coordinator, LatencyCoordinator
from tolerant.queries import Aggregate

FNS = ["sum", "avg", "min", "max"]
BOTH = Aggregate.over("both", "sum", ["x", "y"], 10)


def test_the_worked_example_of_the_cache():
    cache = BoundCache(5)
    cache.width("x", 4, 0)
    cache.value("x", 10, 0)
    cache.value("x", 13, 7)
    cache.width("x", 6, 10)
    cache.value("x", 16, 9)
    assert cache.release(4) == []
    assert cache.release(5) == [(0, "x", 8, 12)]
    assert cache.release(14) == [(7, "x", 11, 15), (9, "x", 14, 18)]
    assert cache.release(20) == [(10, "x", 13, 19)]
    cache.value("x", 20, 12)
    assert cache.late == 1
    assert cache.release(21) == [(12, "x", 17, 23)]


def test_messages_of_one_time_are_one_bound_and_an_older_late_one_changes_nothing():
    cache = BoundCache(0)
    cache.value("b", 1, 3)
    cache.width("b", 2, 3)
    cache.value("a", 5, 3)
    cache.width("a", 0, 3)
    assert cache.release(3) == [(3, "a", 5, 5), (3, "b", 0, 2)]
    cache.value("b", 9, 1)
    assert (cache.late, cache.release(4)) == (1, [])


@given(
    st.lists(st.tuples(st.sampled_from("xy"), st.booleans(), st.integers(0, 30), st.integers(0, 9)), max_size=30),
    st.randoms(use_true_random=False),
)
def test_within_the_allowance_the_order_of_arrival_does_not_matter(messages, shuffle: random.Random):
    def run(order):
        cache = BoundCache(100)
        for item, is_value, number, at in order:
            (cache.value if is_value else cache.width)(item, number, at)
        return cache.release(109), cache.late

    # Of several messages of one item, side and time only one can be meant.
    once = list({(item, is_value, at): (item, is_value, n, at) for item, is_value, n, at in messages}.values())
    mixed = list(once)
    shuffle.shuffle(mixed)
    assert run(once) == run(mixed)
    assert run(once)[1] == 0


def test_the_worked_example_of_bounded_change_rates():
    found = LatencyCoordinator([BOTH], values={"x": 3, "y": 4}, allowance=2, max_rates={"x": 1, "y": 0.5})
    assert found.coordinator.widths == {"x": 7, "y": 7}
    (answer,) = found.answers()
    assert (answer.low, answer.value, answer.high) == (-3, 7, 17)


def test_an_answer_of_now_is_as_narrow_as_the_rates_and_the_time_since_the_updates_allow():
    found = LatencyCoordinator(
        [BOTH], values={"x": 3, "y": 4}, allowance=2, max_rates={"x": 1, "y": 0.5}, policy="uniform"
    )
    found.update("x", 20, 10)
    assert [(a.low, a.value, a.high) for a in found.answers(10)] == [(19.5, 24, 28.5)]  # x is exact
    assert [(a.low, a.high) for a in found.answers(12)] == [(24 - 2 - 4.5, 24 + 2 + 4.5)]
    assert [(a.low, a.high) for a in found.answers(90)] == [(14, 34)]


@given(st.lists(st.tuples(st.integers(1, 4), st.floats(-1, 1), st.floats(-1, 1)), max_size=30), st.sampled_from(FNS))
def test_narrowed_answers_hold_whatever_changes_within_the_rates(steps, fn):
    query = Aggregate.over("q", fn, ["x", "y"], 20)
    found = LatencyCoordinator(
        [query], values={"x": 0, "y": 0}, allowance=2, max_rates={"x": 3, "y": 1}, policy="uniform"
    )
    values, sent, now = {"x": 0.0, "y": 0.0}, {"x": 0.0, "y": 0.0}, 0
    for pause, *changes in steps:
        now += pause
        for (item, rate), change in zip({"x": 3, "y": 1}.items(), changes, strict=True):
            values[item] += change * rate * pause
            if abs(values[item] - sent[item]) > found.coordinator.widths[item] / 2:
                sent[item] = values[item]
                found.update(item, values[item], now)
        truth = {"sum": sum, "avg": lambda of: sum(of) / 2, "min": min, "max": max}[fn](values.values())
        (answer,) = found.answers(now)
        assert answer.low - 1e-6 <= truth <= answer.high + 1e-6


def test_a_tolerance_below_what_may_be_under_way_is_refused():
    with pytest.raises(ValueError, match=r"'both'.*within 10"):
        LatencyCoordinator([BOTH], allowance=8, max_rates={"x": 1, "y": 0.5})
    with pytest.raises(ValueError, match="no rate for item 'y'"):
        LatencyCoordinator([BOTH], allowance=1, max_rates={"x": 1})
    found = LatencyCoordinator([BOTH], values={"x": 3, "y": 4}, allowance=2, max_rates={"x": 1, "y": 0.5})
    with pytest.raises(ValueError, match=r"'both'.*within 1 "):
        found.coordinator.alter("both", 1, 5)
    assert found.coordinator.widths == {"x": 7, "y": 7}


def test_without_rates_answers_are_of_an_allowance_ago():
    found = LatencyCoordinator([BOTH], values={"x": 3, "y": 4}, allowance=5)
    found.update("x", 30, 8)
    found.update("y", 20, 6)
    assert [(a.at, a.value) for a in found.answers(10)] == [(5, 7)]
    assert [(a.at, a.value) for a in found.answers(11)] == [(6, 23)]
    assert [(a.at, a.value) for a in found.answers(13)] == [(8, 50)]
    found.update("y", 25, 7)
    assert found.late == 1
    assert found.answers(14)[0].value == 55


def test_a_lazy_alter_tightens_nobody_and_lets_nobody_grow_until_shrinking_has_caught_up():
    found = Coordinator([BOTH], values={"x": 3, "y": 4}, shrink=0.5)
    assert found.alter("both", 4, 1, immediate=False) == {}
    assert [answer.high - answer.low for answer in found.answers()] == [20]
    assert found.boundary(10) == {}
    assert sum(found.widths.values()) == 10
    grown = found.boundary(20)
    assert len(grown) == 1
    assert sum(found.widths.values()) == pytest.approx(8)
