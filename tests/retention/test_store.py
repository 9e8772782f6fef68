import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tolerant.kernels.snapshots import Schema
from tolerant.retention import AR1, Stationary, Store, Trend, UniformNoise, Walk, join

OFTEN = Stationary({0: 0.3, 1: 0.2, 2: 0.15, 3: 0.1})
TRENDS = (Trend(1, -1, UniformNoise(4)), Trend(1, 0, UniformNoise(6)))
KINDS = [
    {"policy": "prob"},
    {"policy": "prob", "window": 5},
    {"policy": "life", "window": 5},
    {"policy": "rand", "seed": 4},
    {"policy": "rand", "seed": 4, "window": 6},
    {"models": (OFTEN, OFTEN)},
    {"models": (OFTEN, OFTEN), "window": 6},
    {"models": TRENDS},
    {"models": TRENDS, "window": 7},
    {"models": (Walk(0, 1), Walk(0, 2))},
    {"models": (AR1(1, 0.5, 2), OFTEN)},
]


def offered(store, r, s):
    """Offers the rows tick by tick; the pairs."""
    pairs = []
    for t in range(len(r)):
        found = [store.offer("r", [2 * t], [r[t]]), store.offer("s", [2 * t + 1], [s[t]])]
        pairs += [pair for one in found for pair in zip(*(ids.tolist() for ids in one), strict=True)]
        store.tick()
        assert len(store.held()) <= store.memory
    return pairs


def streams(options, ticks, seed):
    r, s = np.random.default_rng(seed).integers(-4, 5, (2, ticks))
    lines = np.arange(ticks) if options.get("models") is TRENDS else 0
    return r + lines, s + lines


# With a window rows stand in other places than in a simulation, and a random number means another row.
ALIKE = [options for options in KINDS if options.get("policy") != "rand" or "window" not in options]


@pytest.mark.parametrize("options", ALIKE, ids=str)
@pytest.mark.parametrize("memory", [0, 1, 6])
def test_a_join_is_a_loop_over_a_store(options, memory):
    r, s = streams(options, 90, memory)
    pairs = offered(Store(memory, **options), r, s)
    assert len(pairs) == join(r, s, memory, **options).results
    assert len(set(pairs)) == len(pairs)
    values = np.stack([r, s], axis=1).ravel()
    for held, new in pairs:
        assert values[held] == values[new]
        assert held % 2 != new % 2
        assert held // 2 < new // 2


@pytest.mark.parametrize("options", [*KINDS, {}], ids=str)
def test_a_store_that_was_put_away_goes_on_as_if_it_had_not(options):
    r, s = streams(options, 160, 9)
    plain, other = Store(6, **options), Store(6, **options)
    assert offered(plain, r[:75], s[:75]) == offered(other, r[:75], s[:75])
    other.offer("r", [1000], [3])
    plain.offer("r", [1000], [3])
    schema = Schema("store", 1)
    again = Store.load(schema.unpack(schema.pack(other.state())), **options)
    plain.held()
    assert offered(plain, r[75:], s[75:]) == offered(again, r[75:], s[75:])
    assert plain.held().tolist() == again.held().tolist()


BATCHES = st.lists(
    st.tuples(st.sampled_from("rs"), st.lists(st.integers(0, 5), max_size=6), st.booleans()), max_size=25
)


@settings(max_examples=40, deadline=None)
@given(BATCHES, st.integers(0, 7), st.none() | st.integers(0, 4), st.booleans())
def test_pairs_are_all_that_were_held_and_match(batches, memory, window, same_tick):
    store = Store(memory, "prob", window=window, same_tick=same_tick)
    known, number, t = {}, 0, 0
    for stream, values, ends in batches:
        ids = list(range(number, number + len(values)))
        number += len(values)
        before = dict(known)
        found = store.offer(stream, ids, values)
        for old, new in zip(*(one.tolist() for one in found), strict=True):
            other_stream, value, arrival = before[old]
            assert other_stream != stream
            assert value == values[new - ids[0]]
            assert arrival < t or (same_tick and arrival == t)
            assert window is None or t <= arrival + window
        known.update({number: (stream, value, t) for number, value in zip(ids, values, strict=True)})
        if ends:
            store.tick()
            t += 1
            assert len(store) <= memory
    held = store.held()
    assert len(held) <= memory
    for row in held:
        assert known[row["id"]] == ("rs"[row["stream"]], row["value"], row["arrival"])


def test_with_room_for_all_nothing_is_lost():
    rng = np.random.default_rng(2)
    store, found, total = Store(10_000, "prob", same_tick=True), 0, {"r": [], "s": []}
    for _ in range(30):
        for stream in "rs":
            values = rng.integers(0, 40, rng.integers(0, 30))
            found += len(store.offer(stream, np.arange(len(values)), values)[0])
            total[stream] += values.tolist()
        store.tick()
    assert found == sum(total["s"].count(value) for value in total["r"])


def test_a_store_shrinks_and_grows():
    store = Store(50, "prob")
    for t in range(60):
        store.offer("r", [t], [t % 7])
        store.offer("s", [100 + t], [t % 5])
        store.tick()
    assert len(store) == 50
    store.resize(20)
    assert len(store) == len(store.held()) == 20
    store.resize(30)
    store.offer("r", np.arange(200, 300), np.arange(100))
    store.tick()
    assert len(store) == 30


def test_a_stream_with_more_rows_makes_its_partners_worth_more():
    """Ten rows of s a tick: a row of r meets ten times as many."""
    models = (Stationary(dict.fromkeys(range(100), 0.01)),) * 2
    store = Store(100, models=models)
    rng = np.random.default_rng(0)
    for _ in range(60):
        store.offer("r", [0] * 3, rng.integers(0, 100, 3))
        store.offer("s", [0] * 30, rng.integers(0, 100, 30))
        store.tick()
    assert (store.held()["stream"] == 0).mean() > 0.9


def test_rows_take_few_bytes():
    rng = np.random.default_rng(0)
    often = Stationary({0: 0.5})
    for options in (
        {"models": (often, often)},
        {"models": (Walk(0, 1), Walk(0, 1)), "survival": None},
        {"policy": "prob"},
    ):
        store = Store(20_000, **options)
        for start in range(0, 30_000, 250):
            for stream in "rs":
                store.offer(stream, np.arange(start, start + 250), rng.integers(0, 2**60, 250))
            store.tick()
        assert len(store) == 20_000
        assert store.nbytes / len(store) <= 64


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: Store(-1), "memory"),
        (lambda: Store(3, "optimal"), "policy"),
        (lambda: Store(3, "life"), "window"),
        (lambda: Store(3, window=-2), "window"),
        (lambda: Store(3, models=3), "models"),
        (lambda: Store(3, survival=3), "survival"),
        (lambda: Store(3).resize(-1), "memory"),
        (lambda: Store(3).offer("t", [1], [1]), "stream"),
        (lambda: Store(3).offer("r", [1, 2], [1]), "ids and values"),
        (lambda: Store(3).offer("r", [1], [0.5]), "values"),
    ],
)
def test_what_is_wrong_is_said(call, said):
    with pytest.raises(ValueError, match=said):
        call()
