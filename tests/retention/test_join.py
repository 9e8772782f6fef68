import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from retention_twin import by_frequency, by_life, by_scorer, slow_join

from tolerant.retention import (
    AR1,
    Exponential,
    Fixed,
    Forever,
    Known,
    NormalNoise,
    Scripted,
    Stationary,
    Trend,
    UniformNoise,
    Walk,
    fit,
    heeb,
    join,
)
from tolerant.retention.scorer import ENDLESS, score
from tolerant.retention.scorer_tables import scorer_of

FEW = settings(max_examples=40, deadline=None)
TICKS = 40


def streams(draw_values):
    return st.tuples(*[st.lists(draw_values, min_size=TICKS, max_size=TICKS).map(np.array)] * 2)


def agree(run, slow):
    results, of_r, of_all = slow
    assert run.results == results
    assert run.share_r == (of_r / of_all if of_all else pytest.approx(np.nan, nan_ok=True))


@FEW
@given(streams(st.integers(-4, 4)), st.integers(0, 9), st.none() | st.integers(0, 12), st.integers(0, 50))
def test_frequencies_agree_to_the_row(rows, memory, window, warmup):
    r, s = rows
    slow = slow_join(r, s, memory, by_frequency(r, s), window, warmup)
    agree(join(r, s, memory, "prob", window=window, warmup=warmup), slow)


@FEW
@given(streams(st.integers(-4, 4)), st.integers(0, 9), st.integers(0, 15))
def test_lives_agree_to_the_row(rows, memory, window):
    r, s = rows
    agree(join(r, s, memory, "life", window=window), slow_join(r, s, memory, by_life(r, s), window))


P = {-4: 0.02, -3: 0.3, -2: 0.05, -1: 0.11, 0: 0.2, 1: 0.07, 2: 0.13, 3: 0.01}


@FEW
@given(
    streams(st.integers(-4, 4)), st.integers(0, 9), st.none() | st.integers(0, 15), st.sampled_from([0.4, 3.0, 50.0])
)
def test_what_does_not_move_agrees_with_its_definition(rows, memory, window, alpha):
    r, s = rows
    sums = np.concatenate([[0.0], np.cumsum(np.exp(-np.arange(1, 10_000) / alpha))])

    def scored(stream, value, life, t):
        return P.get(value, 0.0) * sums[min(life, len(sums) - 1)]

    models = (Stationary(P), Stationary(P))
    run = join(r, s, memory, models=models, survival=Exponential(alpha), window=window)
    agree(run, slow_join(r, s, memory, scored, window))


def moving(draw_offsets):
    lines = np.arange(TICKS)
    return streams(draw_offsets).map(lambda rows: (rows[0] + lines - 1, rows[1] + lines))


MODELS = [
    (Trend(1, -1, UniformNoise(3)), Trend(1, 0, UniformNoise(5))),
    (Trend(1, -1, NormalNoise(0.7, 4)), Trend(1, 0, NormalNoise(1.5, 6))),
    (Trend(2, 0, UniformNoise(3)), Trend(2, 1, NormalNoise(1.5, 6))),
    (Trend(0.6, 0, UniformNoise(3)), Trend(0.7, 1, NormalNoise(1.5, 6))),
    (Trend(-1, 3, UniformNoise(4)), Trend(-1, 0, NormalNoise(2.0, 5))),
    (Walk(0, 1), Walk(0.3, 2)),
    (Walk(4, 0.5), Trend(1, 0, UniformNoise(3))),
    (AR1(2, 0.8, 2), AR1(-1, 0.3, 4)),
]


@pytest.mark.parametrize("models", MODELS, ids=str)
@settings(max_examples=12, deadline=None)
@given(
    rows=moving(st.integers(-8, 8)),
    memory=st.integers(1, 9),
    window=st.none() | st.integers(1, 15),
    survival=st.sampled_from([Exponential(3.0), Exponential(20.0), Fixed(4), Fixed(1)]),
)
def test_fast_choices_are_those_of_a_full_search(models, rows, memory, window, survival):
    r, s = rows
    span = (min(r.min(), s.min()), max(r.max(), s.max()))
    scorers = [scorer_of(models[1 - k], [survival], window=window, span=span) for k in (0, 1)]
    slow = slow_join(r, s, memory, by_scorer(r, s, scorers), window)
    agree(join(r, s, memory, models=models, survival=survival, window=window), slow)


@pytest.mark.parametrize("models", [*MODELS, (Known(np.arange(30) % 7), Scripted([{1: 0.5, 2: 0.5}] * 30))], ids=str)
@pytest.mark.parametrize("survival", [Exponential(3.0), Exponential(30.0), Fixed(4)], ids=str)
def test_scores_are_those_of_the_definition(models, survival):
    values = np.arange(-12, 13)
    for model in models:
        for cached in (False, True):
            if cached and isinstance(model, AR1) and isinstance(survival, Fixed):
                continue  # a table over ticks; below
            scorer = scorer_of(model, [survival], cached=cached, span=(-12, 12))
            last, tick = np.int64(3), np.int64(2)
            plain = heeb(model, values, [0, 0, 3], survival, 1200, cached)
            found = [score(scorer, np.int64(0), np.int64(v), ENDLESS, tick, last)[0] for v in values]
            assert np.exp(found) == pytest.approx(plain, rel=2e-3 if cached else 1e-5, abs=1e-9)


