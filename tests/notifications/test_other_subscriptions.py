"""DISTINCT, totals, joins and packed notices, against recomputation."""

import math
from math import inf

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from notifications_strategies import applied, change_one, changes, heights, ids, of, places, tables
from notifications_twin import RANGES, answers, check

from tolerant.notifications import (
    Delta,
    JoinedRows,
    Message,
    RangeDistinct,
    RangeMax,
    RangeMin,
    RangeTotals,
    RunningTotal,
    pack,
)


def distinct(rows, x1, x2):
    return {value for x, value in rows.values() if x1 <= x <= x2}


@settings(deadline=None, max_examples=60)
@given(changes)
def test_distinct_says_once_what_came_and_what_went(steps):
    table, rows = RangeDistinct(), {}
    for step in steps:
        old, rows = rows, applied(rows, step)
        messages = change_one(table, old, step)
        assert len(messages) <= 2
        for ends in RANGES:
            before, after = distinct(old, *ends), distinct(rows, *ends)
            heard = [(m.value, m.gone) for m in messages if m.affects(*ends)]
            assert sorted(heard) == sorted([(v, True) for v in before - after] + [(v, False) for v in after - before])
    assert all(table.distinct(*ends) == distinct(rows, *ends) for ends in RANGES)
    again = RangeDistinct.of(table.rows())
    assert all(again.distinct(*ends) == table.distinct(*ends) for ends in RANGES)


def test_distinct_takes_any_value_but_nan():
    table = RangeDistinct.of([(1, 0, None), (2, 0, ("a", 1))])
    assert table.distinct(0, 0) == {None, ("a", 1)}
    with pytest.raises(ValueError, match="value must equal itself"):
        table.insert(3, 0, math.nan)
    assert len(table) == 2


@settings(deadline=None, max_examples=60)
@given(changes)
def test_totals_are_kept_by_deltas(steps):
    table, rows, kept = RangeTotals(), {}, {ends: RunningTotal() for ends in RANGES}
    for step in steps:
        old, rows = rows, applied(rows, step)
        deltas = change_one(table, old, step)
        assert len(deltas) == (old != rows)
        for ends, total in kept.items():
            for delta in deltas:
                total.add(*delta.change(*ends))
    for (x1, x2), total in kept.items():
        inside = [y for x, y in rows.values() if x1 <= x <= x2]
        assert (total.count, total.sum) == (len(inside), sum(inside)) == table.totals(x1, x2)
        assert total.average == (sum(inside) / len(inside) if inside else None)


def test_sums_of_a_million_cents_do_not_drift():
    rng = np.random.default_rng(0)
    ys = np.concatenate([rng.normal(0, 1, 5000), [1e17, -1e17]])
    xs = np.arange(len(ys), dtype=float)
    table = RangeTotals.of(np.arange(len(ys)), xs, ys)
    counts, sums = table.totals_many(xs[::50], np.full(len(xs[::50]), inf))
    exact = [math.fsum(ys[begin:]) for begin in range(0, len(ys), 50)]
    assert counts.tolist() == [len(ys) - begin for begin in range(0, len(ys), 50)]
    np.testing.assert_allclose(sums, exact, rtol=1e-12)
    total = RunningTotal()
    for y in ys.tolist():
        total.add(1, y)
    assert total.sum == pytest.approx(math.fsum(ys), rel=1e-12)


def test_sums_beyond_the_largest_float_are_right_where_they_fit():
    table = RangeTotals.of([1, 2, 3, 4], [1, 2, 3, 4], [1.7e308, 1.7e308, -1.7e308, 5.0])
    assert table.totals(1, 2) == (2, inf)
    assert table.totals(2, 3) == (2, 0.0)
    assert table.totals(3, 4) == (2, -1.7e308)
    assert RangeTotals.of(*table.rows()).totals(4, 4) == (1, 5.0)


def test_a_move_inside_a_range_affects_no_total():
    assert not Delta(3, 10, 4, 10).affects(1, 5)
    assert Delta(3, 0.0, None, None).change(1, 5) == (-1, 0)


@settings(deadline=None, max_examples=60)
@given(st.lists(st.tuples(st.sampled_from("rs"), ids, st.integers(0, 2), st.one_of(st.none(), heights)), max_size=20))
def test_joined_rows_add_up_to_the_join(steps):
    table, rows, seen = JoinedRows(), {"r": {}, "s": {}}, []
    for side, id_, key, row in steps:
        held = rows[side]
        if row is None:
            messages = table.delete(side, id_) if held.pop(id_, None) else []
        else:
            messages = (table.update if id_ in held else table.insert)(side, id_, key, row)
            held[id_] = key, row
        for message in messages:
            if message.affects(lambda r, s: r <= s, r=lambda row: row > 0):
                (seen.append if message.sign > 0 else seen.remove)((message.r, message.s))
        pairs = [(r, s) for a, r in rows["r"].values() for b, s in rows["s"].values() if a == b and 0 < r <= s]
        assert sorted(seen) == sorted(pairs)
    assert len(table) == len(rows["r"]) + len(rows["s"])


def test_joins_refuse_what_is_not_there():
    table = JoinedRows()
    table.insert("r", 1, "k", "row")
    for call, named in [
        (lambda: table.insert("r", 1, "k", "row"), "id must be new in 'r'"),
        (lambda: table.delete("s", 1), "id must be that of a row of 's'"),
        (lambda: table.insert("q", 1, "k", "row"), "side must be 'r' or 's', got 'q'"),
    ]:
        with pytest.raises(ValueError, match=named):
            call()
    assert table.update("r", 1, "k", "row") == []


@pytest.mark.parametrize(("cls", "best"), [(RangeMin, min), (RangeMax, max)])
@settings(deadline=None, max_examples=80)
@given(rows=tables, id_=ids, x=places, y=st.one_of(st.none(), heights))
def test_packed_says_what_the_messages_say(cls, best, rows, id_, x, y):
    change = (id_, x, y)
    messages = change_one(of(cls, rows), rows, change)
    packed = pack(messages)
    check(packed, answers(rows, best), answers(applied(rows, change), best))
    if id_ in rows and y is not None and x == rows[id_][0] and 2 <= len(messages) <= 8:
        assert len(packed) == 1
        assert packed[0].split() == messages
    assert pack(messages, limit=1) == messages


def test_what_is_no_change_in_place_is_not_packed():
    moved = RangeMin.of([1, 2], [1, 5], [2, 4]).update(1, 3, 2)
    assert pack(moved) == moved
    strangers = [Message(1, 3, 3, 0, 5), Message(2, 3, 7, 0, 9)]
    assert pack(strangers) == strangers
