import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tolerant.polling import Chain

E = [((1, 1), 1, 0.8), ((6, 3), 2, 1.76), ((2, 2), 1, 1.152), ((0, 4), 0, 0.2304)]


def test_example_e():
    chain = Chain(1.0, states=5)
    for (change, ticks), state, diffusion in E:
        chain.observe(change, ticks)
        assert chain.state == state
        assert chain.diffusion == pytest.approx(diffusion)
    counts = np.zeros((5, 5))
    for x, y, n in [(0, 1, 1), (1, 2, 1), (2, 2, 2), (2, 1, 1), (1, 1, 1), (1, 0, 1), (0, 0, 3)]:
        counts[x + 2, y + 2] = n
    assert chain.counts.tolist() == counts.tolist()
    third = 1 / 3
    expected = [
        [1, 0, 0, 0, 0],
        [0, 1, 0, 0, 0],
        [0, 0, 0.75, 0.25, 0],
        [0, 0, third, third, third],
        [0, 0, 0, third, 2 * third],
    ]
    assert np.allclose(chain.probabilities(), expected)
    assert [round(chain.expected(ticks), 4) for ticks in (0, 1, 2, 5)] == [0.0, 0.25, 0.6875, 2.6587]


@given(st.lists(st.tuples(st.floats(-1e6, 1e6), st.integers(1, 50)), max_size=20), st.sampled_from([0.0, 1e-9, 1.0]))
def test_it_counts_every_tick_once_and_probabilities_are_some(pulls, spacing):
    chain = Chain(spacing, states=7)
    for change, ticks in pulls:
        chain.observe(change, ticks)
    assert chain.counts.sum() == sum(ticks for _, ticks in pulls)
    assert np.allclose(chain.probabilities().sum(axis=1), 1.0)
    p, step = chain.probabilities(), np.arange(-3, 4) * spacing
    at = np.eye(7)[chain.state + 3]
    assert chain.expected(3) == pytest.approx(sum((at @ np.linalg.matrix_power(p, m)) @ step for m in (1, 2, 3)))


@given(st.floats(-5, 5), st.integers(1, 20))
def test_a_constant_bias_is_learned_whole(rate, ticks):
    chain = Chain(0.0)
    for _ in range(30):
        chain.observe(rate * ticks, ticks)
    assert chain.diffusion == pytest.approx(rate, abs=1e-9)


def test_bad_arguments_are_named():
    for make, message in [
        (lambda: Chain(-1.0), "spacing"),
        (lambda: Chain(1.0, states=4), "states"),
        (lambda: Chain(1.0, smoothing=2), "smoothing"),
        (lambda: Chain(1.0).observe(float("nan"), 1), "change"),
        (lambda: Chain(1.0).observe(1.0, 0), "ticks"),
        (lambda: Chain(1.0).expected(-1), "ticks"),
    ]:
        with pytest.raises(ValueError, match=message):
            make()
