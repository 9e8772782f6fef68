import os
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from retention_twin import slow_cache

from tolerant.retention import (
    AR1,
    Exponential,
    Fixed,
    Forever,
    Inverse,
    Known,
    Stationary,
    Trend,
    UniformNoise,
    Walk,
    cache,
    fit,
)
from tolerant.retention.offline.cache_simulation import by_model
from tolerant.retention.scorer import ENDLESS, score
from tolerant.retention.scorer_tables import scorer_of

FEW = settings(max_examples=40, deadline=None)
REFERENCES = st.lists(st.integers(0, 8), max_size=60)


def later(references, value, t):
    return references.index(value, t + 1) if value in references[t + 1 :] else np.inf


@FEW
@given(REFERENCES, st.integers(0, 6), st.integers(0, 70))
def test_rules_agree_to_the_reference(references, memory, warmup):
    rules = {
        "lru": lambda v, last, t: 0,
        "lfu": lambda v, last, t: references[: t + 1].count(v),
        "optimal": lambda v, last, t: -later(references, v, t),
    }
    for policy, ranked in rules.items():
        slow = slow_cache(references, memory, ranked)
        assert cache(references, memory, policy, warmup=warmup).hits == sum(slow[warmup:])


@FEW
@given(REFERENCES, st.integers(0, 6))
def test_a_known_stream_is_kept_as_well_as_can_be(references, memory):
    best = cache(references, memory, "optimal").hits
    for survival in (None, Exponential(0.01), Inverse()):
        assert cache(references, memory, model=Known(references), survival=survival).hits == best
    assert cache(references, memory, model=Known([*references, 1, 2, 3])).hits == best


@FEW
@given(REFERENCES, st.integers(0, 6))
def test_what_does_not_move_is_kept_by_probability(references, memory):
    chances = [0.3, 0.02, 0.2, 0.05, 0.15, 0.01, 0.1, 0.07, 0.03]
    slow = slow_cache(references, memory, lambda v, last, t: chances[v])
    assert cache(references, memory, model=Stationary(chances)).hits == sum(slow)


MODELS = [
    (Trend(1, 0, UniformNoise(4)), [Exponential(5), Forever(), Inverse(), Fixed(3)]),
    (Trend(0.5, 0, UniformNoise(4)), [Exponential(5), Forever()]),
    (Walk(0, 2), [Exponential(5), Fixed(3)]),
    (AR1(2, 0.7, 3), [Exponential(5), Exponential(0.5), Fixed(3)]),
]


@pytest.mark.parametrize(("model", "survivals"), MODELS, ids=str)
def test_models_agree_with_a_full_search(model, survivals):
    rng = np.random.default_rng(3)
    for survival in survivals:
        lines = np.arange(80) // (2 if isinstance(model, Trend) and model.slope < 1 else 1)
        values = rng.integers(-5, 6, 80) + (lines if isinstance(model, Trend) else 0)
        scorer = scorer_of(model, [survival], cached=True, span=(int(values.min()), int(values.max())))

        def ranked(v, last, t, scorer=scorer, values=values):
            return score(scorer, np.int64(0), np.int64(v), ENDLESS, np.int64(t), values[t])

        for memory in (1, 3, 7):
            assert by_model(values, memory, model, survival).tolist() == slow_cache(values, memory, ranked)


def test_uniform_noise_on_a_rising_line_drops_the_smallest():
    """Section 3.5.3: optimal for caching, and what the table comes to."""
    rng = np.random.default_rng(5)
    values = np.arange(300) + rng.integers(-6, 7, 300)
    slow = slow_cache(values, 4, lambda v, last, t: max(v, t + 1 - 6))
    assert cache(values, 4, model=Trend(1, 0, UniformNoise(6))).hits == pytest.approx(sum(slow), abs=1)


def seasonal(days=3650, seed=1):
    """Like daily temperatures in tenths of a degree: a season, and a stream that reverts to it."""
    rng = np.random.default_rng(seed)
    noise, level = rng.normal(0, 38, days), 0.0
    out = np.empty(days)
    for day in range(days):
        level = 0.55 * level + noise[day]
        out[day] = 200 + 65 * np.cos(2 * np.pi * day / 365.25) + level
    return np.rint(out).astype(int)


def test_tuning_beats_both_rules_on_seasons():
    values = seasonal()
    model = fit(values)
    assert isinstance(model, AR1)
    for memory in (20, 100):
        tuned = cache(values, memory, model=model, survival="tuned").hits
        assert tuned > max(cache(values, memory, policy).hits for policy in ("lru", "lfu"))


MELBOURNE = Path(os.environ.get("TOLERANT_DATA", "nowhere")) / "melbourne-daily-max.parquet"


@pytest.mark.skipif(not MELBOURNE.exists(), reason="TOLERANT_DATA does not name a folder with the Melbourne data")
def test_tuning_beats_both_rules_in_melbourne():
    import pandas as pd

    values = np.rint(pd.read_parquet(MELBOURNE).iloc[:, 0].to_numpy() * 10).astype(int)
    fitted = fit(values)
    assert (round(fitted.phi, 4), round(fitted.constant, 1), round(fitted.sigma, 1)) == (0.7203, 55.9, 42.3)
    model = AR1(55.9, 0.72, 42.2)  # as [DISS] rounds it
    ratios = []
    for memory in (10, 20, 50, 100, 150, 200, 300):
        best = max(cache(values, memory, policy).hits for policy in ("lru", "lfu"))
        ratios.append(cache(values, memory, model=model, survival="tuned").hits / best)
    assert min(ratios) >= 1.0
    assert np.mean(ratios) >= 1.02
    sizes = (10, 50, 100, 150, 200, 300)
    hits = [cache(values, memory, model=model, survival=Exponential(memory)).hits for memory in sizes]
    assert hits == [261, 1207, 2179, 2898, 3168, 3341]


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"references": [0.5]}, "references"),
        ({"memory": -1}, "memory"),
        ({"policy": "prob"}, "policy"),
        ({"warmup": -2}, "warmup"),
        ({"model": 3}, "model"),
        ({"survival": "best"}, "survival"),
        ({"survival": 3}, "survival"),
        ({"survival": "tuned"}, "needs a model"),
    ],
)
def test_what_is_wrong_is_said(wrong, said):
    with pytest.raises(ValueError, match=said):
        cache(**{"references": [1, 2], "memory": 1, **wrong})


def test_a_wide_stream_says_what_it_cannot_do():
    with pytest.raises(ValueError, match="survival"):
        cache([0, 10**6], 1, model=AR1(0, 0.5, 1000), survival=Inverse())
    assert cache([0, 10**6, 0, 10**6], 1, model=AR1(0, 0.5, 1000)).hits in (0, 1)


def test_a_stream_that_reverts_slowly_is_summed_where_a_table_would_cost_too_much():
    model = AR1(0.0, 0.9999, 1.0)
    assert scorer_of(model, [Exponential(1000)], cached=True, span=(0, 1000)).table.size == 0
    assert scorer_of(model, [Exponential(1.0)], cached=True, span=(0, 50)).table.size > 0
