import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from joins_twin import band_pairs, select_pairs

from tolerant.joins import BEFORE, NEVER, RowLifetimes, TwoSidedBandJoins, TwoSidedSelectJoins

tenths = st.integers(-12, 12).map(lambda value: value / 10)
ranges = st.tuples(tenths, tenths).map(sorted)
rows = st.tuples(tenths, tenths)
steps = st.lists(st.tuples(st.sampled_from("rsRS"), st.lists(rows, min_size=1, max_size=3)), max_size=12)


def truth(band, selects, stored):
    """Every result row of both kinds of join: (query, r, s)."""
    bands = {
        (query, r, s)
        for r, (_, b) in stored["r"].items()
        for query, s in band_pairs(band, {s: row[0] for s, row in stored["s"].items()}, b)
    }
    chosen = {
        (query, r, s) for r, (a, b) in stored["r"].items() for query, s in select_pairs(selects, stored["s"], a, b)
    }
    return bands, chosen


def told(results, changed):
    found = list(zip(changed.query.tolist(), changed.r.tolist(), changed.s.tolist(), strict=True))
    assert len(found) == len(set(found))
    if changed.sign > 0:
        assert not results & set(found), "a result was told twice"
        return results | set(found)
    assert set(found) <= results
    return results - set(found)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(ranges, ranges), min_size=1, max_size=5), steps)
def test_each_result_is_told_once_and_retracted_once(queries, steps):
    band, select = TwoSidedBandJoins(0.5), TwoSidedSelectJoins(0.5)
    bands = {query: tuple(first) for query, (first, _) in enumerate(queries)}
    selects = {query: (*first, *second) for query, (first, second) in enumerate(queries)}
    band.add_many(list(bands), *zip(*bands.values(), strict=True))
    for query, ends in selects.items():
        select.add(query, *ends)
    stored, found, number = {"r": {}, "s": {}}, (set(), set()), 0
    for kind, values in steps:
        side = kind.lower()
        if kind.islower():
            ids = list(range(number, number + len(values)))
            number += len(values)
            stored[side].update(zip(ids, values, strict=True))
            first, second = np.array(values).T
            if side == "r":
                changed = band.insert_r(ids, second), select.insert_r(ids, first, second)
            else:
                changed = band.insert_s(ids, first), select.insert_s(ids, first, second)
        else:
            ids = sorted(stored[side])[: len(values)]
            for id in ids:
                del stored[side][id]
            gone = np.array(ids, np.int64)
            changed = tuple(getattr(joins, f"delete_{side}")(gone) for joins in (band, select))
        found = tuple(told(results, change) for results, change in zip(found, changed, strict=True))
        assert found == truth(bands, selects, stored)
    for joins, results in zip((band, select), found, strict=True):
        assert told(set(), joins.snapshot(0)) == {one for one in results if one[0] == 0}
        assert type(joins).from_arrays(joins.to_arrays()) == joins


def test_both_sides_round_alike():
    joins = TwoSidedBandJoins()
    joins.add(1, 0.2, 1.0)
    joins.insert_r([1], [0.1])
    assert len(joins.insert_s([1], [0.3]).query) == 0  # fl(0.3 − 0.1) < 0.2
    assert len(joins.insert_r([2], [0.1]).query) == 0
    joins.remove(1)
    assert len(joins) == 0


def test_a_refused_change_changes_nothing():
    joins = TwoSidedSelectJoins()
    joins.add_many([1], [0], [1], [0], [1])
    joins.insert_r([1], [0.5], [7.0])
    before = TwoSidedSelectJoins.from_arrays(joins.to_arrays())
    for call in (
        lambda: joins.insert_r([2, 1], [0.5, 0.5], [7.0, 7.0]),
        lambda: joins.insert_r([2], [np.inf], [7.0]),
        lambda: joins.insert_s([2], [7.0], [np.nan]),
        lambda: joins.delete_r([1, 2]),
        lambda: joins.delete_s([1]),
        lambda: joins.remove_many([1, 2]),
        lambda: joins.add_many([2], [0], [1], [1], [0]),
    ):
        with pytest.raises(ValueError, match="must be"):
            call()
        assert joins == before


lives = st.lists(st.tuples(st.sampled_from("rs"), st.integers(-1, 4), st.integers(0, 5), rows), max_size=9)


