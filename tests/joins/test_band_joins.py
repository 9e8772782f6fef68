import numpy as np
import pytest
from joins_twin import band_pairs, pairs

from tolerant.joins import BandJoins

BANDS = {1: (-1, 2), 2: (0, 3), 3: (1, 1.5), 6: (1.2, 6), 4: (-4, -2), 5: (-3, -2.5)}
ROWS = {10: 4.0, 11: 7.0, 12: 7.5, 13: 12.0}
WANTED = {
    9: {(2, 13), (6, 13), (4, 11)},
    6: {(1, 11), (1, 12), (2, 11), (2, 12), (3, 11), (3, 12), (4, 10), (6, 12), (6, 13)},
    10.5: {(1, 13), (2, 13), (3, 13), (4, 11), (4, 12), (5, 12), (6, 13)},
    2: {(1, 10), (2, 10), (6, 10), (6, 11), (6, 12)},
}
METHODS = BandJoins.METHODS


def joins_of(bands, rows, alpha=None):
    joins = BandJoins(alpha)
    joins.add_many(list(bands), *zip(*bands.values(), strict=True)) if bands else None
    joins.insert_many(list(rows), list(rows.values()))
    return joins


@pytest.mark.parametrize("alpha", [None, 0.5])
@pytest.mark.parametrize("method", METHODS)
def test_the_worked_example(method, alpha):
    joins = joins_of(BANDS, ROWS, alpha)
    for b, wanted in WANTED.items():
        assert pairs(joins.probe(b, method)) == wanted
        queries, starts, stops = joins.slices(b, method)
        order = joins.rows_in_order()
        assert {
            (q, int(row)) for q, a, z in zip(queries.tolist(), starts, stops, strict=True) for row in order[a:z]
        } == wanted
        assert joins.count(b, method) == len(wanted)
        assert sorted(joins.affected(b, method)) == sorted({query for query, _ in wanted})


@pytest.mark.parametrize("method", METHODS)
def test_the_condition_is_evaluated_as_it_is_written(method):
    # On paper 0.3 = 0.1 + 0.2; the rounded difference is below 0.2.
    joins = joins_of({1: (0.2, 1.0), 2: (0.0, 0.2)}, {1: 0.3})
    assert pairs(joins.probe(0.1, method)) == {(2, 1)}
    mirrored = joins_of({1: (-1.0, -0.2), 2: (-0.2, 0.0)}, {1: 0.1})
    assert pairs(mirrored.probe(0.3, method)) == {(2, 1)}


@pytest.mark.parametrize("method", METHODS)
def test_one_sided_and_unbounded_bands(method):
    bands = {1: (-np.inf, -1.0), 2: (1.0, np.inf), 3: (-np.inf, np.inf), 4: (0.0, 0.0)}
    for rows in ({}, {1: 5.0}, {1: 3.0, 2: 5.0, 3: 5.0, 4: 9.0}):
        joins = joins_of(bands, rows)
        for b in (5.0, 0.0, 20.0):
            assert pairs(joins.probe(b, method)) == band_pairs(bands, rows, b)


@pytest.mark.parametrize("method", METHODS)
def test_differences_that_overflow_are_infinite(method):
    bands = {1: (0.0, np.inf), 2: (0.0, 1e308)}
    assert pairs(joins_of(bands, {1: 1.5e308}).probe(-1.5e308, method)) == {(1, 1)}


@pytest.mark.parametrize("method", METHODS)
def test_nothing_is_found_where_there_is_nothing(method):
    joins = BandJoins()
    assert pairs(joins.probe(1.0, method)) == set()
    joins.insert(1, 1.0)
    assert pairs(joins.probe(1.0, method)) == set()
    assert [part.tolist() for part in joins.probe_many([], method)] == [[], [], []]


@pytest.mark.parametrize("method", METHODS)
def test_many_probes_equal_single_ones(method):
    rng = np.random.default_rng(3)
    joins = BandJoins(0.1)
    middles = rng.integers(-5, 5, 200)
    joins.add_many(np.arange(200), middles - rng.random(200), middles + rng.random(200))
    joins.insert_many(np.arange(300), rng.integers(0, 100, 300) / 4)
    probes = np.concatenate([rng.uniform(0, 25, 40), [3.0, 3.0]])
    events, queries, rows = joins.probe_many(probes, method)
    for event, b in enumerate(probes):
        chosen = events == event
        assert pairs((queries[chosen], rows[chosen])) == pairs(joins.probe(b, method))
    assert events.dtype == queries.dtype == rows.dtype == np.int64


