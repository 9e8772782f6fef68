import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from joins_twin import fewest_groups
from test_stabbing_partition import TEN

from tolerant.joins import Hotspots, StabbingPartition, stabbing_partition
from tolerant.joins.offline.dynamic_partition import PLACEMENTS, TRIGGERS

STEPS = [(10, 4.2, 4.8), (11, 6.2, 6.8), (12, 11, 13), 0, 4, 2, (13, 3.2, 3.4)]


def started(**options):
    partition = StabbingPartition(**options)
    partition.add_many(range(10), *zip(*TEN, strict=True))
    return partition


def play(partition, step):
    partition.add(*step) if isinstance(step, tuple) else partition.remove(step)


@pytest.mark.parametrize(
    ("placement", "trigger", "groups", "rebuilds"),
    [
        ("simple", "count", [4, 5, 6, 5, 5, 5, 6], [0, 1, 1, 2, 2, 3, 3]),
        ("intersections", "relaxed", [4, 5, 6, 5, 5, 5, 6], [0, 0, 0, 1, 1, 1, 1]),
        ("intersections", "witness", [4, 5, 6, 6, 6, 6, 7], [0] * 7),
    ],
)
def test_seven_updates_of_the_worked_example(placement, trigger, groups, rebuilds):
    partition = started(placement=placement, trigger=trigger)
    sizes = []
    for step in STEPS:
        play(partition, step)
        sizes.append((len(partition), partition.rebuilds))
    assert sizes == list(zip(groups, rebuilds, strict=True))


def test_from_empty_many_are_the_canonical_partition():
    partition = started()
    assert [partition.group_of(id) for id in range(10)] == [0, 0, 0, 0, 1, 1, 1, 1, 2, 2]
    assert [partition.point(group) for group in range(3)] == [3.5, 9, 15]
    assert partition.members(1) == (4, 5, 6, 7)
    assert (len(partition), partition.size, partition.rebuilds) == (3, 10, 0)


changes = st.lists(
    st.one_of(
        st.tuples(st.integers(0, 30), st.integers(0, 30)).map(sorted),
        st.integers(0, 1000),
    ),
    max_size=60,
)


@pytest.mark.parametrize("placement", PLACEMENTS)
@pytest.mark.parametrize("trigger", TRIGGERS)
@settings(max_examples=25, deadline=None)
@given(changes=changes, epsilon=st.sampled_from([0.25, 1.0, 3.0]))
def test_groups_stay_few_and_share_a_point(placement, trigger, changes, epsilon):
    partition = StabbingPartition(epsilon, placement=placement, trigger=trigger)
    expected = {}
    for number, change in enumerate(changes):
        if isinstance(change, int):
            if not expected:
                continue
            gone = sorted(expected)[change % len(expected)]
            partition.remove(gone)
            del expected[gone]
        else:
            partition.add(number, *change)
            expected[number] = tuple(change)
        assert len(partition) <= (1 + epsilon) * fewest_groups(expected.values())
        groups = {partition.group_of(id) for id in expected}
        assert len(groups) == len(partition)
        assert partition.size == len(expected)
        for group in groups:
            point = partition.point(group)
            assert all(expected[id][0] <= point <= expected[id][1] for id in partition.members(group))
        assert sorted(id for group in groups for id in partition.members(group)) == sorted(expected)


def clustered(rng, n, centres):
    middle = rng.uniform(0, 10_000, centres)[rng.integers(0, centres, n)]
    return middle - rng.exponential(5, n), middle + rng.exponential(5, n)


