import numpy as np
import pytest
from joins_twin import pairs, select_pairs

from tolerant.joins import SelectJoins

QUERIES = {1: (0, 10, 2, 5), 2: (5, 15, 4, 6), 3: (0, 20, 4.5, 4.6), 4: (8, 9, 7, 9), 5: (0, 3, 8, 8.5)}
ROWS = {10: (1, 1), 11: (1, 4.8), 12: (1, 7.5), 13: (2, 4.55), 14: (1, 5.5)}
WANTED = {
    (8.5, 1): {(1, 11), (2, 11), (2, 14), (4, 12)},
    (2, 1): {(1, 11)},
    (12, 2): {(2, 13), (3, 13)},
    (8.5, 3): set(),
}
METHODS = SelectJoins.METHODS


def joins_of(queries, rows, alpha=None):
    joins = SelectJoins(alpha)
    if queries:
        joins.add_many(list(queries), *zip(*queries.values(), strict=True))
    if rows:
        joins.insert_many(list(rows), *zip(*rows.values(), strict=True))
    return joins


@pytest.mark.parametrize("alpha", [None, 0.5])
@pytest.mark.parametrize("method", METHODS)
def test_the_worked_example(method, alpha):
    joins = joins_of(QUERIES, ROWS, alpha)
    for (a, b), wanted in WANTED.items():
        assert pairs(joins.probe(a, b, method)) == wanted
        assert joins.count(a, b, method) == len(wanted)
        assert sorted(joins.affected(a, b, method)) == sorted({query for query, _ in wanted})
        queries, starts, stops = joins.slices(a, b, method)
        order = joins.rows_in_order()
        assert {
            (q, int(row)) for q, i, k in zip(queries.tolist(), starts, stops, strict=True) for row in order[i:k]
        } == wanted


@pytest.mark.parametrize("method", METHODS)
def test_infinite_ends_points_and_ties(method):
    inf = np.inf
    queries = {
        1: (-inf, inf, -inf, inf), 2: (-inf, 0, 3, 3), 3: (0, inf, -inf, 2), 4: (0, 0, 2, inf), 5: (1, 1, 3, 4),
    }  # fmt: skip
    rows = {1: (0, 3), 2: (0, 3), 3: (0, 2), 4: (-0.0, 7), 5: (1, 3)}
    joins = joins_of(queries, rows, 0.3)
    for a in (-1, 0, 1):
        for b in (0.0, -0.0, 1, 2):
            assert pairs(joins.probe(a, b, method)) == select_pairs(queries, rows, a, b)


@pytest.mark.parametrize("method", METHODS)
def test_all_alike(method):
    queries = dict.fromkeys(range(20), (0, 1, 0, 1))
    rows = dict.fromkeys(range(30), (5, 1))
    joins = joins_of(queries, rows, 0.5)
    assert pairs(joins.probe(1, 5, method)) == select_pairs(queries, rows, 1, 5)
    assert pairs(joins.probe(2, 5, method)) == set()


@pytest.mark.parametrize("method", METHODS)
def test_many_probes_equal_the_twin(method):
    rng = np.random.default_rng(5)
    lows = rng.integers(0, 12, (300, 2)).astype(float)
    lengths = rng.integers(0, 5, (300, 2))
    queries = {q: (lows[q, 0], lows[q, 0] + lengths[q, 0], lows[q, 1], lows[q, 1] + lengths[q, 1]) for q in range(300)}
    rows = {r: (float(rng.integers(0, 4)), float(rng.integers(0, 15))) for r in range(60)}
    joins = joins_of(queries, rows, 0.05)
    a, b = rng.integers(0, 16, 12).astype(float), rng.integers(0, 5, 12).astype(float)
    events, found, partners = joins.probe_many(a, b, method)
    for event in range(12):
        chosen = events == event
        assert pairs((found[chosen], partners[chosen])) == select_pairs(queries, rows, a[event], b[event])


def test_a_query_added_late_sees_what_is_stored():
    joins = joins_of(QUERIES, ROWS)
    events, rows = joins.snapshot(2, [8.5, 12.0, 100.0], [1.0, 2.0, 1.0])
    assert set(zip(events.tolist(), rows.tolist(), strict=True)) == {(0, 11), (0, 14), (1, 13)}


def test_choices_follow_the_estimates():
    joins = joins_of(QUERIES, ROWS, 0.5)
    costs = joins.estimate(8.5, 1)
    assert set(costs) == set(METHODS) - {"auto"}
    assert joins.choose(8.5, 1) == min(costs, key=costs.get)
    assert joins.choose_many([8.5, 2.0], [1.0, 1.0]) == [joins.choose(8.5, 1), joins.choose(2, 1)]
    assert set(joins.estimate(8.5, 77).values()) == {0.0}


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda j: j.add(1, 0, 1, 0, 1), "query must be new, got 1"),
        (lambda j: j.add(9, 0, 1, 2, 1), "c_low must be at most c_high"),
        (lambda j: j.add(9, 2, 1, 0, 1), "a_low must be at most a_high"),
        (lambda j: j.insert(99, 0, np.inf), "c must be finite"),
        (lambda j: j.insert(99, np.nan, 0), "b must be finite"),
        (lambda j: j.probe(np.inf, 0), "a must be finite"),
        (lambda j: j.probe_many([1, 2], [1]), "same length, got a 2, b 1"),
        (lambda j: j.probe(1, 1, "merge"), "method must be one of"),
        (lambda j: j.add_many([8, 9], [0, 0], [1, 1], [0, 5], [1, 4]), "c_lows must be at most c_highs.*index 1"),
        (lambda j: j.insert_many([98, 99], [0, 0], [1]), "same length"),
        (lambda j: j.insert_many([98, 98], [0, 0], [1, 1]), "rows must be new, got 98 twice"),
    ],
)
def test_a_refused_call_is_explained_and_changes_nothing(call, message):
    joins, untouched = joins_of(QUERIES, ROWS), joins_of(QUERIES, ROWS)
    with pytest.raises(ValueError, match=message):
        call(joins)
    assert joins == untouched
