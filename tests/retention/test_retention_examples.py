"""The worked examples of `docs/design/retention.md` §3, to the digit."""

import numpy as np
import pytest

from tolerant.retention import (
    AR1,
    Exponential,
    Known,
    NormalNoise,
    Scripted,
    Stationary,
    Trend,
    UniformNoise,
    Walk,
    cache,
    ecb,
    heeb,
    join,
)
from tolerant.retention.offline.flow_expect import decide
from tolerant.retention.offline.occurrences import reduced
from tolerant.retention.survival import of_mean_life
from tolerant.retention.walk_scores import h1

R = [1, 2, 1, 3, 2, 1, 2, 3]
S = [2, 1, 1, 2, 3, 2, 1, 1]
OFTEN = Stationary({1: 0.5, 2: 0.3, 3: 0.2})
T = np.arange(200)
LONG_R = T - 1 + ((7 * T * T + 3 * T) % 21) - 10
LONG_S = T + ((11 * T * T + 5 * T) % 31) - 15
TRENDS = (Trend(1, -1, UniformNoise(10)), Trend(1, 0, UniformNoise(15)))
SEEDS = Exponential(11.9931)


def run(*arguments, **options):
    found = join(*arguments, **options)
    return found.results, found.share_r


def test_frequencies_on_eight_rows():
    assert run(R, S, 1, "prob") == (2, 0.875)
    assert run(R, S, 1, "prob", window=3)[0] == 2
    assert run(R, S, 1, "life", window=3) == (3, 0.875)
    assert run(R, S, 2, "prob") == (5, 0.625)
    assert run(R, S, 2, "life", window=3) == (6, 0.5)


@pytest.mark.parametrize(("memory", "results", "share"), [(1, 3, 0.625), (2, 8, 0.5)])
def test_benefit_is_frequency_when_nothing_moves(memory, results, share):
    assert run(R, S, memory, models=(OFTEN, OFTEN)) == (results, share)
    assert run(R, S, memory, "prob", models=(OFTEN, OFTEN)) == (results, share)


def test_the_optimum_on_eight_rows():
    assert [join(R, S, memory, "optimal").results for memory in (1, 2)] == [6, 10]
    assert join(R, S, 2, "optimal", window=3).results == 10


@pytest.mark.parametrize(("lookahead", "results"), [(1, 5), (2, 6), (8, 6)])
def test_plans_over_a_known_future(lookahead, results):
    known = (Known(R), Known(S))
    assert join(R, S, 1, "flow-expect", models=known, lookahead=lookahead).results == results


def test_a_plan_that_cannot_look_is_not_the_best():
    """Section 3.3.4: 1.6, 1.5 and 0.5 fixed beforehand, of which looking would make 1.75 of the second."""
    of_r = Scripted([{}, {2: 1.0}, {3: 1.0}, {2: 0.5}])
    of_s = Scripted([{}, {3: 0.5}, {1: 0.8}, {1: 0.8}])
    values = {"r 1": (1, of_s), "s 2": (2, of_r), "r nothing": (-5, of_s)}
    gains = {name: model.chances(np.array([value]), 0, None, 3) for name, (value, model) in values.items()}
    later = np.zeros((2, 3, 3))
    for i in range(3):
        for j in range(3):
            for v in (1, 2, 3):
                own_r, own_s = (model.chances(np.array([v]), 0, None, 3)[0] for model in (of_r, of_s))
                later[0, i, j] += own_r[i] * own_s[j]
                later[1, i, j] += own_s[i] * own_r[j]
    plans = {name: decide(one, later, 1) for name, one in gains.items()}
    assert plans["r 1"][1] == pytest.approx(1.6)
    kept, best = decide(np.vstack(list(gains.values())), later, 1)
    assert best == pytest.approx(1.6)
    assert kept.tolist() == [True, False, False]
    # Taking s 2 gains 1 at once; what comes at t0+1 then is worth 0.5 (s 3 met by r 3 at t0+2, if it came).
    assert gains["s 2"][0].tolist() == [1.0, 0.0, 0.5]
    assert later[1, 0, 1] == pytest.approx(0.5)
    assert gains["s 2"][0, 0] + later[1, 0, 1] == pytest.approx(1.5)
    assert 1.0 + 0.5 * 1.0 + 0.5 * 0.5 == 1.75  # having looked: s 3 if it came, else s 2 goes on to t0+3


TABLE: dict[int, list] = {
    5: [(0, 0.4825), (0, 0.4888), (7, 0.5062), (36, 0.185), (31, 0.3937), 115, 100],
    10: [(0, 0.4794), (9, 0.5069), (26, 0.4838), (58, 0.4756), (52, 0.5606), 153, 110],
    20: [(2, 0.5062), (51, 0.4994), (49, 0.4706), (137, 0.5972), (110, 0.5381), 157, 110],
}


@pytest.mark.parametrize("memory", TABLE)
def test_trends_over_two_hundred_ticks(memory):
    found = [
        run(LONG_R, LONG_S, memory, "prob", warmup=40),
        run(LONG_R, LONG_S, memory, "prob", window=26, warmup=40),
        run(LONG_R, LONG_S, memory, "life", window=26, warmup=40),
        run(LONG_R, LONG_S, memory, models=TRENDS, survival=SEEDS, warmup=40),
        run(LONG_R, LONG_S, memory, models=TRENDS, survival=SEEDS, window=12, warmup=40),
    ]
    for (results, share), (wanted, wanted_share) in zip(found, TABLE[memory][:5], strict=True):
        assert results == wanted
        assert share == pytest.approx(wanted_share, abs=6e-5)
    assert join(LONG_R, LONG_S, memory, "optimal", warmup=40).results == TABLE[memory][5]
    assert join(LONG_R, LONG_S, memory, "optimal", window=12, warmup=40).results == TABLE[memory][6]


