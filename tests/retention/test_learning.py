import numpy as np
import pytest

from tolerant.retention import AR1, NormalNoise, Stationary, Trend, UniformNoise, Walk, cache, fit, join
from tolerant.retention.frequencies import DecayedFrequencies
from tolerant.retention.learner import Learner

RNG = np.random.default_rng(11)
N = 600
TICKS = np.arange(N)


def reverting(n=N):
    out, x = np.empty(n), 0.0
    for t in range(n):
        x = 0.8 * x + 3 + RNG.normal(0, 4)
        out[t] = x
    return np.rint(out).astype(int)


def test_fit_finds_what_it_was_made_by():
    rising = fit(TICKS - 1 + np.clip(np.rint(RNG.normal(0, 2, N)), -9, 9).astype(int))
    assert isinstance(rising, Trend)
    assert (rising.slope, isinstance(rising.noise, NormalNoise)) == (1.0, True)
    assert rising.noise.sigma == pytest.approx(2, rel=0.15)
    even = fit(3 * TICKS + RNG.integers(-7, 8, N))
    assert even == Trend(3.0, 0, UniformNoise(7))
    slow = fit(np.rint(0.37 * TICKS + RNG.normal(0, 2, N)).astype(int))
    assert isinstance(slow, Trend)
    assert slow.slope == pytest.approx(0.37, abs=0.01)
    walk = fit(np.cumsum(np.rint(RNG.normal(0.2, 3, N))).astype(int))
    assert isinstance(walk, Walk)
    assert walk.sigma == pytest.approx(3, rel=0.15)
    back = fit(reverting())
    assert type(back) is AR1
    assert back.phi == pytest.approx(0.8, abs=0.08)
    same = fit(RNG.choice(4, N, p=[0.4, 0.3, 0.2, 0.1]))
    assert isinstance(same, Stationary)
    assert same.chance(np.array([0]))[0] == pytest.approx(0.4, abs=0.08)


def test_fit_takes_very_little():
    assert fit([]).chance(np.array([1])).tolist() == [0.0]
    assert fit([4, 4]).chance(np.array([4])).tolist() == [1.0]
    assert isinstance(fit([3, 3, 3, 3]), Stationary)


def test_frequencies_forget():
    counts = DecayedFrequencies([2.0, np.inf])
    counts.observe(np.array([1, 1, 1, 2, 2, 2]))
    one, two = counts.weights(np.array([1, 2]), 0)
    assert two > 2 * one > 0
    assert counts.weights(np.array([1, 2]), 1).tolist() == [3.0, 3.0]
    counts.scale()
    again = counts.weights(np.array([1, 2]), 0)
    assert again[0] / again[1] == pytest.approx(one / two)


def test_many_values_come_and_go():
    counts = DecayedFrequencies([50.0])
    for start in range(0, 20_000, 500):
        counts.observe(np.arange(start, start + 500))
        if counts.needs_scaling():
            counts.scale()
    assert len(counts.state()["keys"]) <= 16_384
    weights = counts.weights(np.array([19_999, 19_949, 3]), 0)
    assert weights[1] / weights[0] == pytest.approx(np.exp(-1), rel=1e-6)


def learned(values, memory=10):
    learner = Learner(memory)
    for start in range(0, len(values), 50):
        ticks = np.arange(start, min(start + 50, len(values)))
        learner.observe(ticks, values[ticks])
        learner.review()
    return learner


def test_a_learner_comes_to_believe_the_truth():
    assert isinstance(learned(TICKS + RNG.integers(-3, 4, N)).model, Trend)
    assert isinstance(learned(np.cumsum(np.rint(RNG.normal(0, 5, N))).astype(int)).model, AR1)
    assert isinstance(learned(reverting()).model, AR1)
    assert learned(RNG.choice(30, N, p=np.arange(1, 31) / 465)).model is None


def test_a_learner_notices_a_change():
    walk = np.cumsum(np.rint(RNG.normal(0, 4, N))).astype(int)
    learner = learned(np.concatenate([RNG.integers(0, 4, N), walk]))
    assert learner.model is not None


def trends(sigma_r, sigma_s, n, seed):
    rng = np.random.default_rng(seed)
    ticks = np.arange(n)
    noise = [np.clip(np.rint(rng.normal(0, s, n)), -b, b).astype(int) for s, b in ((sigma_r, 10), (sigma_s, 15))]
    models = (Trend(1, -1, NormalNoise(sigma_r, 10)), Trend(1, 0, NormalNoise(sigma_s, 15)))
    return ticks - 1 + noise[0], ticks + noise[1], models


@pytest.mark.parametrize(("sigma_r", "sigma_s"), [(1.0, 2.0), (3.3, 5.0)])
def test_trends_are_learned_within_five_hundred_ticks(sigma_r, sigma_s):
    r, s, models = trends(sigma_r, sigma_s, 2500, 3)
    true = join(r, s, 10, models=models, warmup=500).results
    assert join(r, s, 10, warmup=500).results >= 0.9 * true


def test_a_cache_learns_which_values_are_hot():
    weights = 1 / np.arange(1, 1001) ** 0.9
    values = RNG.choice(1000, 8000, p=weights / weights.sum())
    best = max(cache(values, 60, policy).hits for policy in ("lru", "lfu"))
    assert cache(values, 60).hits >= 0.95 * best
    moving = (values + np.arange(8000) // 40) % 1000
    best = max(cache(moving, 60, policy).hits for policy in ("lru", "lfu"))
    assert cache(moving, 60).hits >= 0.95 * best


@pytest.mark.parametrize("noise", [0, 1])
def test_streams_with_hardly_any_noise_are_joined_across_a_lag(noise):
    rng, line = np.random.default_rng(noise), np.arange(1000)
    r, s = line + rng.integers(-noise, noise + 1, 1000), line - 20 + rng.integers(-noise, noise + 1, 1000)
    assert join(r, s, 30).results >= 0.9 * join(r, s, 30, "optimal").results
