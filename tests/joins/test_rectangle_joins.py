import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from joins_twin import pairs, rectangle_pairs

from tolerant.joins import RectangleJoins

ends = st.integers(-5, 5).map(float)
ranges = st.tuples(st.one_of(ends, st.just(-np.inf)), st.one_of(ends, st.just(np.inf))).map(sorted)
queries = st.lists(st.tuples(ranges, ranges), max_size=15)
rows = st.lists(st.tuples(ends, ends), max_size=15)


@settings(max_examples=80, deadline=None)
@given(queries, rows, ends, st.integers(0, 5))
def test_both_methods_agree_with_the_twin(queries, rows, b, removed):
    joins = RectangleJoins()
    rectangles = {query: (*first, *second) for query, (first, second) in enumerate(queries)}
    stored = dict(enumerate(rows))
    if rectangles:
        joins._replace(np.array(list(rectangles)), np.array(list(rectangles.values())))
    if stored:
        joins.insert_many(list(stored), *zip(*stored.values(), strict=True))
    for query in sorted(rectangles)[:removed]:
        joins.remove(query)
        del rectangles[query]
    joins.add(99, -1.0, 1.0, -1.0, 1.0)
    rectangles[99] = (-1.0, 1.0, -1.0, 1.0)
    wanted = rectangle_pairs(rectangles, stored, b)
    for method in joins.METHODS:
        assert pairs(joins.probe(b, method)) == wanted
        assert sorted(joins.affected(b, method).tolist()) == sorted({query for query, _ in wanted})
    assert RectangleJoins.from_arrays(joins.to_arrays()) == joins


def test_many_probes_equal_single_ones():
    rng = np.random.default_rng(0)
    joins = RectangleJoins()
    lows = rng.integers(-10, 10, (2, 200)).astype(float)
    joins.add_many(np.arange(200), lows[0], lows[0] + 2, lows[1], lows[1] + 3)
    joins.insert_many(np.arange(300), rng.uniform(0, 50, 300), rng.uniform(-10, 10, 300))
    probes = rng.uniform(0, 50, 20)
    events, found, partners = joins.probe_many(probes)
    affected, who = joins.affected_many(probes)
    for event, b in enumerate(probes):
        assert pairs((found[events == event], partners[events == event])) == pairs(joins.probe(b, "residual"))
        assert sorted(who[affected == event]) == sorted(set(found[events == event]))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda j: j.add(1, 0, 1, 1, 0), "c_low must be at most c_high"),
        (lambda j: j.insert(1, 0, np.nan), "c must be finite"),
        (lambda j: j.probe(0, "ssi"), "method must be one of residual, staircase, auto"),
    ],
)
def test_bad_arguments_are_named(call, message):
    with pytest.raises(ValueError, match=message):
        call(RectangleJoins())
