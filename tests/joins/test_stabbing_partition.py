import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from joins_twin import fewest_groups

from tolerant.joins import stabbing_partition
from tolerant.joins.partition import canonical

TEN = [(1, 4), (2, 6), (3, 5), (3.5, 9), (7, 10), (8, 12), (8.5, 9.5), (9, 14), (13, 16), (15, 18)]
INF = np.inf
ends = st.one_of(st.integers(-6, 6).map(float), st.floats(-5, 5))


@st.composite
def intervals(draw):
    found = []
    for _ in range(draw(st.integers(0, 25))):
        low, high = sorted((draw(ends), draw(ends)))
        if draw(st.integers(0, 9)) == 0:
            low = -INF
        if draw(st.integers(0, 9)) == 0:
            high = INF
        found.append((low, high))
    return found


def test_ten_intervals_of_figure_4_1():
    lows, highs = zip(*TEN, strict=True)
    group, points = stabbing_partition(lows, highs)
    assert group.tolist() == [0, 0, 0, 0, 1, 1, 1, 1, 2, 2]
    assert points.tolist() == [3.5, 9, 15]
    partition = canonical(np.array(lows, float), np.array(highs, float))
    assert list(zip(partition.low, partition.high, strict=True)) == [(3.5, 4), (9, 9.5), (15, 16)]
    assert partition.witness.tolist() == [0, 6, 8]


def test_ends_are_closed_and_may_be_infinite():
    assert stabbing_partition([0, 1, 2], [1, 2, 3])[0].tolist() == [0, 0, 1]
    group, points = stabbing_partition([-INF, -INF, 4], [1, INF, INF])
    assert group.tolist() == [0, 0, 1]
    assert points.tolist() == [1, 4]
    assert stabbing_partition([-INF], [INF])[1].tolist() == [0]
    assert [len(part) for part in stabbing_partition([], [])] == [0, 0]


@given(intervals())
def test_groups_share_their_point_and_are_the_fewest(given):
    lows, highs = np.array(given).reshape(-1, 2).T
    group, points = stabbing_partition(lows, highs)
    assert len(points) == fewest_groups(given)
    assert np.isfinite(points).all()
    assert (lows <= points[group]).all()
    assert (points[group] <= highs).all()
    assert sorted(set(group.tolist())) == list(range(len(points)))
    assert (np.diff(points) > 0).all()
    witness = canonical(lows.copy(), highs.copy()).witness
    assert (lows[witness][1:] > highs[witness][:-1]).all()


@given(intervals(), st.randoms())
def test_the_order_of_intervals_does_not_matter(given, random):
    order = list(range(len(given)))
    random.shuffle(order)
    lows, highs = np.array(given).reshape(-1, 2).T
    group, points = stabbing_partition(lows, highs)
    again, same = stabbing_partition(lows[order], highs[order])
    assert again.tolist() == group[order].tolist()
    assert same.tolist() == points.tolist()


@pytest.mark.parametrize(
    ("lows", "highs", "message"),
    [
        ([0, 2], [1, 1], "lows must be at most highs.*2.0 and 1.0 at index 1"),
        ([0, np.nan], [1, 1], "lows must be numbers, got NaN at index 1"),
        ([0], [np.nan], "highs must be numbers"),
        ([INF], [INF], "index 0"),
        ([-INF], [-INF], "index 0"),
        ([0, 1], [2], "same length, got lows 2, highs 1"),
        ([[0]], [[1]], "lows must have one dimension"),
        (["a"], ["b"], "lows must be numbers"),
    ],
)
def test_bad_intervals_are_named(lows, highs, message):
    with pytest.raises(ValueError, match=message):
        stabbing_partition(lows, highs)