def test_witnesses_make_rebuilds_rare():
    rebuilds = {}
    for trigger in TRIGGERS:
        rng = np.random.default_rng(1)
        lows, highs = clustered(rng, 1500, 60)
        partition = StabbingPartition(trigger=trigger)
        for id in range(1500):
            partition.add(id, lows[id], highs[id])
        for id in rng.permutation(1500)[:750].tolist():
            partition.remove(id)
        rebuilds[trigger] = partition.rebuilds
    assert rebuilds["witness"] <= 2
    assert rebuilds["witness"] <= rebuilds["relaxed"] < rebuilds["count"]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: StabbingPartition(0), "epsilon must be positive, got 0"),
        (lambda: StabbingPartition(placement="best"), "placement must be one of"),
        (lambda: StabbingPartition(trigger="never"), "trigger must be one of"),
        (lambda: started().add(3, 0, 1), "id must be new, got 3"),
        (lambda: started().add(33, 2, 1), "low must be at most high"),
        (lambda: started().remove(33), "id must be there, got 33"),
        (lambda: started().group_of(33), "id must be there, got 33"),
        (lambda: started().members(33), "group must be one of the 3 there are, got 33"),
        (lambda: started().add_many([33, 3], [0, 0], [1, 1]), "ids must be new, got 3"),
        (lambda: started().add_many([33, 34], [0, 5], [1, 4]), "index 1"),
        (lambda: Hotspots(0), "alpha must be in"),
        (lambda: Hotspots(1.1), "alpha must be in"),
        (lambda: Hotspots(0.5, 0), "epsilon must be positive"),
        (lambda: Hotspots(0.5).remove(1), "id must be there, got 1"),
    ],
)
def test_bad_arguments_are_named(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_hotspots_of_the_worked_example():
    spots = Hotspots(0.4)
    for id, ends in enumerate(TEN[:4]):
        spots.add(id, *ends)
    assert spots.hot_groups() == [(0, 1, 2, 3)]
    spots.add(4, *TEN[4])
    spots.add(5, *TEN[5])
    assert spots.scattered() == [4, 5]
    spots.add(6, *TEN[6])
    assert (spots.hot_groups(), spots.moves) == ([(0, 1, 2, 3), (4, 5, 6)], 4)
    for id in (7, 8, 9):
        spots.add(id, *TEN[id])
    assert (spots.hot_groups(), spots.scattered()) == ([(0, 1, 2, 3), (4, 5, 6, 7)], [8, 9])
    for id in (8, 9, 1, 2, 3):
        spots.remove(id)
    assert spots.hot_groups() == [(4, 5, 6, 7), (0,)]
    spots.add(20, 8.8, 9.2)
    assert (spots.hot_groups(), spots.scattered(), spots.moves) == ([(4, 5, 6, 7, 20)], [0], 5)
    assert spots.group_of(20) < 0 <= spots.group_of(0)
    assert len(spots) == 2


def check_hotspots(spots, expected, alpha, epsilon):
    n, hot = len(expected), spots.hot_groups()
    assert spots.size == n
    assert sorted([*spots.scattered(), *(id for group in hot for id in group)]) == sorted(expected)
    assert [len(group) for group in hot] == sorted((len(group) for group in hot), reverse=True)
    for group in hot:
        assert len(group) >= alpha / 2 * n
        assert max(expected[id][0] for id in group) <= min(expected[id][1] for id in group)
    cold = {}
    for id in spots.scattered():
        cold.setdefault(spots.group_of(id), []).append(id)
    assert all(len(group) < alpha * n for group in cold.values())
    assert len(spots) == len(hot) + len(cold) <= (1 + epsilon) * fewest_groups(expected.values()) + 2 / alpha


@settings(max_examples=40, deadline=None)
@given(changes=changes, alpha=st.sampled_from([0.05, 0.2, 0.5, 1.0]), epsilon=st.sampled_from([0.5, 1.0]))
def test_hotspots_keep_their_invariants(changes, alpha, epsilon):
    spots, expected, updates = Hotspots(alpha, epsilon), {}, 0
    for number, change in enumerate(changes):
        if isinstance(change, int):
            if not expected:
                continue
            gone = sorted(expected)[change % len(expected)]
            spots.remove(gone)
            del expected[gone]
        else:
            spots.add(number, *change)
            expected[number] = tuple(change)
        updates += 1
        check_hotspots(spots, expected, alpha, epsilon)
        assert spots.moves <= 5 * updates


def test_many_hotspots_at_once_are_the_groups_that_are_large_enough():
    rng = np.random.default_rng(2)
    lows, highs = clustered(rng, 3000, 40)
    spots = Hotspots(0.02)
    spots.add_many(np.arange(3000), lows, highs)
    group, _ = stabbing_partition(lows, highs)
    wanted = [tuple(np.flatnonzero(group == g)) for g in np.unique(group) if (group == g).sum() >= 60]
    assert sorted(spots.hot_groups()) == sorted(wanted)
    check_hotspots(spots, dict(enumerate(zip(lows, highs, strict=True))), 0.02, 1.0)
    spots.add_many([5000, 5001], [1.0, 2.0], [2.0, 3.0])
    assert spots.size == 3002


def test_intervals_seldom_move():
    rng = np.random.default_rng(4)
    lows, highs = clustered(rng, 4000, 80)
    spots, live = Hotspots(0.01), []
    for id in range(4000):
        spots.add(id, lows[id], highs[id])
        live.append(id)
        if rng.random() < 0.4:
            spots.remove(live.pop(rng.integers(len(live))))
    assert spots.moves / (4000 + 4000 - len(live)) < 0.5
