"""Every change tells exactly those whose answer changed, once, with the fewest messages: against brute force."""

from math import inf, nan

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from notifications_strategies import applied, change_one, changes, heights, ids, of, places, tables
from notifications_twin import affected_cells, answers, check, fewest_rectangles

from tolerant.notifications import RangeMax, RangeMin


@pytest.mark.parametrize(("cls", "best"), [(RangeMin, min), (RangeMax, max)])
@settings(deadline=None, max_examples=60)
@given(steps=changes)
def test_everyone_affected_is_told_once_and_nobody_else(cls, best, steps):
    table, rows = cls(), {}
    for step in steps:
        before, old = answers(rows, best), rows
        rows = applied(rows, step)
        check(change_one(table, old, step), before, answers(rows, best))
    assert len(table) == len(rows)


@settings(deadline=None, max_examples=150)
@given(steps=changes)
def test_the_three_indexes_say_the_same(steps):
    tables_, rows = [RangeMin(index) for index in ("blocks", "a2b", "scan")], {}
    for step in steps:
        said = [change_one(table, rows, step) for table in tables_]
        assert said[0] == said[1] == said[2]
        rows = applied(rows, step)
    assert len({table.counters for table in tables_}) == 1
    for x1, x2 in ((-inf, inf), (2, 5), (3, 3), (6.5, inf)):
        assert len({table.minimum(x1, x2) for table in tables_}) == 1


@settings(deadline=None, max_examples=150)
@given(tables, ids, places, st.one_of(st.none(), heights))
def test_no_fewer_messages_would_do(rows, id_, x, y):
    change = (id_, x, y)
    messages = change_one(of(RangeMin, rows), rows, change)
    assert len(messages) == fewest_rectangles(affected_cells(rows, applied(rows, change)))


@pytest.mark.soak
@settings(deadline=None, max_examples=20_000)
@given(tables, ids, places, st.one_of(st.none(), heights))
def test_no_fewer_messages_would_do_in_many_cases(rows, id_, x, y):
    change = (id_, x, y)
    messages = change_one(of(RangeMin, rows), rows, change)
    check(messages, answers(rows), answers(applied(rows, change)))
    assert len(messages) == fewest_rectangles(affected_cells(rows, applied(rows, change)))


@settings(deadline=None, max_examples=60)
@given(tables, changes)
def test_many_at_once_are_one_by_one(rows, steps):
    bulk, single = of(RangeMin, rows), of(RangeMin, rows)
    said = bulk.apply(*columns(steps))
    expected, now = [], rows
    for number, step in enumerate(steps):
        expected += [(number, message) for message in change_one(single, now, step)]
        now = applied(now, step)
    assert list(zip(said.change.tolist(), said, strict=True)) == expected
    assert sorted(zip(*(part.tolist() for part in bulk.rows()), strict=True)) == sorted(
        (id_, float(x), float(y)) for id_, (x, y) in now.items()
    )


@pytest.mark.parametrize(("cls", "best"), [(RangeMin, min), (RangeMax, max)])
@settings(deadline=None, max_examples=100)
@given(rows=tables, steps=changes, more=changes)
def test_the_net_of_a_batch_tells_each_at_most_once(cls, best, rows, steps, more):
    table = of(cls, rows)
    for batch in (steps, more):  # the second one finds what the first one left
        before = answers(rows, best)
        for step in batch:
            rows = applied(rows, step)
        check(list(table.apply(*columns(batch), net=True)), before, answers(rows, best))
        assert len(table) == len(rows)


def columns(steps):
    return [id_ for id_, _, _ in steps], [x for _, x, _ in steps], [nan if y is None else y for _, _, y in steps]


@settings(deadline=None, max_examples=40)
@given(tables, ids, places, heights)
def test_classify_changes_nothing(rows, id_, x, y):
    table = of(RangeMin, {**rows, id_: (3, 3)})
    before = answers({**rows, id_: (3, 3)})
    kind = table.classify(id_, x, y)
    messages = table.update(id_, x, y)
    check(messages, before, answers({**rows, id_: (x, y)}))
    difficult = len(messages) > 1 or [m.value for m in messages] not in ([], [y])
    named = {"ignorable": not messages, "easy": [m.value for m in messages] == [y], "difficult": difficult}
    assert named[kind]


@settings(deadline=None, max_examples=40)
@given(st.lists(st.tuples(st.floats(allow_nan=False, allow_infinity=False), st.floats(-1e308, 1e308)), max_size=9))
def test_numbers_of_any_size_are_ordinary(rows):
    table, plain = RangeMin(), RangeMin("scan")
    for id_, (x, y) in enumerate(rows):
        assert table.insert(id_, x, y) == plain.insert(id_, x, y)
    for id_ in range(len(rows)):
        assert table.delete(id_) == plain.delete(id_)


def test_minus_zero_is_zero():
    table = RangeMin.of([1], [-0.0], [-0.0])
    assert str(table.update(1, 0.0, 1)[0].inner_low) == "0.0"
    assert table.update(1, -0.0, 1) == []
    top = RangeMax.of([1, 2], [1, 2], [0.0, -1.0])
    assert str(top.maximum(0, 1)) == "0.0"


def test_a_snapshot_goes_on_as_the_table():
    rng = np.random.default_rng(1)
    table = RangeMin.of([f"ü{n}" for n in range(50)], rng.integers(0, 30, 50), rng.integers(0, 9, 50))
    table.update("ü3", 4, 5)
    again = RangeMin.load(table.state())
    assert again.counters == table.counters
    for n in range(50):
        step = (f"ü{n}", int(rng.integers(30)), int(rng.integers(9)))
        assert table.update(*step) == again.update(*step)
    numbered = RangeMin.of(np.arange(3), [1, 2, 3], [4, 5, 6])
    assert RangeMin.load(numbered.state()).rows()[0].dtype == np.int64
    assert len(RangeMin.load(RangeMin().state())) == 0
    with pytest.raises(ValueError, match="ids must all be"):
        RangeMin.of([(1, 2)], [1], [1]).state()


def test_minima_are_those_of_each_range():
    rng = np.random.default_rng(2)
    table = RangeMin.of(np.arange(3000), rng.integers(0, 900, 3000), rng.random(3000))
    low = rng.uniform(-10, 900, 200)
    high = low + rng.exponential(100, 200)
    assert table.minima(low, high).tolist() == [table.minimum(*ends) for ends in zip(low, high, strict=True)]
    _, xs, ys = table.rows()
    expected = [ys[(a <= xs) & (xs <= b)].min(initial=inf) for a, b in zip(low, high, strict=True)]
    assert table.minima(low, high).tolist() == expected
