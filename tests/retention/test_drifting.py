import importlib

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tolerant.retention import Exponential, NormalNoise, Trend, UniformNoise, join

NOISES = st.builds(UniformNoise, st.integers(0, 8)) | st.builds(NormalNoise, st.floats(0.3, 4), st.integers(0, 8))
simulation = importlib.import_module("tolerant.retention.offline.join_simulation")


def drawn(noise, ticks, rng):
    return rng.choice(np.arange(-noise.bound, noise.bound + 1), ticks, p=noise.weights())


@settings(max_examples=60, deadline=None)
@given(
    noises=st.tuples(NOISES, NOISES),
    slope=st.sampled_from([1, -1]),
    lag=st.integers(-5, 5),
    ticks=st.integers(1, 120),
    memory=st.integers(0, 25),
    alpha=st.floats(0.3, 30),
    warmup=st.integers(0, 20),
    wild=st.integers(1, 12).map(lambda number: 3 if number == 1 else 1),
    seed=st.integers(0, 2**32),
)
def test_the_short_cut_leads_to_the_same(noises, slope, lag, ticks, memory, alpha, warmup, wild, seed):
    rng = np.random.default_rng(seed)
    r, s = (slope * np.arange(ticks) + wild * drawn(noise, ticks, rng) for noise in noises)
    r = r - lag
    options = {
        "models": (Trend(slope, -lag, noises[0]), Trend(slope, 0, noises[1])),
        "survival": Exponential(alpha),
        "warmup": warmup,
    }
    fast = join(r, s, memory, **options)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(simulation, "track_of", lambda *given: None)
        plain = join(r, s, memory, **options)
    assert fast.results == plain.results
    assert fast.share_r == pytest.approx(plain.share_r, rel=0, abs=0, nan_ok=True)


def test_the_short_cut_is_taken_only_where_nothing_passed_is_met():
    noise = UniformNoise(3)
    models = (Trend(1, 0, noise), Trend(1, 0, noise))
    line = np.arange(50)
    ranking = simulation.ranking("heeb", models[1], Exponential(5.0), None)
    assert simulation.track_of(ranking, models[1], line, line, 10) is not None
    late = line.copy()
    late[30] -= 10
    assert simulation.track_of(ranking, models[1], line, late, 10) is None
    far = line.copy()
    far[3] += 10**9
    assert simulation.track_of(ranking, models[1], far, line, 10) is None
