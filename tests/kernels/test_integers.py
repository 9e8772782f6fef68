"""The map of integers against Python's own."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from tolerant.kernels.integers import IntegerMap

# Few distinct ones, so that they meet; and the ends of the range.
KEYS = st.lists(st.integers(-20, 20) | st.sampled_from([-(2**63), 2**63 - 1, 2**40, 2**41]), max_size=60)


@settings(deadline=None)
@given(st.lists(st.tuples(st.sampled_from(["put", "get", "pop"]), KEYS), max_size=12))
def test_it_does_what_a_dict_does(steps):
    fast, slow, value = IntegerMap(), {}, 0
    for step, keys in steps:
        array = np.array(keys, np.int64)
        if step == "put":
            values = list(range(value, value + len(keys)))
            value += len(keys)
            expected = []
            for key, given_value in zip(keys, values, strict=True):
                expected.append(key not in slow)
                slow.setdefault(key, given_value)
            assert fast.put_many(array, np.array(values, np.int64)).tolist() == expected
        elif step == "get":
            assert fast.get_many(array).tolist() == [slow.get(key, -1) for key in keys]
        else:
            assert fast.pop_many(array).tolist() == [slow.pop(key, -1) for key in keys]
        assert len(fast) == len(slow)
    everything = np.array(list(slow), np.int64)
    assert fast.get_many(everything).tolist() == list(slow.values())
