"""The worked examples of the design page and of [DISS], Figure 5.1, to the digit."""

from math import inf, nan

import pytest

from tolerant.notifications import Delta, Message, RangeDistinct, RangeMax, RangeMin, pack
from tolerant.notifications.a2b_tree import A2BTree

STOCKS = {
    "t1": (20, 3), "t2": (10, 6), "t3": (30, 8), "t4": (40, 12), "t5": (50, 5), "t6": (70, 6), "t7": (85, 14),
    "t8": (85, 7), "t9": (100, 2),
}  # fmt: skip
WATCHED = {"s1": (10, 60), "s2": (30, 110), "s3": (25, 60), "s4": (35, 80), "s5": (60, 90)}
DELETED = [(inf, 50, 50, 40, 70), (12, 40, 50, 30, 70), (8, 30, 50, 20, 70), (6, 50, 70, 20, 100)]

EXAMPLES = [
    (("t4", 40, 4), "easy", [(4, 40, 40, 20, 100)], {"s3": 4, "s4": 4}),
    (("t5", 50, 9), "difficult", [(9, 50, 50, 30, 70), (8, 30, 50, 20, 70), (6, 50, 70, 20, 100)], {"s3": 8, "s4": 6}),
    (("t7", 85, 10), "ignorable", [], {}),
    (("t8", 85, 9), "easy", [(9, 85, 85, 70, 100)], {}),
    (("t8", 85, 20), "difficult", [(14, 85, 85, 70, 100)], {}),
    (("t5", 50, None), "difficult", DELETED, {"s3": 8, "s4": 6}),
    (("new", 55, 5), "easy", [(5, 55, 55, 50, 100)], {}),
    (("t5", 75, 9), "difficult", [*DELETED, (9, 75, 75, 70, 85)], {"s3": 8, "s4": 6}),
    (
        ("t5", 35, 9),
        "difficult",
        [DELETED[0], (12, 40, 50, 35, 70), *DELETED[2:], (9, 35, 35, 30, 70)],
        {"s3": 8, "s4": 6},
    ),
    (("t5", 75, 5), "difficult", [*DELETED[:3], (6, 50, 70, 20, 75), (5, 75, 75, 50, 100)], {"s3": 8, "s5": 5}),
    (
        ("t5", 75, 4),
        "difficult",
        [*DELETED[:3], (6, 50, 70, 20, 75), (4, 75, 75, 20, 100)],
        {"s3": 8, "s4": 4, "s5": 4},
    ),
    (("t5", 50, 5), "ignorable", [], {}),
]

indexes = pytest.mark.parametrize("index", ["blocks", "a2b", "scan"])


def table(rows, index="blocks", cls=RangeMin):
    rows = dict(enumerate(rows)) if not isinstance(rows, dict) else rows
    return cls.of(list(rows), [x for x, _ in rows.values()], [y for _, y in rows.values()], index=index)


def parts(messages):
    return [message[:5] for message in messages]


@indexes
@pytest.mark.parametrize(("change", "kind", "expected", "heard"), EXAMPLES)
def test_figure_5_1(index, change, kind, expected, heard):
    stocks = table(STOCKS, index)
    before = {name: stocks.minimum(*ends) for name, ends in WATCHED.items()}
    assert before == {"s1": 3, "s2": 2, "s3": 5, "s4": 5, "s5": 6}
    id_, x, y = change
    if id_ in STOCKS and y is not None:
        assert stocks.classify(id_, x, y) == kind
    if y is None:
        messages = stocks.delete(id_)
    else:
        messages = stocks.update(id_, x, y) if id_ in STOCKS else stocks.insert(id_, x, y)
    assert parts(messages) == expected
    assert getattr(stocks.counters, kind) == 1
    told = {name: m.value for name, ends in WATCHED.items() for m in messages if m.affects(*ends)}
    assert told == heard
    assert {name: stocks.minimum(*ends) for name, ends in WATCHED.items()} == {**before, **heard}


@indexes
@pytest.mark.parametrize("example", EXAMPLES)
def test_figure_5_1_in_bulk(index, example):
    (id_, x, y), kind, expected, _ = example
    stocks = table(STOCKS, index)
    messages = stocks.apply([id_], [x], [nan if y is None else y])
    assert parts(messages) == expected
    assert messages.change.tolist() == [0] * len(expected)
    assert getattr(stocks.counters, kind) == 1


@indexes
def test_the_affected_range_needs_the_row_to_be_away(index):
    stocks = table(STOCKS, index)
    assert stocks.affected_range(50, 5) is None
    stocks.delete("t5")
    assert stocks.affected_range(50, 5) == (20, 100)


