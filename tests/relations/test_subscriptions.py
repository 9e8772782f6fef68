"""Subscriptions against a dict."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tolerant.kernels.snapshots import Schema
from tolerant.relations import SubscriptionTable

TYPES = {"low": "DOUBLE", "many": "BIGINT", "name": "STRING"}
IDS = st.lists(st.integers(-3, 25), max_size=30)
SCHEMA = Schema("subscriptions", 1)


def columns_of(values):
    return {
        "low": np.array(values, np.float64) / 2,
        "many": np.array(values, np.int64) * 2**50,
        "name": np.array([f"ü{value}" for value in values], object),
    }


@settings(deadline=None)
@given(st.lists(st.tuples(st.sampled_from(["add", "remove", "restore"]), IDS), max_size=12))
def test_they_do_what_a_dict_does(steps):
    fast, slow, value = SubscriptionTable(TYPES), {}, 0
    for step, ids in steps:
        array = np.array(ids, np.int64)
        if step == "add":
            values = list(range(value, value + len(ids)))
            value += len(ids)
            expected = []
            for id_, given_value in zip(ids, values, strict=True):
                expected.append(id_ not in slow)
                slow.setdefault(id_, given_value)
            assert fast.add_many(array, columns_of(values)).tolist() == expected
        elif step == "remove":
            assert fast.remove_many(array).tolist() == [slow.pop(id_, None) is not None for id_ in ids]
        else:
            restored = SubscriptionTable.load(TYPES, SCHEMA.unpack(SCHEMA.pack(fast.state())))
            assert SCHEMA.pack(restored.state()) == SCHEMA.pack(fast.state())
            fast = restored
        assert len(fast) == len(slow)
        found = fast.columns()
        for index, id_ in enumerate(fast.ids().tolist()):
            expected_row = {name: column.tolist()[0] for name, column in columns_of([slow[id_]]).items()}
            assert {name: column.tolist()[index] for name, column in found.items()} == expected_row
    assert fast.of(fast.ids())["many"].tolist() == fast.columns()["many"].tolist()


def test_what_is_not_there_or_does_not_fit_is_refused():
    expected = SubscriptionTable(TYPES)
    with pytest.raises(KeyError, match="5"):
        expected.of(np.array([5]))
    with pytest.raises(ValueError, match="'low' must be one for each of the 2 ids"):
        expected.add_many(np.array([1, 2]), columns_of([1]))
