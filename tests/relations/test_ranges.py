"""Range selection against its slow twin: ties, equal ends, infinities, subscriptions that come and go."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from relations_twin import SlowRangeSelection, SlowRelation, said
from test_relation import COLUMNS, changes_of

from tolerant.relations import ColumnRange, RangeSelection, Relation, range_selection
from tolerant.relations.box_tree import LEAF, BoxTree
from tolerant.relations.order import ordered, ordered_ends

VALUES = st.integers(-4, 4).map(float) | st.sampled_from([-0.0, 0.5, 1e300, -1e300, 5e-324])
ENDS = VALUES | st.sampled_from([math.inf, -math.inf])
PRICE = ColumnRange("price", "DOUBLE", "low", "high")
COUNT = ColumnRange("count", "BIGINT", "first", "last")


def pairs(found):
    return list(zip(found[0].tolist(), found[1].tolist(), strict=True))


@settings(deadline=None, max_examples=60)
@given(st.data(), st.integers(1, 3), st.integers(1, 12 * LEAF))
def test_a_tree_finds_what_comparing_all_finds(data, dimensions, size):
    seed = data.draw(st.integers(0, 2**32))
    spread = data.draw(st.sampled_from([1, 5, 1000]))
    random = np.random.default_rng(seed)
    lows = random.integers(-spread, spread, (size, dimensions))
    ends = np.concatenate([lows, lows + random.integers(-1, spread, (size, dimensions))], axis=1)
    points = random.integers(-spread, 2 * spread, (20, dimensions))
    alive = random.random(size) < 0.8
    tree = BoxTree.of(ends.copy(), np.arange(size))
    expected = [
        (p, e)
        for p in range(20)
        for e in range(size)
        if alive[e] and all(ends[e, :dimensions] <= points[p]) and all(points[p] <= ends[e, dimensions:])
    ]
    assert sorted(pairs(tree.containing(points, alive))) == expected


@given(st.lists(ENDS, min_size=2))
def test_order_is_kept(values):
    values = sorted(values)
    keys = ordered(np.array(values), "DOUBLE").tolist()
    assert keys == sorted(keys)
    assert all((a == b) == (x == y) for a, b, x, y in zip(values, values[1:], keys, keys[1:], strict=False))


@given(
    st.floats(allow_nan=False),
    st.floats(allow_nan=False),
    st.integers(-(2**63), 2**63 - 1) | st.integers(-3, 3) | st.sampled_from([2**63 - 1, -(2**63)]),
)
def test_ends_of_integer_columns_are_exact_whatever_they_are(low, high, value):
    first, last = ordered_ends(np.array([low]), np.array([high]), "BIGINT")
    assert (first[0] <= value <= last[0]) == (low <= value <= high)


class Delivery(RuleBasedStateMachine):
    """Rows and subscriptions change; every change reaches those that it concerns, as in the twin."""

    @initialize(two=st.booleans(), tail=st.sampled_from([0, 3, 2048]))
    def start(self, two, tail):
        self.tail, range_selection.TAIL = range_selection.TAIL, tail
        self.two = two
        self.fast, self.slow = RangeSelection([PRICE, COUNT] if two else [PRICE]), SlowRangeSelection()
        self.relation, self.slow_relation = Relation(COLUMNS), SlowRelation()
        self.sequence = 0

    def teardown(self):
        if hasattr(self, "tail"):
            range_selection.TAIL = self.tail

    @rule(
        listed=st.lists(st.tuples(st.integers(0, 30), ENDS, ENDS, st.integers(-4, 4), st.integers(-4, 4)), max_size=8)
    )
    def subscribe(self, listed):
        new = []
        for id_, low, high, first, last in listed:
            new.append(id_ not in self.slow.boxes)
            self.slow.boxes.setdefault(id_, ((low, high), (first, last)) if self.two else ((low, high),))
        ids, low, high, first, last = (
            (np.array(column) for column in zip(*listed, strict=True)) if listed else [np.zeros(0, np.int64)] * 5
        )
        added = self.fast.add_many(ids, {"low": low, "high": high, "first": first, "last": last})
        assert added.tolist() == new

    @rule(ids=st.lists(st.integers(0, 30), max_size=20))
    def unsubscribe(self, ids):
        expected = [self.slow.boxes.pop(id_, None) is not None for id_ in ids]
        assert self.fast.remove_many(np.array(ids, np.int64)).tolist() == expected

    @rule(
        listed=st.lists(
            st.tuples(st.sampled_from("idu"), st.integers(0, 5), VALUES, st.integers(-4, 4)), min_size=1, max_size=6
        )
    )
    def change_rows(self, listed):
        changes = []
        for what, number, price, count in listed:
            at = self.sequence
            for insert in {"i": [True], "d": [False], "u": [False, True]}[what]:
                self.sequence += 1
                row = (number, str(number), price, True, count, 0.5)
                changes.append((insert, str(number), at, "shop", self.sequence, row))
        effects = self.relation.apply(changes_of(changes))
        assert said(effects) == self.slow_relation.apply(changes)
        rows = [(row[2], row[4]) if self.two else (row[2],) for *_, row in said(effects)]
        assert pairs(self.fast.matching(effects.columns)) == self.slow.matching(rows)

    @invariant()
    def as_many(self):
        if hasattr(self, "fast"):
            assert len(self.fast) == len(self.slow.boxes)


Delivery.TestCase.settings = settings(deadline=None, max_examples=60, stateful_step_count=30)
TestDelivery = Delivery.TestCase


@pytest.mark.parametrize("columns", [1, 2])
def test_thousands_that_come_and_go(columns):
    random = np.random.default_rng(columns)
    kinds = [ColumnRange("x", "DOUBLE", "a", "b"), ColumnRange("y", "DOUBLE", "c", "d")][:columns]
    selection = RangeSelection(kinds)
    held: dict[int, np.ndarray] = {}
    for step in range(12):
        ids = random.permutation(20_000)[:3000]
        ends = np.sort(random.integers(0, 200, (len(ids), 2, 2)).astype(float), axis=2)
        given_ends = {"a": ends[:, 0, 0], "b": ends[:, 0, 1], "c": ends[:, 1, 0], "d": ends[:, 1, 1]}
        added = selection.add_many(ids, given_ends)
        held.update({int(i): e for i, e, new in zip(ids, ends, added, strict=True) if new})
        gone = random.permutation(20_000)[: 9000 if step % 3 == 2 else 500]
        selection.remove_many(gone)
        for id_ in gone.tolist():
            held.pop(id_, None)
        points = random.integers(0, 200, (20, 2)).astype(float)
        all_ids, all_ends = np.array(list(held)), np.array(list(held.values()))
        inside = (all_ends[None, :, :, 0] <= points[:, None, :]) & (points[:, None, :] <= all_ends[None, :, :, 1])
        rows, which = np.nonzero(inside[:, :, :columns].all(axis=2))
        expected = sorted(zip(rows.tolist(), all_ids[which].tolist(), strict=True))
        assert pairs(selection.matching({"x": points[:, 0], "y": points[:, 1]})) == expected


def test_ends_that_are_numbers_and_a_selection_without_parameters():
    selection = RangeSelection([ColumnRange("x", "INT", 2.5, 7)])
    selection.add_many(np.array([1]), {})
    assert pairs(selection.matching({"x": np.array([2, 3, 7, 8], np.int32)})) == [(1, 1), (2, 1)]
    with pytest.raises(ValueError, match="ranges must be one or more"):
        RangeSelection([])
    with pytest.raises(ValueError, match="one for each of the 2 ids"):
        RangeSelection([PRICE]).add_many(np.array([1, 2]), {"low": np.zeros(1), "high": np.zeros(2)})
