"""What cannot be right is refused by name, and changes nothing."""

from math import inf, nan

import numpy as np
import pytest

from tolerant.notifications import RangeDistinct, RangeMax, RangeMin, RangeTotals

TABLES = [RangeMin, RangeMax, RangeTotals]


@pytest.mark.parametrize("cls", TABLES)
@pytest.mark.parametrize("method", ["insert", "update"])
@pytest.mark.parametrize(
    ("x", "y", "named"),
    [(nan, 1, "x must"), (inf, 1, "x must"), (1, nan, "y must"), (1, -inf, "y must"), ("1", 2, "x must"),
     (None, 2, "x must"), (1, 2**53 + 1, "y must"), (10**400, 1, "x must")],
)  # fmt: skip
def test_numbers_that_are_none(cls, method, x, y, named):
    table = cls.of(["a"], [1], [2])
    with pytest.raises(ValueError, match=named):
        getattr(table, method)("a" if method == "update" else "b", x, y)
    assert [part.tolist() for part in table.rows()] == [["a"], [1.0], [2.0]]


@pytest.mark.parametrize("table", [cls.of(["a"], [1], [2]) for cls in TABLES] + [RangeDistinct.of([("a", 1, 2)])])
def test_ids_that_are_there_or_not(table):
    with pytest.raises(ValueError, match=r"id must be new, got 'a'"):
        table.insert("a", 3, 4)
    for call in (lambda: table.update("b", 1, 2), lambda: table.delete("b")):
        with pytest.raises(ValueError, match=r"id must be that of a row, got 'b'"):
            call()
    assert len(table) == 1
    assert "a" in table


@pytest.mark.parametrize(("x1", "x2"), [(2, 1), (nan, 1), (1, nan)])
def test_ranges_that_are_none(x1, x2):
    asked = [RangeMin().minimum, RangeMax().maximum, RangeDistinct().distinct, RangeTotals().totals]
    for ask in asked:
        with pytest.raises(ValueError, match="x1"):
            ask(x1, x2)


@pytest.mark.parametrize(
    ("ids", "xs", "ys", "named"),
    [([1, 2], [1, inf], [1, 1], r"xs\[1\]"), ([1, 2], [1, nan], [1, 1], r"xs\[1\]"), ([1], [1], [inf], r"ys\[0\]"),
     ([1, 2], [1], [1, 1], "xs must have 2"), ([1], [1], [1, 2], "ys must have 1"),
     ([1], ["a"], [1], "xs must be numbers"),
     ([1], [2**53 + 2], [1], r"xs\[0\] must be at most 2\^53")],
)  # fmt: skip
@pytest.mark.parametrize("net", [False, True])
def test_a_batch_is_refused_whole(ids, xs, ys, named, net):
    table = RangeMin.of([1], [5], [5])
    with pytest.raises(ValueError, match=named):
        table.apply(ids, xs, ys, net=net)
    assert [part.tolist() for part in table.rows()] == [[1], [5.0], [5.0]]


def test_deletions_in_a_batch():
    table = RangeMin.of([1], [5], [5])
    said = table.apply([7, 8, 8, 1], [nan, 2, inf, nan], [nan, 3, nan, nan])
    assert said.change.tolist() == [1, 2, 2, 3]
    assert len(table) == 0
    assert table.rows()[0].tolist() == []


def test_loading_refuses_what_it_must():
    with pytest.raises(ValueError, match="ids must differ, got 3 twice"):
        RangeMin.of([3, 4, 3], [1, 2, 3], [1, 2, 3])
    with pytest.raises(ValueError, match=r"ys\[1\] must be finite"):
        RangeMin.of([3, 4], [1, 2], [1, nan])
    with pytest.raises(ValueError, match="index must be one of 'blocks', 'a2b', 'scan', got 'tree'"):
        RangeMin("tree")
    with pytest.raises(ValueError, match="id must equal itself"):
        RangeMin.of([nan], [1], [1])


def test_an_id_that_is_not_even_itself():
    table = RangeMin()
    for call in (lambda: table.insert(nan, 1, 1), lambda: table.apply([1, nan], [1, 2], [3, 4])):
        with pytest.raises(ValueError, match="id must equal itself"):
            call()
    assert len(table) == 0
    assert table.rows()[0].tolist() == []


def test_ids_of_any_kind():
    table = RangeMin()
    table.apply(np.array(["a", "b"]), [1, 2], [3, 4])
    table.insert((1, 2), 3, 4)
    table.insert(2**70, 4, 4)
    assert table.rows()[0].tolist() == ["a", "b", (1, 2), 2**70]
    assert RangeMin.of([2**70], [1], [1]).rows()[0].tolist() == [2**70]
