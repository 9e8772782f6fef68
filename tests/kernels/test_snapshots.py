"""States come back from bytes bit for bit; a field too few or too many, and another schema, are refused by name."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst

from tolerant import __version__
from tolerant.kernels.snapshots import PAIRS, SORTED_SET, Fields, Schema, State, pack, unpack

SCHEMA = Schema("tests", 3)

names = st.text(min_size=1, max_size=6)
plain = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(names, inner, max_size=3),
    max_leaves=5,
)
numbers = npst.arrays(
    npst.boolean_dtypes() | npst.integer_dtypes() | npst.floating_dtypes(endianness="<") | npst.byte_string_dtypes(),
    npst.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=4),
)
texts = npst.arrays(object, st.integers(0, 5), elements=st.text())
record = np.dtype([("at", "<i8"), ("value", "<f8", (2,)), ("in", [("n", "<i4")]), ("key", "S3")], align=True)
records = npst.arrays(record, st.integers(0, 4))
fields = plain | numbers | texts | records
states = st.recursive(
    st.dictionaries(names, fields, max_size=4).map(State),
    lambda inner: st.dictionaries(names, fields | inner, max_size=4).map(State),
    max_leaves=6,
)


def assert_same(state, other):
    assert set(state) == set(other)
    for name, value in state.items():
        if isinstance(value, State):
            assert isinstance(other[name], State)
            assert_same(value, other[name])
        elif isinstance(value, np.ndarray):
            assert (value.dtype, value.shape) == (other[name].dtype, other[name].shape)
            assert value.tolist() == other[name].tolist() if value.dtype == object else same_bits(value, other[name])
            assert other[name].flags.writeable
        else:
            assert repr(value) == repr(other[name])


def same_bits(array, other):
    return np.ascontiguousarray(array).tobytes() == other.tobytes()


@given(states)
def test_a_state_comes_back_bit_for_bit(state):
    payload = SCHEMA.pack(state)
    restored = SCHEMA.unpack(payload)
    assert_same(state, restored)
    parts = [name for name, value in state.items() if isinstance(value, State)]
    assert [name for name, value in restored.items() if isinstance(value, State)] == parts
    assert sorted(path for path, _ in restored.arrays()) == sorted(path for path, _ in state.arrays())


def test_infinities_and_odd_memory_layouts_come_back():
    matrix = np.arange(12.0).reshape(3, 4)
    restored = SCHEMA.unpack(SCHEMA.pack(State(a=math.inf, b=matrix.T, c=matrix[:, ::2], d=np.float64(0.1))))
    assert restored["a"] == math.inf
    assert restored["d"] == 0.1
    assert np.array_equal(restored["b"], matrix.T)
    assert np.array_equal(restored["c"], matrix[:, ::2])


def test_a_missing_and_an_unknown_field_are_named_with_their_path():
    state = SCHEMA.unpack(SCHEMA.pack(State(engine=State(sources=State(hard=1, names=["a"])))))
    with pytest.raises(ValueError, match=r"of engine\.sources lacks 'heard' and has an unknown 'hard', expected the"):
        state["engine"]["sources"].exactly("heard", "names")
    with pytest.raises(ValueError, match="the state lacks 'more', expected the fields engine, more"):
        state.exactly("engine", "more")
    with pytest.raises(ValueError, match="the state has an unknown 'engine'"):
        state.exactly()


def test_a_field_that_cannot_be_written_is_named_with_its_path():
    with pytest.raises(TypeError, match=r"engine\.open: .*set"):
        SCHEMA.pack(State(fine=1, engine=State(open={1})))


def test_arrays_have_paths():
    state = State(x=np.zeros(1), part=State(y=np.ones(2), n=1))
    assert {path: array.tolist() for path, array in state.arrays()} == {"x": [0.0], "part.y": [1.0, 1.0]}


class Part:
    FIELDS = Fields("level")

    def __init__(self):
        self.level = 0.0

    def state(self):
        return self.FIELDS.state(self)

    def load(self, state):
        self.FIELDS.load(self, state)


class Whole:
    FIELDS = Fields("_size", "values", parts=("part",), _late=SORTED_SET, _counts=PAIRS)

    def __init__(self):
        self._size, self.values, self.part, self._late, self._counts = 0, np.zeros(2), Part(), set(), {}


def test_declared_fields_are_read_and_restored():
    whole, other = Whole(), Whole()
    whole._size, whole._late, whole._counts, whole.part.level = 2, {3, 1}, {7: 1}, 0.5
    whole.values[:] = 1, 2
    state = Whole.FIELDS.state(whole)
    assert list(state) == ["size", "values", "late", "counts", "part"]
    whole.values[0] = 9
    part = other.part
    Whole.FIELDS.load(other, SCHEMA.unpack(SCHEMA.pack(state)))
    assert (other._size, other._late, other._counts) == (2, {1, 3}, {7: 1})
    assert other.values.tolist() == [1, 2], "the state keeps what was when it was taken"
    assert other.part is part, "a part is loaded in place"
    assert part.level == 0.5


@pytest.mark.parametrize("missing", ["size", "values", "late", "counts", "part"])
def test_a_declared_field_that_is_not_there_is_an_error(missing):
    state = Whole.FIELDS.state(Whole())
    del state[missing]
    with pytest.raises(ValueError, match=f"lacks '{missing}'"):
        Whole.FIELDS.load(Whole(), state)


def test_an_older_schema_is_migrated_step_by_step():
    old = Schema("tests", 1).pack(State(a=1))
    migrations = {1: lambda state: State(b=state["a"] + 1), 2: lambda state: State(c=state["b"] * 10)}
    assert Schema("tests", 3, migrations).unpack(old) == {"c": 20}


@pytest.mark.parametrize(("written", "migrations"), [(1, {2: State}), (2, {1: State}), (4, {2: State, 4: State})])
def test_a_schema_that_nobody_migrates_is_refused_by_number(written, migrations):
    old = Schema("tests", written).pack(State(a=1))
    message = (
        f"'tests' with schema {written}, written by Tolerant {__version__}; Tolerant {__version__} reads schema 3. Run"
    )
    with pytest.raises(ValueError, match=message):
        Schema("tests", 3, migrations).unpack(old)


def test_another_shards_snapshot_and_other_bytes_are_refused():
    with pytest.raises(ValueError, match="snapshot of the shard 'others', expected one of 'tests'"):
        SCHEMA.unpack(Schema("others", 3).pack(State()))
    with pytest.raises(ValueError, match="not a packed snapshot"):
        SCHEMA.unpack(pack({"x": np.zeros(1)}))
    with pytest.raises(ValueError, match="not a packed snapshot"):
        unpack(SCHEMA.pack(State()))
    with pytest.raises(ValueError, match="cut short or damaged"):
        SCHEMA.unpack(SCHEMA.pack(State(x=np.arange(100)))[:-5])
