"""A relation against its slow twin, and a snapshot against going on."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from relations_twin import SlowRelation, said

from tolerant.kernels.snapshots import Schema
from tolerant.kernels.versions import version
from tolerant.relations import Changes, Relation
from tolerant.streams import Column

COLUMNS = (
    Column("id", "INT"),
    Column("name", "STRING"),
    Column("price", "DOUBLE"),
    Column("live", "BOOLEAN"),
    Column("count", "BIGINT"),
    Column("size", "FLOAT"),
)
SOURCES = ("shop", "depot")
SCHEMA = Schema("relation", 1)


def row_of(number, price):
    return (number, f"тест {number}", price, price > 1, number * 2**40, 0.5 * number)


def changes_of(listed, sources=SOURCES):
    """(insert, key, at, source, sequence, row) as arrays."""
    columns = zip(*(row for *_, row in listed), strict=True) if listed else [()] * len(COLUMNS)
    dtypes = [np.int32, object, np.float64, np.bool_, np.int64, np.float32]
    return Changes(
        np.array([change[0] for change in listed], np.bool_),
        np.array([change[1] for change in listed], object),
        np.array([change[2] for change in listed], np.int64),
        np.array([sources.index(change[3]) for change in listed], np.int32),
        sources,
        np.array([change[4] for change in listed], np.int64),
        {c.name: np.array(v, t) for c, v, t in zip(COLUMNS, columns, dtypes, strict=True)},
    )


@st.composite
def logs(draw):
    """Batches of changes of two sources, in the order of their `at`; a batch may come again, whole or in part."""
    at, counters, batches = 0, dict.fromkeys(SOURCES, 0), []
    for _ in range(draw(st.integers(1, 6))):
        batch = []
        for _ in range(draw(st.integers(0, 8))):
            at += draw(st.integers(0, 1))
            source, number = draw(st.sampled_from(SOURCES)), draw(st.integers(0, 4))
            counters[source] += 1
            row = row_of(number, draw(st.sampled_from([1.0, 2.0])))
            batch.append((draw(st.booleans()), str(number), at, source, version(1, counters[source]), row))
        batches.append(batch)
        at += 1
        if draw(st.booleans()):
            again = draw(st.sampled_from(batches))
            batches.append(again[draw(st.integers(0, len(again))) :])
    return batches


@settings(deadline=None)
@given(logs(), st.randoms(use_true_random=False))
def test_a_relation_does_what_its_twin_does(batches, random):
    fast, slow = Relation(COLUMNS), SlowRelation()
    for batch in batches:
        assert said(fast.apply(changes_of(batch))) == list(slow.apply(batch))
        assert (fast.unknown, fast.duplicates) == (slow.unknown, slow.duplicates)
        rows = zip(*(column.tolist() for column in fast.rows().values()), strict=True)
        assert dict(zip(fast.keys().tolist(), rows, strict=True)) == slow.rows
        assert len(fast) == len(slow.rows)
        if random.random() < 0.3:
            fast = Relation.load(COLUMNS, SCHEMA.unpack(SCHEMA.pack(fast.state())))


@settings(deadline=None)
@given(logs(), st.integers(0, 10))
def test_restoring_and_going_on_is_going_on_bit_for_bit(batches, cut):
    going = Relation(COLUMNS)
    for batch in batches[:cut]:
        going.apply(changes_of(batch))
    restored = Relation.load(COLUMNS, SCHEMA.unpack(SCHEMA.pack(going.state())))
    assert SCHEMA.pack(restored.state()) == SCHEMA.pack(going.state())
    for batch in batches[cut:]:
        assert said(going.apply(changes_of(batch))) == said(restored.apply(changes_of(batch)))
    assert SCHEMA.pack(restored.state()) == SCHEMA.pack(going.state())


def test_an_insert_of_a_known_key_replaces_and_the_same_again_says_nothing():
    relation = Relation(COLUMNS)
    first, second = row_of(1, 1.0), row_of(1, 2.0)
    relation.apply(changes_of([(True, "1", 10, "shop", 1, first)]))
    assert said(relation.apply(changes_of([(True, "1", 20, "shop", 2, second)]))) == [
        (False, "1", 20, first),
        (True, "1", 20, second),
    ]
    assert said(relation.apply(changes_of([(True, "1", 30, "shop", 3, second)]))) == []


def test_an_update_is_one_transaction():
    relation = Relation(COLUMNS)
    first, second = row_of(1, 1.0), row_of(1, 2.0)
    relation.apply(changes_of([(True, "1", 10, "shop", 1, first)]))
    update = [(False, "1", 20, "shop", 2, first), (True, "1", 20, "shop", 3, second)]
    assert said(relation.apply(changes_of(update))) == [(False, "1", 20, first), (True, "1", 20, second)]
    back = [(False, "1", 30, "shop", 4, second), (True, "1", 30, "shop", 5, second)]
    assert said(relation.apply(changes_of(back))) == []


def test_a_transaction_sorted_by_key_is_no_duplicate():
    """Rows of one moment may be applied in the order of their keys, not of their sequences."""
    relation = Relation(COLUMNS)
    rows = [(True, "1", 10, "shop", 2, row_of(1, 1.0)), (True, "2", 10, "shop", 1, row_of(2, 1.0))]
    assert len(relation.apply(changes_of(rows))) == 2
    assert relation.duplicates == 0
    assert len(relation.apply(changes_of(rows))) == 0
    assert relation.duplicates == 2


def test_rows_that_are_gone_leave_nothing_behind():
    relation = Relation(COLUMNS)
    for number in range(300):
        relation.apply(changes_of([(True, str(number), number, "shop", 2 * number + 1, row_of(number, 1.0))]))
        relation.apply(changes_of([(False, str(number), number, "shop", 2 * number + 2, row_of(number, 1.0))]))
    assert len(relation) == 0
    state = relation.state()
    assert all(len(array) == 0 for _, array in state.arrays())
    assert (state["newest"], state["unknown"], state["duplicates"]) == ([["shop", 600]], 0, 0)


def test_a_new_epoch_makes_no_duplicates_of_an_older_ones_rows():
    """A source came up again on a clock that had gone back: its new rows apply first."""
    relation = Relation(COLUMNS)
    relation.apply(changes_of([(True, "1", 50, "shop", version(2, 1), row_of(1, 1.0))]))
    older = [(True, "2", 60, "shop", version(1, 7), row_of(2, 1.0))]
    assert len(relation.apply(changes_of(older))) == 1
    assert len(relation.apply(changes_of(older))) == 0