@pytest.mark.parametrize("model", [Walk(0.3, 2), AR1(2, 0.8, 2)], ids=str)
@pytest.mark.parametrize("survival", [Fixed(4), Forever()], ids=str)
def test_a_cache_of_a_dependent_stream_with_other_survivals(model, survival):
    scorer = scorer_of(model, [survival], cached=True, span=(-12, 12))
    values = np.arange(-12, 13)
    plain = heeb(model, values, [3], survival, 256, cached=True)
    found = [score(scorer, np.int64(0), np.int64(v), ENDLESS, np.int64(0), np.int64(3))[0] for v in values]
    assert np.exp(found) == pytest.approx(plain, rel=1e-6, abs=1e-9)


@pytest.mark.parametrize("model", [Walk(0, 1), Walk(0.5, 1), AR1(2, 0.8, 2), Trend(1, 0, UniformNoise(3))], ids=str)
def test_scores_within_a_window(model):
    scorer = scorer_of(model, [Exponential(8.0)], window=30, span=(-12, 12))
    values = np.arange(-9, 12)
    for life in (1, 2, 7, 30):
        plain = heeb(model, values, [3], Exponential(8.0), 40, lives=[life] * len(values))
        found = [score(scorer, np.int64(0), np.int64(v), np.int64(life), np.int64(0), np.int64(3))[0] for v in values]
        assert np.exp(found) == pytest.approx(plain, rel=1e-6, abs=1e-12)


def test_a_row_that_nothing_asks_for_never_outranks_one_that_something_does():
    """The printed recursion says otherwise after some sixty ticks: rounding errors grow by e^(1/α) each."""
    scorer = scorer_of(Trend(1, 0, NormalNoise(2, 15)), [Exponential(2.466)])
    ahead = [score(scorer, np.int64(0), np.int64(15), ENDLESS, np.int64(t), np.int64(0))[0] for t in range(80)]
    assert all(np.isfinite(ahead[:29]))
    assert ahead[30:] == [-np.inf] * 50


def test_a_known_future_far_away_is_not_lost():
    far = Known([0] * 5000 + [1] + [0] * 3000 + [2])
    scorer = scorer_of(far, [Exponential(0.5)])
    one, two, three = (score(scorer, np.int64(0), np.int64(v), ENDLESS, np.int64(0), np.int64(0))[0] for v in (1, 2, 3))
    assert one > two > three == -np.inf


@pytest.mark.parametrize("policy", ["rand", "prob", "heeb", "optimal", "flow-expect"])
def test_values_may_be_huge_and_streams_empty(policy):
    big = 2**62
    r, s = np.array([big, -big, 5, big]), np.array([-big, big, big, 5])
    models = (Walk(0, 1), Walk(0, 1)) if policy == "flow-expect" else None
    assert join(r, s, 3, policy, models=models).results >= 1
    empty = join([], [], 3, policy, models=models)
    assert empty.results == 0
    assert np.isnan(empty.share_r)
    assert join(r, s, 0, policy, models=models).results == 0


@pytest.mark.parametrize("models", [(Walk(0, 1), Walk(2, 5)), (Trend(1, 0, UniformNoise(3)),) * 2], ids=str)
def test_models_take_huge_values(models):
    big = 2**62
    assert join([big, -big, 5], [-big, big, 5], 2, models=models).results in range(3)


def test_chance_is_fair_and_repeatable():
    r, s = np.random.default_rng(0).integers(0, 5, (2, 400))
    runs = {join(r, s, 10, "rand", seed=seed).results for seed in range(8)}
    assert len(runs) > 3
    assert join(r, s, 10, "rand", seed=3) == join(r, s, 10, "rand", seed=3)
    shares = [join(r, s, 10, "rand", seed=seed).share_r for seed in range(20)]
    assert np.mean(shares) == pytest.approx(0.5, abs=0.02)


GOOD = {"r": [1, 2], "s": [1, 2], "memory": 1}


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"s": [1]}, "r and s"),
        ({"memory": -1}, "memory"),
        ({"memory": 1.5}, "memory"),
        ({"warmup": -1}, "warmup"),
        ({"policy": "best"}, "policy"),
        ({"policy": "flow-expect"}, "models"),
        ({"policy": "life"}, "window"),
        ({"r": [1.5, 2]}, "r must"),
        ({"r": [np.nan, 2]}, "r must"),
        ({"r": [[1], [2]]}, "r must"),
        ({"r": ["a", "b"]}, "r must"),
        ({"r": [2**62 + 1, 0]}, "r must"),
        ({"lookahead": 0}, "lookahead"),
        ({"window": -1}, "window"),
        ({"models": (Walk(0, 1),)}, "models"),
        ({"models": Walk(0, 1)}, "models"),
        ({"survival": Forever()}, "survival"),
        ({"survival": "tuned"}, "survival"),
    ],
)
def test_what_is_wrong_is_said(wrong, said):
    with pytest.raises(ValueError, match=said):
        join(**{**GOOD, **wrong})


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: Stationary({1: -0.1}), "probabilities"),
        (lambda: Stationary({1: 0.7, 2: 0.4}), "probabilities"),
        (lambda: Stationary([0.5, np.nan]), "probabilities"),
        (lambda: Scripted([{1: 2.0}]), r"ticks\[0\]"),
        (lambda: Walk(0, -1), "sigma"),
        (lambda: AR1(np.inf, 0, 1), "constant"),
        (lambda: UniformNoise(-1), "bound"),
        (lambda: NormalNoise(-1, 3), "sigma"),
        (lambda: Trend(1, 0, 3), "noise"),
        (lambda: Known([0.5]), "values"),
        (lambda: Exponential(0), "alpha"),
        (lambda: Fixed(0), "steps"),
        (lambda: fit([0.5]), "values"),
    ],
)
def test_models_say_what_is_wrong(make, said):
    with pytest.raises(ValueError, match=said):
        make()


def test_a_stream_that_runs_away_is_warned_of():
    with pytest.warns(UserWarning, match="runs away"):
        AR1(0, 1.1, 1)
