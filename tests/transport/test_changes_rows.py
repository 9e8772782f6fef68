"""The rows of tables and of subscriptions: what is packed is what is read."""

import math

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tolerant.kernels.versions import version
from tolerant.streams import Column, key_text
from tolerant.transport import changes, subscriptions
from tolerant.transport.rows import NO_TIME, pack, unpack

COLUMNS = (Column("key", "STRING"), Column("at", "BIGINT"), Column("live", "BOOLEAN"), Column("x", "DOUBLE"))
SAYING = {"source": "shop", "first": version(3, 5), "through": 90}


def values(keys, xs):
    n = len(keys)
    return {
        "key": pa.array(keys, pa.string()),
        "at": pa.array(range(n), pa.int64()),
        "live": pa.array([True] * n, pa.bool_()),
        "x": pa.array(xs, pa.float64()),
    }


def read(batch):
    return changes.read_changes(unpack(pack(batch)), COLUMNS)


def test_inserted_rows():
    found = read(changes.insert_batch(COLUMNS, ["key"], values(["a", "ü"], [1.5, 2.5]), at=70, **SAYING)).changes
    assert found.insert.tolist() == [True, True]
    assert found.keys.tolist() == ["a", "ü"]
    assert found.at.tolist() == [70, 70]
    assert found.sequence.tolist() == [version(3, 5), version(3, 6)]
    assert [found.sources[code] for code in found.source] == ["shop", "shop"]
    assert found.row(1) == {"key": "ü", "at": 1, "live": True, "x": 2.5}


def test_deleted_rows_carry_the_key_alone():
    batch = changes.delete_batch(COLUMNS, pa.array(["a"]), at=70, **SAYING)
    assert batch.column("row.x").null_count == 1
    found = read(batch)
    assert (found.changes.insert.tolist(), found.changes.keys.tolist(), found.dead.tolist()) == ([False], ["a"], [])


def test_an_update_is_a_deletion_and_an_insertion_with_one_at():
    batch = changes.update_batch(COLUMNS, ["key", "at"], values(["a", "b"], [1.5, 2.5]), at=70, **SAYING)
    found = read(batch).changes
    assert found.insert.tolist() == [False, True, False, True]
    assert found.keys.tolist() == ['["a",0]', '["a",0]', '["b",1]', '["b",1]']
    assert set(found.at.tolist()) == {70}
    assert found.columns["x"][found.insert].tolist() == [1.5, 2.5]
    assert batch.column("through").to_pylist() == [69, 69, 69, 90]


def test_clock_rows_have_the_same_columns_and_are_no_changes():
    batch = changes.clock_row(COLUMNS, 50, epoch=2, checkpoint="c1")
    assert batch.schema == changes.changes_schema(COLUMNS)
    row = batch.to_pylist()[0]
    assert (row["kind"], row["at"], row["source"], row["sequence"]) == ("clock", 50, "c1", version(2, 0))
    assert len(read(batch).changes) == 0
    assert changes.clock_row(COLUMNS, NO_TIME).column("at").to_pylist() == [NO_TIME]


def test_rows_that_cannot_be_used_are_told_apart_with_the_reason():
    good = changes.insert_batch(
        COLUMNS, ["key"], values(["a", "b", "c", "d"], [1.0, None, math.nan, 4.0]), at=1, **SAYING
    )
    kinds = pa.array(["insert", "insert", "insert", "inserted"]).dictionary_encode()
    batch = good.set_column(0, "kind", kinds)
    found = read(batch)
    assert dict(zip(found.dead.tolist(), (found.reasons[code] for code in found.codes), strict=True)) == {
        1: "column x is missing",
        2: "column x is not a finite number",
        3: "kind must be insert, delete or clock, got 'inserted'",
    }
    assert found.rows.tolist() == [0]
    with pytest.raises(ValueError, match="columns must be those of changes"):
        read(batch.select(["kind", "key"]))


@given(
    st.lists(
        st.tuples(
            st.text(st.characters(exclude_categories=["Cs"]), max_size=5),
            st.integers(-(2**31), 2**31 - 1),
            st.booleans(),
            st.floats(allow_nan=False, allow_infinity=False),
        )
    )
)
@settings(deadline=None)
def test_key_texts_are_those_of_streams(rows):
    types = [pa.string(), pa.int32(), pa.bool_(), pa.float64()]
    arrays = [pa.array([row[i] for row in rows], types[i]) for i in range(4)]
    for chosen in ([0], [1], [2], [3], [0, 1], [1, 2, 0], [0, 3]):
        expected = [key_text(tuple(row[i] for i in chosen)) for row in rows]
        assert changes.key_texts([arrays[i] for i in chosen]).to_pylist() == expected


TYPES = {"low": "DOUBLE", "first": "BIGINT", "name": "STRING"}


def test_subscriptions_are_packed_by_the_chunk():
    n = subscriptions.CHUNK + 10
    columns = {
        "low": pa.array(np.arange(n) / 2),
        "first": pa.array(np.arange(n)),
        "name": pa.array(["same"] * n),
    }
    batches = list(subscriptions.subscription_batches("area", TYPES, columns, subscriptions.UNSUBSCRIBE))
    assert [batch.num_rows for batch in batches] == [subscriptions.CHUNK, 10]
    subscribe, ids, read_columns = subscriptions.read_subscription_rows(unpack(pack(batches[1])), TYPES)
    assert not subscribe.any()
    assert read_columns["first"].tolist() == list(range(n - 10, n))
    every = np.concatenate([batch.column("id").to_numpy() for batch in batches])
    assert len(np.unique(every)) == n
    assert (every >= 0).all()
    assert ids.tolist() == every[-10:].tolist()


def test_ids_are_the_same_for_ever():
    """They stand in logs: a change of how they are made would make every subscription another one."""
    columns = {"low": pa.array([20.0]), "first": pa.array([60]), "name": pa.array(["a"])}
    assert subscriptions.subscription_ids(columns).tolist() == [PINNED]
    assert subscriptions.subscription_ids({}).tolist() == [0]


PINNED = 405788761428647991


def test_a_subscription_without_parameters_is_one_row():
    (batch,) = subscriptions.subscription_batches("area", {}, {})
    assert batch.to_pylist() == [{"kind": "subscribe", "template": "area", "id": 0}]


def test_what_cannot_be_read_is_refused():
    (batch,) = subscriptions.subscription_batches("area", {"low": "DOUBLE"}, {"low": pa.array([1.0])})
    with pytest.raises(ValueError, match="columns must be those of subscriptions"):
        subscriptions.read_subscription_rows(batch, {"high": "DOUBLE"})
    bad = batch.set_column(3, batch.schema.field(3), pa.array([None], pa.float64()))
    with pytest.raises(ValueError, match="low must have no nulls"):
        subscriptions.read_subscription_rows(bad, {"low": "DOUBLE"})
    (other,) = subscriptions.subscription_batches("area", {"low": "DOUBLE"}, {"low": pa.array([1.0])}, "leave")
    with pytest.raises(ValueError, match="kind must be subscribe or unsubscribe"):
        subscriptions.read_subscription_rows(other, {"low": "DOUBLE"})