def test_a_result_larger_than_the_buffer():
    joins = BandJoins()
    joins.add_many(np.arange(3000), np.full(3000, -1.0), np.full(3000, 1.0))
    joins.insert_many(np.arange(40), np.zeros(40))
    events, queries, rows = joins.probe_many(np.zeros(30))
    assert len(events) == 30 * 3000 * 40
    assert (np.bincount(events) == 3000 * 40).all()
    assert (np.bincount(queries) == 30 * 40).all()
    assert (np.bincount(rows) == 30 * 3000).all()
    # By single rows the runs of one event exceed the buffer.
    assert len(joins.probe(0.0, "data")[0]) == 3000 * 40
    assert joins.count(0.0, "data") == 3000 * 40


def test_a_limit_gives_whole_events_and_where_to_go_on():
    joins = joins_of(BANDS, ROWS)
    bs = np.array([9.0, 6.0, 10.5, 2.0])
    whole = joins.probe_many(bs)
    batches, first = [], 0
    while first < len(bs):
        events, queries, rows, more = joins.probe_many(bs[first:], "ssi", limit=12)
        assert len(events) <= 12
        batches += [(first + e, q, r) for e, q, r in zip(events.tolist(), queries.tolist(), rows.tolist(), strict=True)]
        first += more
    assert sorted(batches) == sorted(zip(*(part.tolist() for part in whole), strict=True))
    with pytest.raises(ValueError, match="limit must be at least the 9 pairs of event 0, got 5"):
        joins.probe_many(bs[1:], limit=5)


def test_a_query_added_late_sees_what_is_stored():
    joins = joins_of(BANDS, ROWS)
    events, rows = joins.snapshot(1, [6.0, 2.0, 50.0])
    assert set(zip(events.tolist(), rows.tolist(), strict=True)) == {(0, 11), (0, 12), (1, 10)}
    with pytest.raises(ValueError, match="query must be there, got 99"):
        joins.snapshot(99, [1.0])


def test_estimates_and_choice_do_not_depend_on_the_clock():
    joins = joins_of(BANDS, ROWS, 0.5)
    costs = joins.estimate(6.0)
    assert set(costs) == set(METHODS) - {"auto"}
    assert joins.choose(6.0) == min(costs, key=costs.get)
    assert joins.estimate(6.0) == costs


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda j: j.add(1, 0, 1), "query must be new, got 1"),
        (lambda j: j.add(7, 2, 1), "low must be at most high.*2.0 and 1.0"),
        (lambda j: j.add(7, np.nan, 1), "low must be"),
        (lambda j: j.add(7, np.inf, np.inf), "low must be"),
        (lambda j: j.add(1.5, 0, 1), "query must be an integer, got 1.5"),
        (lambda j: j.add(2**63, 0, 1), "query must fit 64 bits"),
        (lambda j: j.remove(99), "query must be there, got 99"),
        (lambda j: j.insert(10, 0), "row must be new, got 10"),
        (lambda j: j.insert(99, np.inf), "b must be finite, got inf"),
        (lambda j: j.insert(99, np.nan), "b must be finite"),
        (lambda j: j.delete(99), "row must be there, got 99"),
        (lambda j: j.probe(np.nan), "b must be finite"),
        (lambda j: j.probe_many([1, np.inf]), "bs must be finite, got inf at index 1"),
        (lambda j: j.probe(1, "best"), "method must be one of ssi.*'best'"),
        (lambda j: j.add_many([20, 21], [0, 3], [1, 2]), "lows must be at most highs.*index 1"),
        (lambda j: j.add_many([20, 20], [0, 0], [1, 1]), "queries must be new, got 20 twice"),
        (lambda j: j.add_many([20, 1], [0, 0], [1, 1]), "queries must be new, got 1, which is there"),
        (lambda j: j.add_many([20], [0, 0], [1, 1]), "same length"),
        (lambda j: j.add_many([0.5], [0], [1]), "queries must be integers"),
        (lambda j: j.insert_many([99, 10], [1, 1]), "rows must be new, got 10"),
        (lambda j: j.insert_many([99], [1, 1]), "same length"),
        (lambda j: j.insert_many([98, 99], [1, np.nan]), "bs must be numbers, got NaN at index 1"),
        (lambda j: j.delete_many([10, 99]), "rows must be there, got 99"),
        (lambda j: j.delete_many([10, 10]), "rows must be different"),
        (lambda j: j.remove_many([1, 99]), "queries must be there, got 99"),
        (lambda j: j.remove_many([1, 1]), "queries must be different"),
    ],
)
def test_a_refused_call_is_explained_and_changes_nothing(call, message):
    joins, untouched = joins_of(BANDS, ROWS), joins_of(BANDS, ROWS)
    with pytest.raises(ValueError, match=message):
        call(joins)
    assert joins == untouched
    assert pairs(joins.probe(6)) == WANTED[6]


@pytest.mark.parametrize("alpha", [0, -1, 1.5, np.nan])
def test_alpha_is_a_share(alpha):
    with pytest.raises(ValueError, match="alpha must be"):
        BandJoins(alpha)
