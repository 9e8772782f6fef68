import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from joins_twin import band_pairs, select_pairs

from tolerant.joins import TwoSidedBandJoins, TwoSidedSelectJoins

tenths = st.integers(-12, 12).map(lambda value: value / 10)
ranges = st.tuples(tenths, tenths).map(sorted)
rows = st.tuples(tenths, tenths)
steps = st.lists(st.tuples(st.sampled_from("rsRS"), st.lists(rows, min_size=1, max_size=3)), max_size=12)


def truth(band, selects, held):
    """Every result row of both kinds of join: (query, r, s)."""
    bands = {
        (query, r, s)
        for r, (_, b) in held["r"].items()
        for query, s in band_pairs(band, {s: row[0] for s, row in held["s"].items()}, b)
    }
    chosen = {(query, r, s) for r, (a, b) in held["r"].items() for query, s in select_pairs(selects, held["s"], a, b)}
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
    held, found, number = {"r": {}, "s": {}}, (set(), set()), 0
    for kind, values in steps:
        side = kind.lower()
        if kind.islower():
            ids = list(range(number, number + len(values)))
            number += len(values)
            held[side].update(zip(ids, values, strict=True))
            first, second = np.array(values).T
            if side == "r":
                changed = band.insert_r(ids, second), select.insert_r(ids, first, second)
            else:
                changed = band.insert_s(ids, first), select.insert_s(ids, first, second)
        else:
            ids = sorted(held[side])[: len(values)]
            for id in ids:
                del held[side][id]
            gone = np.array(ids, np.int64)
            changed = tuple(getattr(joins, f"delete_{side}")(gone) for joins in (band, select))
        found = tuple(told(results, change) for results, change in zip(found, changed, strict=True))
        assert found == truth(bands, selects, held)
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
