"""Ladders in NumPy are ladders compiled, to the bit."""

import threading

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tolerant.filters import source_forecasts
from tolerant.filters.ladder import ROOMS, Ladder
from tolerant.filters.source_forecasts import Forecasts

UNITS = (0.0, 1e-30, 0.5, 1.0, 64.0, 1e30)  # as a report carries them, in single precision


def ladders(monkeypatch: pytest.MonkeyPatch) -> tuple[Forecasts, Forecasts]:
    made = []
    for compiled in (True, False):
        forecasts = Forecasts()
        monkeypatch.setattr(forecasts, "_compiled", lambda compiled=compiled: compiled)
        made.append(forecasts)
    return made[0], made[1]


def values_of(rng: np.random.Generator, items: int, ticks: int) -> np.ndarray:
    """A row per tick: walks, noise, ramps, bursts, values that rest, and some near the ends of what a float can be."""
    steps = rng.normal(size=(ticks, items)) * rng.choice([1e-150, 0.01, 1.0, 100.0, 1e150], items)
    steps[rng.random((ticks, items)) < rng.choice([0.0, 0.9], items)] = 0.0
    walks = np.where(rng.random(items) < 0.3, steps, steps.cumsum(axis=0)) + rng.choice([0.0, 0.7], items)
    trends = np.arange(ticks)[:, None] * rng.choice([0.0, 0.0, 3.0], items)
    values = walks + trends
    wild = rng.random((ticks, items)) < 0.002
    values[wild] = rng.choice([1.7e308, -1.7e308, 0.0, -0.0, 5e-324], int(wild.sum()))
    return values


def different(first: Ladder, second: Ladder) -> list[str]:
    """The fields that differ in any bit; but one NaN is as good as another."""
    fields = [name for name in Ladder._fields if name not in ROOMS]
    return [name for name in fields if bits(getattr(first, name)) != bits(getattr(second, name))]


def bits(numbers: np.ndarray) -> bytes:
    return np.where(np.isnan(numbers), np.nan, numbers).tobytes()


@given(seed=st.integers(0, 2**32), items=st.integers(1, 300))
def test_the_same_bits(seed: int, items: int) -> None:
    rng = np.random.default_rng(seed)
    handles = np.arange(items)
    with pytest.MonkeyPatch.context() as patched:
        both = ladders(patched)
        values = values_of(rng, items, 60)
        units = rng.choice(UNITS, items)
        for forecasts in both:
            forecasts.make_room(items)
            forecasts.begin(handles, units, values[0])
        for tick in range(1, len(values)):
            some = handles[rng.random(items) < rng.choice([0.1, 1.0])]
            now, offs = values[tick, some], rng.choice([-1.0, 0.0, 1.0], len(some))
            widths = rng.choice([0.0, np.inf, 0.1, 1.0, 1.4142135623730951, 3.0, 1e150], len(some))
            new_units, whole = (
                np.where(rng.random(len(some)) < 0.02, rng.choice(UNITS), units[some]),
                rng.random() < 0.1,
            )
            results = []
            for forecasts in both:
                forecasts.observe(some, now)
                forecasts.retune(some, new_units, now)
                proposed = forecasts.propose(some, now, widths, offs)
                results.append(
                    [*(part.view(np.int64) for part in proposed), forecasts.reports(some, widths, whole=whole)]
                )
            for fast, slow in zip(*results, strict=True):
                assert fast.tobytes() == slow.tobytes(), f"tick {tick}"
            assert different(both[0]._ladder, both[1]._ladder) == [], f"tick {tick}"


def test_few_items_are_compiled_only_where_something_else_is(monkeypatch: pytest.MonkeyPatch) -> None:
    loaded = False
    monkeypatch.setattr(source_forecasts, "numba_is_loaded", lambda: loaded)
    forecasts = Forecasts()
    forecasts.make_room(source_forecasts.COMPILED_FROM - 1)
    assert not forecasts._compiled()
    loaded = True
    assert forecasts._compiled()


def test_many_items_are_compiled_as_soon_as_the_code_is_loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    begin = threading.Event()
    monkeypatch.setattr(source_forecasts, "_load", begin.wait)
    source_forecasts._loading.cache_clear()
    try:
        forecasts = Forecasts()
        forecasts.make_room(source_forecasts.COMPILED_FROM)
        assert not forecasts._compiled()
        begin.set()
        source_forecasts._loading().join(60)
        assert forecasts._compiled()
    finally:
        source_forecasts._loading.cache_clear()