@pytest.mark.parametrize(("memory", "results", "share"), [(5, 39, 0.10375), (10, 58, 0.4631), (20, 137, 0.5972)])
def test_a_life_that_is_no_longer_than_the_memory(memory, results, share):
    found = run(LONG_R, LONG_S, memory, models=TRENDS, warmup=40)
    assert found == (results, pytest.approx(share, abs=6e-5))


def test_alpha_of_a_mean_life():
    lives = {2: 1.4427, 3: 2.4663, 5: 4.4814, 8.3: 7.7893, 10: 9.4912, 12.5: 11.9931}
    assert {life: round(of_mean_life(life).alpha, 4) for life in lives} == lives


REFERENCES = [1, 2, 3, 1, 4, 2, 5, 1, 2, 3, 1, 5, 2, 1, 4]
ASKED = Stationary({1: 0.35, 2: 0.25, 3: 0.15, 4: 0.13, 5: 0.12})


@pytest.mark.parametrize(
    ("policy", "model", "hits"),
    [
        ("lru", None, [0, 0, 4]),
        ("lfu", None, [0, 5, 6]),
        ("optimal", None, [4, 7, 8]),
        ("heeb", Known(REFERENCES), [4, 7, 8]),
        ("heeb", ASKED, [4, 7, 8]),
    ],
)
def test_a_small_cache(policy, model, hits):
    assert [cache(REFERENCES, memory, policy, model=model).hits for memory in (1, 2, 3)] == hits


def test_a_cache_as_a_join():
    pairs = {(7, 0): 0, (7, 1): 1, (7, 2): 2, (7, 3): 3, (8, 0): 4, (8, 1): 5, (9, 0): 6, (9, 1): 7}
    r, s = reduced(np.array([7, 8, 7, 9, 7]))
    assert r.tolist() == [pairs[pair] for pair in [(7, 0), (8, 0), (7, 1), (9, 0), (7, 2)]]
    assert s.tolist() == [pairs[pair] for pair in [(7, 1), (8, 1), (7, 2), (9, 1), (7, 3)]]


TREND = Trend(1, 0, UniformNoise(2))


def test_benefit_of_a_trend():
    found = ecb(TREND, [-2, 0, 3, 4], [0], 6)
    wanted = [[0] * 6, [0.2, 0.4, 0.4, 0.4, 0.4, 0.4], [0.2, 0.4, 0.6, 0.8, 1, 1], [0, 0.2, 0.4, 0.6, 0.8, 1]]
    assert found == pytest.approx(np.array(wanted))
    joining = heeb(TREND, np.arange(-2, 7), [0], Exponential(4), 40)
    wanted_joining = [0, 0.155760, 0.277066, 0.371540, 0.445115, 0.502416, 0.391282, 0.304731, 0.237325]
    assert joining == pytest.approx(wanted_joining, abs=6e-7)
    caching = heeb(TREND, np.arange(-2, 3), [0], Exponential(4), 40, cached=True)
    assert caching == pytest.approx([0, 0.155760, 0.252805, 0.313268, 0.350939], abs=6e-7)


def test_benefit_of_a_walk_and_of_one_that_reverts():
    wanted = [1.635209, 1.377889, 0.924045, 0.589462, 0.376868, 0.240985]
    assert h1(np.arange(6.0), 0.0, 1.0, 10.0) == pytest.approx(wanted, abs=6e-7)
    assert heeb(Walk(0, 1), np.arange(6), [0], Exponential(10), 400) == pytest.approx(wanted, abs=6e-7)
    reverts = AR1(5.59, 0.72, 4.22)
    joining = heeb(reverts, [10, 20, 30], [20], Exponential(10), 400)
    assert joining == pytest.approx([0.14570, 0.66507, 0.14322], abs=6e-6)
    caching = heeb(reverts, [10, 20, 30], [20], Exponential(10), 200, cached=True)
    assert caching == pytest.approx([0.11338, 0.39942, 0.11172], abs=2e-5)


def test_noise():
    assert NormalNoise(1, 10).pmf([0, 1]) == pytest.approx([0.382925, 0.241730], abs=6e-7)
    assert NormalNoise(2, 15).pmf([0]) == pytest.approx([0.197413], abs=6e-7)
    assert NormalNoise(3.3, 10).pmf([10]) == pytest.approx([0.00126612], abs=6e-9)


def test_windows_rank_three_rows():
    """Section 2.10: remaining lives 1, 50 and 51."""
    model = Stationary({1: 0.50, 2: 0.49, 3: 0.01})
    for alpha, wanted in [(10, [0.4524, 4.6277, 0.0945]), (1, [0.1839, 0.2852, 0.0058])]:
        found = heeb(model, [1, 2, 3], [], Exponential(alpha), 60, lives=[1, 50, 51])
        assert found == pytest.approx(wanted, abs=6e-5)
