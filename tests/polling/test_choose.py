import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tolerant.polling import choose
from tolerant.polling.offline.exact_choice import _program
from tolerant.polling.tolerance_shares import tolerance_shares
from tolerant.queries import Aggregate

A = {"D1": 500, "D2": 75, "D3": -200, "D4": -150}


@pytest.mark.parametrize(
    ("chooser", "expected"),
    [("all", set(A)), ("per-item", set(A)), ("positive-negative", {"D2"}), ("max", {"D1"}), ("exact", {"D2"})],
)
def test_example_a(chooser, expected):
    assert choose(A, [Aggregate.over("q", "sum", A, 200)], chooser) == expected


def test_example_b():
    changes = {"a": 500, "b": -200, "c": -150}
    query = [Aggregate.over("q", "sum", changes, 100)]
    assert choose(changes, query, "positive-negative") == set(changes)
    assert choose(changes, query, "exact") == set(changes)


def test_example_c():
    assert tolerance_shares(np.array([1.0, 2.0, 5.0]), np.array([80.0]), np.zeros(3, int)).tolist() == [35.0, 15.0, 3.0]
    assert tolerance_shares(np.array([-4.0]), np.array([8.0]), np.zeros(1, int)).tolist() == [2.0]


def test_example_d():
    queries = [Aggregate("qa", "sum", {"x": 1, "y": 2}, 10), Aggregate("qb", "sum", {"y": 3, "z": 1}, 100)]
    changes = {"x": 12, "y": 1, "z": 20}
    assert choose(changes, queries, "max") == {"z"}
    assert choose(changes, queries, "positive-negative") == choose(changes, queries, "exact") == {"x"}
    assert choose(changes, queries, "max-over") == {"x"}
    changes = {"x": 6, "y": 4, "z": 30}
    assert choose(changes, queries, "max") == {"z"}
    assert choose(changes, queries, "positive-negative") == {"y"}
    assert choose(changes, queries, "exact") in ({"x"}, {"y"})


@given(st.lists(st.floats(0.01, 100) | st.floats(-100, -0.01), min_size=1, max_size=9), st.floats(0, 1e6))
def test_shares_spend_the_tolerance_exactly(weights, within):
    found = tolerance_shares(np.array(weights), np.array([within]), np.zeros(len(weights), int))
    assert np.abs(weights) @ found == pytest.approx(within)


def test_a_subset_sum_can_be_kept():
    changes = {"a": 5, "b": 7, "c": 11, "target": -18}
    query = [Aggregate.over("q", "sum", changes, 0)]
    assert choose(changes, query, "exact") == {"a"}


@st.composite
def selections(draw):
    names = [f"i{k}" for k in range(draw(st.integers(1, 8)))]
    changes = {name: draw(st.integers(-9, 9)) for name in names}
    values = {name: draw(st.integers(-5, 5)) for name in names}
    queries = []
    for k in range(draw(st.integers(1, 3))):
        fn = draw(st.sampled_from(["sum", "sum", "avg", "max", "min"]))
        members = draw(st.lists(st.sampled_from(names), min_size=1, unique=True))
        weights = {i: draw(st.integers(-3, 3)) if fn in ("sum", "avg") else 1 for i in members}
        queries.append(Aggregate(f"q{k}", fn, weights, draw(st.integers(0, 12))))
    costs = {name: draw(st.integers(1, 3)) for name in names}
    return changes, queries, values, costs


def off(query, changes, values, kept):
    if query.fn in ("min", "max"):
        fn = min if query.fn == "min" else max
        return abs(
            fn(values[i] + changes[i] * (i in kept) for i in query.weights) - fn(values[i] for i in query.weights)
        )
    size = len(query.weights) if query.fn == "avg" else 1
    return abs(sum(w / size * changes[i] for i, w in query.weights.items() if i in kept))


def within_all(queries, changes, values, kept):
    return all(off(q, changes, values, kept) <= q.within * (1 + 1e-9) for q in queries)


@settings(max_examples=150, deadline=None)
@given(selections())
def test_exact_is_the_best_of_all_subsets(selection):
    changes, queries, values, costs = selection
    pulled = choose(changes, queries, "exact", values=values, costs=costs)
    assert within_all(queries, changes, values, set(changes) - pulled)
    best = min(
        sum(costs[i] for i in subset)
        for size in range(len(changes) + 1)
        for subset in itertools.combinations(changes, size)
        if within_all(queries, changes, values, set(changes) - set(subset))
    )
    assert sum(costs[i] for i in pulled) == best


@settings(max_examples=100, deadline=None)
@given(selections(), st.sampled_from(["all", "per-item", "positive-negative", "max-repeated"]))
def test_what_is_left_is_within(selection, chooser):
    changes, queries, values, _ = selection
    kept = set(changes) - choose(changes, queries, chooser, values=values)
    # A later query's pulls can take away what cancelled in an earlier one (2.13): judged one query at a time.
    if len(queries) == 1 or chooser in ("per-item", "max-repeated"):
        assert within_all(queries, changes, values, kept)


def test_many_items_go_to_the_solver():
    rng = np.random.default_rng(1)
    table = rng.normal(0, 10, (6, 16))
    kept = _program(table, np.full(6, 12.0), np.ones(16))
    names = [f"i{k}" for k in range(16)]
    queries = [Aggregate(f"q{q}", "sum", dict(zip(names, row, strict=True)), 12) for q, row in enumerate(table)]
    assert kept.sum() == 16 - len(choose(dict.fromkeys(names, 1.0), queries, "exact"))
    more = {f"i{k}": float(rng.normal(0, 10)) for k in range(40)}
    query = [Aggregate.over("q", "sum", more, 5)]
    pulled = choose(more, query, "exact")
    assert within_all(query, more, {}, set(more) - pulled)


def test_bad_arguments_are_named():
    query = [Aggregate.over("q", "max", "ab", 1)]
    with pytest.raises(ValueError, match="chooser"):
        choose({"a": 1}, query, "risk")
    with pytest.raises(ValueError, match=r"changes.*'b'"):
        choose({"a": 1}, query)
    with pytest.raises(ValueError, match=r"values.*'a'"):
        choose({"a": 1, "b": 1}, query)
    with pytest.raises(ValueError, match=r"changes.*finite"):
        choose({"a": 1, "b": float("nan")}, query)
    with pytest.raises(ValueError, match="pull_ratio"):
        choose({"a": 1, "b": 1}, query, pull_ratio=2)
    many = {f"i{k}": 1.0 for k in range(30)}
    with pytest.raises(ValueError, match="at most 24"):
        choose(many, [Aggregate.over("q", "max", many, 0.5)], "exact", values=many)
