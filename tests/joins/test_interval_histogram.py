import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from joins_twin import stabbed

from tolerant.joins import Histogram, histogram_error, interval_histogram
from tolerant.joins.offline.histogram import METHODS
from tolerant.joins.offline.segments import segments_of

SIX = [(0, 4), (1, 5), (2, 3), (2, 8), (6, 8), (7, 10)]
LOWS, HIGHS = (np.array(ends, float) for ends in zip(*SIX, strict=True))
intervals = st.lists(st.tuples(st.integers(0, 20), st.integers(0, 20)).map(sorted), min_size=1, max_size=15)


def test_f_of_the_worked_example():
    parts = segments_of(LOWS, HIGHS)
    assert parts.edges.tolist() == [0, 1, 2, 3, 4, 5, 6, 7, 8, 10]
    assert parts.f.tolist() == [1, 2, 4, 3, 2, 1, 2, 3, 1]


def test_the_optimum_of_the_worked_example():
    histograms = [interval_histogram(LOWS, HIGHS, k, "optimal") for k in range(1, 6)]
    errors = [histogram_error(one, LOWS, HIGHS) for one in histograms]
    assert errors == pytest.approx([0.182207, 0.157208, 0.090645, 0.080896, 0.035527], abs=5e-7)
    assert histograms[1].edges.tolist() == [0, 8, 10]
    assert histograms[1].heights == pytest.approx([1.455378, 1], abs=5e-7)
    assert histograms[2].edges.tolist() == [0, 1, 5, 10]
    assert histograms[2].heights == pytest.approx([1, 2.350515, 1.140496], abs=5e-7)


def test_equal_widths_of_the_worked_example():
    five, two = (interval_histogram(LOWS, HIGHS, k, "equal-width") for k in (5, 2))
    assert five.heights == pytest.approx([1.5, 3.5, 1.5, 2.5, 1])
    assert two.heights == pytest.approx([2.4, 1.6])
    assert histogram_error(five, LOWS, HIGHS) == pytest.approx(0.075868, abs=5e-7)
    assert histogram_error(two, LOWS, HIGHS) == pytest.approx(0.357778, abs=5e-7)


@settings(max_examples=60, deadline=None)
@given(intervals, st.integers(1, 8))
def test_every_method_keeps_to_its_buckets_and_none_beats_the_optimum(given, buckets):
    lows, highs = np.array(given, float).T
    errors = {}
    for method in METHODS:
        histogram = interval_histogram(lows, highs, buckets, method)
        assert 1 <= len(histogram.heights) <= buckets
        assert len(histogram.edges) == len(histogram.heights) + 1
        assert (histogram.edges[0], histogram.edges[-1]) == (lows.min(), highs.max())
        assert (np.diff(histogram.edges) > 0).all() or lows.min() == highs.max()
        errors[method] = histogram_error(histogram, lows, highs)
    assert errors["optimal"] <= min(errors.values()) + 1e-9
    assert errors["ssi"] <= errors["equal-width"]


@settings(max_examples=60, deadline=None)
@given(intervals, st.integers(1, 4))
def test_the_optimum_is_what_trying_everything_finds(given, buckets):
    from itertools import combinations

    lows, highs = np.array(given, float).T
    if lows.min() == highs.max():
        return
    parts = segments_of(lows, highs)

    def cost(cuts):
        total = 0.0
        for a, b in zip((0, *cuts), (*cuts, len(parts.f)), strict=True):
            w, y = parts.weight[a:b], parts.f[a:b]
            total += (w * (y - (w * y).sum() / w.sum()) ** 2).sum()
        return total

    steps = min(buckets, len(parts.f))
    least = min(cost(cuts) for cuts in combinations(range(1, len(parts.f)), steps - 1))
    error = histogram_error(interval_histogram(lows, highs, buckets, "optimal"), lows, highs)
    assert error == pytest.approx(least, abs=1e-9)


@given(intervals)
def test_with_buckets_enough_the_count_is_exact(given):
    lows, highs = np.array(given, float).T
    histogram = interval_histogram(lows, highs, 50, "optimal")
    for x in np.arange(lows.min() + 0.5, highs.max()):
        assert histogram.estimate(x) == pytest.approx(stabbed(given, x))


def test_groups_come_close_to_the_optimum():
    rng = np.random.default_rng(1)
    centres = rng.uniform(0, 10_000, 12)[rng.integers(0, 12, 4000)]
    lows, highs = np.round(centres - rng.exponential(80, 4000)), np.round(centres + rng.exponential(80, 4000))
    errors = {m: histogram_error(interval_histogram(lows, highs, 40, m), lows, highs) for m in METHODS}
    assert errors["ssi"] <= 1.35 * errors["optimal"]
    assert errors["greedy"] <= 1.35 * errors["optimal"]
    assert errors["ssi"] < errors["ssi-sum"]


def test_a_density_moves_the_buckets():
    left = interval_histogram(LOWS, HIGHS, 2, "optimal", density=lambda x: np.clip(x / 3, 0, 1))
    assert left.edges[1] <= 3
    with pytest.raises(ValueError, match="density must be a cumulative"):
        interval_histogram(LOWS, HIGHS, 2, density=lambda x: x * 0)


def test_estimates_inside_outside_and_at_the_ends():
    histogram = Histogram(np.array([0.0, 1.0, 2.0]), np.array([5.0, 7.0]))
    assert histogram.estimate(1) == 7.0
    assert histogram.estimate(2) == 7.0
    assert histogram.estimate(2.1) == 0.0
    assert histogram.estimate([-1, 0, 0.5, 1.5]).tolist() == [0, 5, 5, 7]


def test_nothing_and_single_points():
    assert interval_histogram([], [], 3).estimate(0.0) == 0.0
    assert interval_histogram([2, 2], [2, 2], 3).estimate(2) == 2.0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([0], [np.inf], 3), "highs must be finite"),
        (([1], [0], 3), "lows must be at most highs"),
        (([0], [1], 0), "buckets must be at least 1, got 0"),
        (([0], [1], 3, "best"), "method must be one of"),
    ],
)
def test_bad_arguments_are_named(arguments, message):
    with pytest.raises(ValueError, match=message):
        interval_histogram(*arguments)