@indexes
def test_of_equal_heights_the_left_one_speaks(index):
    rows = [(1, 3), (2, 5), (3, 1), (4, 5), (5, 3)]
    messages = table(rows, index).update(2, 3, 9)
    assert parts(messages) == [
        (9, 3, 3, 2, 4), (5, 2, 3, 1, 5), (3, 1, 3, -inf, inf), (5, 3, 4, 2, 5), (3, 3, 5, 1, inf),
    ]  # fmt: skip
    assert [m.inner_high for m in messages if m.affects(2, 4)] == [3]
    assert [m.inner_high for m in messages if m.affects(1, 5)] == [3]
    emptied = table([(1, 9), (3, 1), (5, 9)], index).delete(1)
    assert parts(emptied) == [(inf, 3, 3, 1, 5), (9, 1, 3, -inf, inf), (9, 3, 5, 1, inf)]


@indexes
def test_a_move_with_a_tie_on_the_far_side_is_not_merged(index):
    messages = table([(3, 1), (9, 4), (12, 2)], index).update(0, 5, 4)
    assert parts(messages) == [
        (inf, 3, 3, -inf, 5), (4, 3, 5, -inf, 12), (2, 3, 12, -inf, inf), (4, 5, 5, 3, 9),
    ]  # fmt: skip


@indexes
def test_from_empty_to_empty(index):
    rows = RangeMin(index)
    assert rows.minimum(-inf, inf) == inf
    assert rows.affected_range(3, 1) == (-inf, inf)
    assert parts(rows.insert("a", 3, 1)) == [(1, 3, 3, -inf, inf)]
    assert parts(rows.delete("a")) == [(inf, 3, 3, -inf, inf)]
    assert len(rows) == 0
    only = table([(5, 2)], index)
    moved = only.update(0, 6, 2)
    assert parts(moved) == [(inf, 5, 5, -inf, 6), (2, 6, 6, 5, inf)]
    assert not any(message.affects(5, 6) for message in moved)


@indexes
def test_under_a_roof_every_row_is_exposed(index):
    sides = [(50 + side * step, 1000 - 10 * step - side) for step in range(1, 21) for side in (-1, 1)]
    roof = table([(50, 0), *sides], index)
    messages = roof.delete(0)
    assert len(messages) == 41
    assert {message.value for message in messages} == {inf, *(y for _, y in sides)}


def test_the_tree_of_figure_5_4_skips_a_leaf():
    pairs = [(100, 8), (101, 4), (103, 7), (109, 6), (110, 12), (112, 1), (115, 9), (117, 30), (120, 8), (121, 9)]
    tree = A2BTree(pairs, fan_out=4)
    assert tree._root.minima == [4, 1, 8]
    assert tree.find_right(102, 3) == (112, 1)


@indexes
def test_range_max_is_the_mirror(index):
    stocks = table(STOCKS, index, RangeMax)
    assert stocks.maximum(30, 70) == 12
    assert parts(stocks.update("t4", 40, 5)) == [(5, 40, 40, 30, 70), (8, 30, 40, -inf, 85), (6, 40, 70, 30, 85)]
    assert stocks.maximum(31, 32) == -inf


def test_distinct():
    rows = RangeDistinct()
    assert rows.insert("a", 1, "red") == [Message("red", 1, 1, -inf, inf)]
    assert rows.insert("b", 4, "blue") == [Message("blue", 4, 4, -inf, inf)]
    assert rows.insert("c", 6, "red") == [Message("red", 6, 6, 1, inf)]
    assert rows.insert("d", 9, "red") == [Message("red", 9, 9, 6, inf)]
    assert rows.update("c", 6, "blue") == [Message("red", 6, 6, 1, 9, True), Message("blue", 6, 6, 4, inf)]
    assert rows.update("c", 5, "blue") == [Message("blue", 6, 6, 5, inf, True), Message("blue", 5, 5, 4, 6)]
    assert rows.delete("a") == [Message("red", 1, 1, -inf, 9, True)]


def test_sum():
    delta = Delta(3, 10, 7, 12)
    assert [delta.change(1, 5), delta.change(1, 8), delta.change(5, 8)] == [(-1, -10), (0, 2), (1, 12)]


@indexes
def test_net_of_a_batch(index):
    rows = [(1, 5), (2, 3), (3, 7), (4, 2)]
    assert len(table(rows, index).apply([1, 2], [2, 3], [9, 1])) == 4
    net = table(rows, index).apply([1, 2], [2, 3], [9, 1], net=True)
    assert parts(net) == [(5, 1, 2, -inf, 3), (9, 2, 2, 1, 3), (1, 3, 3, -inf, inf)]
    assert net.change.tolist() == [-1, -1, -1]


def test_packed():
    (notice,) = pack(table(STOCKS).apply(["t5"], [50], [9]))
    assert notice == (50, 20, 100, 9, ((30, 8), (70, 6)))
    assert {name: notice.answer(*ends) for name, ends in WATCHED.items() if notice.affects(*ends)} == {"s3": 8, "s4": 6}


def test_a_camera_of_at_least_four_megapixels():
    message = Message(99.0, 5, 5, -inf, inf)
    assert message.affects(4, inf)
    assert message.affects(-inf, inf)
    assert not message.affects(-inf, 4)
