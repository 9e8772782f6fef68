"""Rows with times and room for some of them: cuts, restoring, what is missed, and memory that does not grow."""

from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tolerant.kernels.snapshots import Schema
from tolerant.retention import Keeper, Possible
from tolerant.retention.frequencies import DecayedFrequencies

SCHEMA = Schema("keeper", 1)

MOMENTS = st.lists(st.lists(st.tuples(st.integers(0, 1), st.integers(-3, 3)), min_size=1, max_size=4), max_size=40)


def pairs_of(r, s):
    theirs = Counter(np.asarray(s).tolist())
    return sum(count * theirs[value] for value, count in Counter(np.asarray(r).tolist()).items())


def arrays(moments, first=0):
    rows = [(first + t, stream, value) for t, moment in enumerate(moments) for stream, value in moment]
    return tuple(np.array(column, np.int64) for column in zip(*rows, strict=True)) if rows else (np.zeros(0, int),) * 3


@settings(max_examples=40, deadline=None)
@given(MOMENTS, st.integers(1, 9), st.lists(st.integers(0, 40), max_size=3))
def test_neither_cuts_nor_restarts_change_anything(moments, memory, cuts):
    whole = Keeper(memory)
    expected = [ids.tolist() for ids in whole.take(*arrays(moments))]
    parts, found, begin = Keeper(memory), ([], []), 0
    for end in [*sorted(min(cut, len(moments)) for cut in cuts), len(moments)]:
        for kept, ids in zip(found, parts.take(*arrays(moments[begin:end], begin)), strict=True):
            kept += ids.tolist()
        parts, begin = Keeper.load(SCHEMA.unpack(SCHEMA.pack(parts.state()))), end
    assert list(found) == expected
    assert parts.held().tolist() == whole.held().tolist()
    assert SCHEMA.pack(parts.state()) == SCHEMA.pack(whole.state())
    assert len(whole) <= memory
    streams, values = (column.tolist() for column in arrays(moments)[1:])
    assert all(values[a] == values[b] and streams[a] != streams[b] for a, b in zip(*expected, strict=True))
    assert len(set(zip(*expected, strict=True))) == len(expected[0])


@settings(max_examples=20, deadline=None)
@given(MOMENTS)
def test_with_room_for_all_every_pair_is_found_and_the_share_is_one(moments):
    keeper, (at, streams, values) = Keeper(1000), arrays(moments)
    held, _ = keeper.take(at, streams, values)
    assert len(held) == pairs_of(values[streams == 0], values[streams == 1])
    assert keeper.share(len(held)) == (1.0, 0.0)


N = 4000
MAKERS = {
    "rising": lambda rng: np.arange(N) + rng.integers(-300, 300, N),
    "skewed": lambda rng: rng.zipf(1.4, N) % 100_000,
    "rare": lambda rng: rng.integers(0, 1_000_000, N),
}


@pytest.mark.parametrize("make", MAKERS)
def test_the_number_of_possible_results_is_estimated_within_its_error(make):
    errors = []
    for seed in range(8):
        rng = np.random.default_rng(seed)
        r, s = MAKERS[make](rng), MAKERS[make](rng)
        possible = Possible()
        for part in np.array_split(np.arange(N), 7):
            possible.observe(0, r[part])
            possible.observe(1, s[part])
        again = Possible()
        again.load(possible.state())
        assert again.estimate() == possible.estimate()
        errors.append((possible.estimate().value - pairs_of(r, s)) / possible.estimate().error)
    assert np.abs(errors).max() < 4
    assert np.sqrt(np.mean(np.square(errors))) < 2


def test_nothing_came_nothing_is_missing():
    assert Possible().share(0) == (1.0, 0.0)
    assert Keeper(3).share(0) == (1.0, 0.0)


def test_frequencies_of_some_values_only():
    """However many different values come, what is kept is bounded, and the frequent ones stay."""
    rng = np.random.default_rng(5)
    plain, limited = DecayedFrequencies([50, 800]), DecayedFrequencies([50, 800], 300)
    for part in range(60):
        values = np.where(rng.random(200) < 0.3, rng.integers(0, 20, 200), 1000 + 200 * part + np.arange(200))
        plain.observe(values)
        limited.observe(values)
    frequent = np.arange(20)
    assert np.allclose(limited.weights(frequent, 1), plain.weights(frequent, 1))
    assert limited.state()["keys"].nbytes <= 2 * 8 * 1024 < plain.state()["keys"].nbytes
    again = DecayedFrequencies([1.0])
    again.load(limited.state())
    assert again.limit == 300


@pytest.mark.parametrize("widest", [2**20, 2**40, 2**62])
def test_values_may_be_far_apart(widest):
    """Codes of texts, say: no model of them needs more memory than there is."""
    rng = np.random.default_rng(3)
    chosen = rng.integers(-widest, widest + 1, 40)
    values = chosen[rng.integers(0, 40, 1200)]
    keeper = Keeper(20)
    held, new = keeper.take(np.arange(1200), np.arange(1200) % 2, values)
    assert (values[held] == values[new]).all()
    assert len(held) > 200
    assert len(keeper) == 20


@pytest.mark.soak
def test_what_is_kept_takes_the_same_room_however_long_it_runs():
    rng, n = np.random.default_rng(2), 20_000
    keeper, sizes = Keeper(200), []
    for part in range(6):
        line = np.arange(part * n, (part + 1) * n)
        values = np.stack([line + rng.integers(-50, 51, n), line - 80 + rng.integers(-50, 51, n)], axis=1).ravel()
        keeper.take(np.repeat(line, 2), np.tile([0, 1], n), values)
        sizes.append(sum(array.nbytes for _, array in keeper.state().arrays()))
    assert max(sizes[1:]) <= 1.1 * sizes[1]
