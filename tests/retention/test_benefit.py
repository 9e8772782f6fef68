import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tolerant.retention import (
    Exponential,
    Fixed,
    Stationary,
    Trend,
    UniformNoise,
    Walk,
    dominated,
    dominates,
    ecb,
    heeb,
)

TABLES = st.integers(0, 2**32).map(lambda seed: np.random.default_rng(seed).integers(0, 4, (6, 3)).cumsum(axis=1) / 12)


@settings(max_examples=60, deadline=None)
@given(TABLES, st.integers(0, 6))
def test_the_largest_dominated_subset(table, discard):
    def is_dominated(subset):
        rest = [row for row in range(len(table)) if row not in subset]
        return all(dominates(table[x], table[y]) for x in rest for y in subset)

    sizes = [
        size
        for size in range(discard + 1)
        if any(is_dominated(subset) for subset in itertools.combinations(range(len(table)), size))
    ]
    found = dominated(table, discard).tolist()
    assert is_dominated(found)
    assert len(found) == max(sizes)


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32), st.floats(0.1, 50))
def test_a_dominating_row_scores_no_less(seed, alpha):
    """Theorem 10, for exponential survival: Σ L·ΔB is a sum of B's with weights that are not negative."""
    gains = np.random.default_rng(seed).random((2, 30))
    weights = np.exp(-np.arange(1, 31) / alpha)
    benefit = np.cumsum(gains, axis=1)
    if dominates(benefit[0], benefit[1]):
        assert gains[0] @ weights >= gains[1] @ weights - 1e-12


@pytest.mark.parametrize(("narrow", "wide"), [(2, 5), (10, 15), (1, 9)])
def test_rows_of_two_trends_with_uniform_noise(narrow, wide):
    """Section 3.5.3 as corrected: f(t) = t, t0 = 0; x a row of r in R2, y a row of s in S2."""
    of_r, of_s = Trend(1, 0, UniformNoise(narrow)), Trend(1, 0, UniformNoise(wide))
    steps = 4 * wide
    for v in range(-wide + 1, narrow + 1):
        wanted = np.minimum(np.arange(1, steps + 1), v + wide) / (2 * wide + 1)
        assert ecb(of_s, [v], [0], steps)[0] == pytest.approx(wanted)
    for v in range(-narrow + 1, narrow + 2):
        wanted = np.minimum(np.arange(1, steps + 1), v + narrow) / (2 * narrow + 1)
        assert ecb(of_r, [v], [0], steps)[0] == pytest.approx(wanted)
    for v in range(narrow + 2, wide + 1):
        ahead = np.arange(1, steps + 1)
        wanted = np.clip(ahead - (v - narrow) + 1, 0, 2 * narrow + 1) / (2 * narrow + 1)
        assert ecb(of_r, [v], [0], steps)[0] == pytest.approx(wanted)
    for v_x in range(-wide + 1, narrow + 1):
        for v_y in range(-narrow + 1, narrow + 2):
            x, y = ecb(of_s, [v_x], [0], steps)[0], ecb(of_r, [v_y], [0], steps)[0]
            assert dominates(y + 1e-12, x) == (
                (v_x + wide) / (2 * wide + 1) <= (v_y + narrow) / (2 * narrow + 1) + 1e-15
            )
            assert not dominates(x - 1e-12, y)


def test_a_walk_without_drift_ranks_by_distance():
    benefit = ecb(Walk(0, 2), [5, 7, 4, 1], [5], 50)
    assert dominates(benefit[0], benefit[2])
    assert dominates(benefit[2], benefit[1])
    assert dominates(benefit[1], benefit[3])


def test_windows_stop_the_benefit():
    model = Stationary({1: 0.25})
    assert ecb(model, [1], [], 4, lives=[2]).tolist() == [[0.25, 0.5, 0.5, 0.5]]
    assert heeb(model, [1], [], Fixed(3), 10, lives=[2]) == pytest.approx([0.5])
    assert ecb(model, [1], [], 3, cached=True)[0] == pytest.approx([0.25, 1 - 0.75**2, 1 - 0.75**3])


def test_a_dependent_stream_first_reference_by_enumeration():
    """An integer walk with steps −1, 0, 1: the renewal identity G(v|x)/(1 + G(v|v)) is exact."""
    alpha, reach, steps = 10.0, 80, 300
    step = np.array([0.25, 0.5, 0.25])
    free, absorbed = np.zeros(2 * reach + 1), np.zeros(2 * reach + 1)
    free[reach], absorbed[reach] = 1.0, 1.0
    joining = returning = first = 0.0
    for d in range(1, steps):
        free, absorbed = np.convolve(free, step, "same"), np.convolve(absorbed, step, "same")
        weight = np.exp(-d / alpha)
        joining += free[reach + 3] * weight
        returning += free[reach] * weight
        first += absorbed[reach + 3] * weight
        absorbed[reach + 3] = 0.0
    assert joining / (1 + returning) == pytest.approx(first, rel=1e-9)


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: ecb(Stationary({1: 1.0}), [1], [], 0), "steps"),
        (lambda: ecb(Walk(0, 1), [1], [], 3), "history"),
        (lambda: ecb(Walk(0, 1), [1.5], [1], 3), "values"),
        (lambda: dominated(np.zeros(3), 1), "ecbs"),
        (lambda: dominated(np.zeros((3, 1)), -1), "discard"),
        (lambda: Exponential(-1), "alpha"),
    ],
)
def test_what_is_wrong_is_said(call, said):
    with pytest.raises(ValueError, match=said):
        call()