@settings(max_examples=80, deadline=None)
@given(st.lists(st.tuples(ranges, ranges), min_size=1, max_size=4), lives)
def test_a_batch_tells_what_its_moments_would(queries, lives):
    """Rows come before moment 0 or at one, and go at a later one or not: all at once, and moment by moment."""
    joins = TwoSidedBandJoins(), TwoSidedSelectJoins()
    bands = {query: tuple(first) for query, (first, _) in enumerate(queries)}
    selects = {query: (*first, *second) for query, (first, second) in enumerate(queries)}
    joins[0].add_many(list(bands), *zip(*bands.values(), strict=True))
    joins[1].add_many(list(selects), *zip(*selects.values(), strict=True))
    stored = {side: [(i, c, g, v) for i, (of, c, g, v) in enumerate(lives) if of == side and c < g] for side in "rs"}
    for kind, one in enumerate(joins):
        for side in "rs":
            old = [(i, v) for i, c, _, v in stored[side] if c < 0]
            ids, values = [i for i, _ in old], np.array([v for _, v in old]).reshape(-1, 2).T
            columns = tuple(values) if kind else (values[1] if side == "r" else values[0],)
            getattr(one, f"insert_{side}")(np.array(ids, np.int64), *columns)
        told = one.change(*(lifetimes(stored[side], side, kind) for side in "rs"))
        now = results(bands, selects, stored, -1)[kind]
        for moment in range(5):
            for sign in (-1, 1):
                chosen = (told.moment == moment) & (told.sign == sign)
                said = list(zip(*(column[chosen].tolist() for column in told[:3]), strict=True))
                assert len(said) == len(set(said))
                assert not now & set(said) if sign > 0 else set(said) <= now
                now = now | set(said) if sign > 0 else now - set(said)
            assert now == results(bands, selects, stored, moment)[kind]
        assert set(np.unique(told.moment).tolist()) <= set(range(5))
        for query in bands:
            left = one.snapshot(query)
            assert {(query, r, s) for r, s in zip(left.r.tolist(), left.s.tolist(), strict=True)} == {
                found for found in now if found[0] == query
            }


def listed(told):
    """(query, r, s, moment, sign) of each, sorted: runs taken apart."""
    sizes = told.stop - told.start
    queries = [told.queries[a:b] for a, b in zip(told.start.tolist(), told.stop.tolist(), strict=True)]
    columns = np.concatenate([np.zeros(0, np.int64), *queries]), *(np.repeat(column, sizes) for column in told[3:])
    return sorted(zip(*(column.tolist() for column in columns), strict=True))


@settings(max_examples=150, deadline=None)
@given(
    st.lists(ranges, max_size=12), st.lists(ranges, max_size=3), st.lists(st.integers(0, 11), max_size=3), lives, lives
)
def test_runs_tell_what_is_told_one_by_one(first, more, gone, lives, later):
    """Also when queries have come and gone in between, and whatever order they came in."""
    joins = TwoSidedBandJoins(), TwoSidedBandJoins()
    for one, order in zip(joins, (1, -1), strict=True):
        one.add_many(np.arange(len(first))[::order], *np.array(first).reshape(-1, 2)[::order].T)
    for turn, some in enumerate((lives, later)):
        some = [(100 * turn + i, c, 5 if turn else g, v, of) for i, (of, c, g, v) in enumerate(some) if c < g]
        changes = [lifetimes([row[:4] for row in some if row[4] == side and row[1] >= 0], side, 0) for side in "rs"]
        told, runs = joins[0].change(*changes), joins[1].change_runs(*changes)
        assert listed(runs) == sorted(zip(*(column.tolist() for column in told), strict=True))
        assert len(runs.queries) <= 2 * len(joins[1])
        for one in joins:
            one.add_many(np.arange(50, 50 + len(more) * (not turn)), *np.array(more * (not turn)).reshape(-1, 2).T)
        leaving = sorted(set(gone) & set(range(len(first)))) if not turn else []
        joins[0].remove_many(np.array(leaving, np.int64))
        for query in leaving:
            joins[1].remove(query)
        joins = joins[0], TwoSidedBandJoins.from_arrays(joins[1].to_arrays())


def results(bands, selects, stored, moment):
    there = {side: {i: v for i, c, g, v in stored[side] if c <= moment < g} for side in "rs"}
    return truth(bands, selects, there)


def lifetimes(stored, side, kind):
    ids, inserted, deleted = (np.array([row[column] for row in stored], np.int64) for column in range(3))
    values = np.array([row[3] for row in stored], np.float64).reshape(-1, 2).T
    columns = tuple(values) if kind else (values[1] if side == "r" else values[0],)
    chosen = (inserted >= 0) | (deleted < 5)  # the others are of no account
    inserted, deleted = np.where(inserted < 0, BEFORE, inserted), np.where(deleted == 5, NEVER, deleted)
    return RowLifetimes(ids[chosen], inserted[chosen], deleted[chosen], tuple(column[chosen] for column in columns))


def test_a_batch_that_cannot_be_is_refused_and_changes_nothing():
    joins = TwoSidedBandJoins()
    joins.add(1, -1.0, 1.0)
    joins.insert_r([1], [0.0])
    before = joins.to_arrays()
    none = RowLifetimes(*(np.zeros(0, np.int64),) * 3, (np.zeros(0),))

    def single(row, inserted, deleted, b=0.0):
        return RowLifetimes(np.array([row]), np.array([inserted]), np.array([deleted]), (np.array([b]),))

    for wrong in (single(1, 0, NEVER), single(2, BEFORE, 3), single(2, 3, 3), single(2, 0, 1, np.nan)):
        with pytest.raises(ValueError, match="r"):
            joins.change(wrong, none)
    assert all(np.array_equal(array, joins.to_arrays()[name], equal_nan=True) for name, array in before.items())
