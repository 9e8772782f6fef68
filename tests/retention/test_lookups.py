"""A cache that learns as it is asked: cuts, restoring, what it holds, and memory that does not grow."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tolerant.experiments.workloads.cache_baselines import shifting_zipf
from tolerant.kernels.snapshots import Schema
from tolerant.retention import Lookups, cache

N = 1500
SCHEMA = Schema("lookups", 1)
WORKLOADS = {
    "skewed": lambda rng: rng.zipf(1.3, N) % 5000,
    "rising": lambda rng: np.arange(N) // 3 + rng.integers(-20, 20, N),
    "wandering": lambda rng: np.cumsum(rng.integers(-2, 3, N)),
    "reverting": lambda rng: reverting(rng, N),
    "rare": lambda rng: rng.integers(-(2**62), 2**62, N),
}


def reverting(rng, n):
    found, level = [], 0.0
    for shock in rng.normal(0, 5, n):
        level = 0.8 * level + shock
        found.append(round(level))
    return np.array(found)


def again(lookups):
    return Lookups.load(SCHEMA.unpack(SCHEMA.pack(lookups.state())))


@settings(max_examples=8, deadline=None)
@given(
    st.sampled_from(sorted(WORKLOADS)), st.integers(0, 99), st.integers(0, 60), st.lists(st.integers(0, N), max_size=6)
)
def test_neither_cuts_nor_restarts_change_anything(workload, seed, memory, cuts):
    values = WORKLOADS[workload](np.random.default_rng(seed))
    whole = Lookups(memory, limit=100)
    expected = whole.take(values)
    parts, found, begin = Lookups(memory, limit=100), [], 0
    for end in [*sorted(cuts), N]:
        found += parts.take(values[begin:end]).tolist()
        parts, begin = again(parts), end
    assert found == expected.tolist()
    assert SCHEMA.pack(parts.state()) == SCHEMA.pack(whole.state())
    assert (whole.asked, whole.hits) == (N, np.count_nonzero(expected))


@pytest.mark.parametrize("workload", sorted(WORKLOADS))
def test_a_hit_is_a_value_that_was_held_and_never_more_are_than_fit(workload):
    values, lookups = WORKLOADS[workload](np.random.default_rng(3))[:400], Lookups.bounded(12)
    for value in values.tolist():
        before = set(lookups.held().tolist())
        assert lookups.take([value]).tolist() == [value in before]
        after = set(lookups.held().tolist())
        assert len(after) == len(lookups) <= 12
        assert after <= before | {value}


def test_with_room_for_all_only_the_first_time_is_a_miss():
    values = np.random.default_rng(1).integers(0, 40, 500)
    lookups = Lookups.bounded(40)
    assert lookups.take(values).sum() == 500 - len(np.unique(values))
    assert lookups.held().tolist() == np.unique(values).tolist()


@pytest.mark.parametrize(("skew", "every"), [(0.7, 0), (1.0, 100), (1.0, 20)])
def test_what_it_keeps_of_frequencies_is_enough(skew, every):
    values = shifting_zipf(skew, 3000, 15_000, every, 0)
    lookups = Lookups.bounded(150)
    hits = int(lookups.take(values).sum())
    best = max(cache(values, 150, policy).hits for policy in ("lru", "lfu"))
    assert hits >= 0.95 * best
    assert hits >= 0.97 * cache(values, 150).hits
    share, error = lookups.share()
    assert share == hits / 15_000
    assert 0 < error < 0.01


def test_state_does_not_grow():
    lookups, rng, sizes = Lookups.bounded(100), np.random.default_rng(2), []
    for _ in range(6):
        lookups.take(rng.integers(0, 10**9, 4000))
        sizes.append(len(SCHEMA.pack(lookups.state())))
    assert max(sizes[2:]) <= 1.1 * sizes[1]


def test_arguments_are_checked():
    with pytest.raises(ValueError, match="memory"):
        Lookups(-1)
    with pytest.raises(ValueError, match="values"):
        Lookups(1).take([0.5])
