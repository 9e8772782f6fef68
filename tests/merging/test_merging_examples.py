"""The worked examples of `docs/design/merging.md` §3, to the digit."""

import numpy as np
import pytest

from tolerant.merging import (
    Costs,
    allocate,
    area,
    channels,
    clusters,
    distance,
    merge,
    overhearing,
    total_cost,
)
from tolerant.merging.clusters import GAIN, HEURISTIC, SAFE
from tolerant.merging.merge import METHODS

FIGURE5 = np.array([[0, 0, 1, 2], [0, 1, 2, 2], [1, 0, 2, 1]], float)
STEPS = np.array([[0, 0, 4, 4], [2, 0, 6, 4], [5, 0, 9, 4], [20, 20, 24, 24], [21, 20, 25, 24]], float)
PRICES = Costs(10, 2, 0.5)
TRAP = np.array([[5, 3, 8, 6], [4, 3, 6, 7], [3, 4, 6, 8], [4, 4, 8, 7]], float)


def values(rectangles, costs, rule):
    """The value of a distance rule for each pair."""
    found, own = {}, area(rectangles)
    for a in range(len(rectangles)):
        for b in range(a + 1, len(rectangles)):
            both = np.concatenate(
                [np.minimum(rectangles[a], rectangles[b])[:2], np.maximum(rectangles[a], rectangles[b])[2:]]
            )
            joint, smaller = area(both[None])[0], min(own[a], own[b])
            found[a, b] = {
                HEURISTIC: costs.channel + costs.transfer * smaller - costs.waste * (2 * joint - own[a] - own[b]),
                SAFE: costs.channel + (costs.transfer + costs.waste) * smaller - costs.waste * joint,
                GAIN: total_cost(rectangles[[a, b]], [[0], [1]], costs)
                - total_cost(rectangles[[a, b]], [[0, 1]], costs),
            }[rule]
    return found


def test_1_three_that_pay_only_together():
    costs = Costs(10, 9, 4)
    plans = {
        "apart": [[0], [1], [2]],
        "01": [[0, 1], [2]],
        "02": [[0, 2], [1]],
        "12": [[0], [1, 2]],
        "all": [[0, 1, 2]],
    }
    costs_by_plan = {name: total_cost(FIGURE5, plan, costs) for name, plan in plans.items()}
    assert costs_by_plan == {"apart": 75, "01": 81, "02": 94, "12": 94, "all": 74}
    assert {method: merge(FIGURE5, costs, method).cost for method in METHODS} == {
        "none": 75, "pairs": 75, "clusters": 75, "directed": 74, "partition": 74, "exhaustive": 74,
    }  # fmt: skip
    assert merge(FIGURE5, costs, "directed").groups == ((0, 1, 2),)
    assert values(FIGURE5, costs, HEURISTIC) == {(0, 1): 12, (0, 2): -1, (1, 2): -1}
    assert values(FIGURE5, costs, SAFE) == {(0, 1): 20, (0, 2): 7, (1, 2): 7}
    assert clusters(FIGURE5, costs).tolist() == [0, 0, 1]
    assert clusters(FIGURE5, costs, safe=True).tolist() == [0, 0, 0]


def test_2_introduction():
    rectangles = np.array([[2, 0, 40, 1], [3, 0, 41, 1]], float)
    assert area(rectangles).tolist() == [38, 38]
    costs = Costs(10, 9, 4)
    assert total_cost(rectangles, [[0], [1]], costs) - total_cost(rectangles, [[0, 1]], costs) == 335
    intervals = np.array([[2, 40], [3, 41]], float)  # the same in one dimension
    assert merge(intervals, costs).groups == ((0, 1),)
    assert total_cost(intervals, [[0], [1]], costs) - merge(intervals, costs).cost == 335


def test_3_figure_4():
    rectangles, costs = np.array([[0, 0, 2, 2], [1, 1, 3, 3]], float), Costs(1, 1, 1)
    assert total_cost(rectangles, [[0], [1]], costs) == 10
    costs_by_plan = {p: total_cost(rectangles, [[0, 1]], costs, procedure=p) for p in ("box", "union", "pieces")}
    assert costs_by_plan == {"box": 20, "union": 14, "pieces": 12}
    parts = channels(rectangles, [[0, 1]], procedure="pieces")
    assert [part.regions[0].tolist() for part in parts] == [
        [0, 0, 1, 2], [1, 0, 2, 1], [1, 1, 2, 2], [1, 2, 2, 3], [2, 1, 3, 3],
    ]  # fmt: skip
    assert [part.open[0].tolist() for part in parts] == [
        [False, False, True, False],
        [False, False, False, True],
        [False, False, False, False],
        [False, True, False, False],
        [True, False, False, False],
    ]
    assert [sorted(part.header) for part in parts] == [[0], [0], [0, 1], [1], [1]]


def test_4_pairs_step_by_step():
    assert merge(STEPS, PRICES, "none").cost == 210
    gains = values(STEPS, PRICES, GAIN)
    assert {pair: gain for pair, gain in gains.items() if gain > 0} == {(3, 4): 30, (0, 1): 18, (1, 2): 6}
    assert gains[0, 2] == -18
    for method in ("pairs", "partition", "directed", "clusters", "exhaustive"):
        merged = merge(STEPS, PRICES, method)
        assert (merged.groups, merged.cost) == (((0, 1), (2,), (3, 4)), 162)
    assert merge(STEPS, PRICES).evaluations <= 16
    heuristic, safe = values(STEPS, PRICES, HEURISTIC), values(STEPS, PRICES, SAFE)
    assert [heuristic[pair] for pair in ((0, 1), (0, 2), (1, 2), (3, 4))] == [34, 22, 30, 38]
    assert [safe[pair] for pair in ((0, 1), (0, 2), (1, 2), (3, 4))] == [38, 32, 36, 40]
    assert max(v for (a, b), v in heuristic.items() if a < 3 <= b) <= -398
    assert max(v for (a, b), v in safe.items() if a < 3 <= b) <= -178
    assert clusters(STEPS, PRICES).tolist() == clusters(STEPS, PRICES, safe=True).tolist() == [0, 0, 0, 1, 1]


def test_5_overlapping_groups():
    assert total_cost(STEPS, [[0, 1], [1, 2], [3, 4]], PRICES) == 206
    assert total_cost(STEPS, ((1, 0), {2}, iter([4, 3])), PRICES) == 162


def test_6_folding():
    assert Costs(7, 1.5, 0.5).folded(weight=1, each=3, per_row=0.5) == Costs(10, 2, 0.5)


@pytest.mark.parametrize(("periods", "together", "apart"), [((1, 1), 66, 84), ((1, 3), 50, 56), ((2, 3), 32, 35)])
def test_7_periods(periods, together, apart):
    assert total_cost(STEPS[:2], [[0, 1]], PRICES, periods=periods) == pytest.approx(together, rel=1e-14)
    assert total_cost(STEPS[:2], [[0], [1]], PRICES, periods=periods) == pytest.approx(apart, rel=1e-14)
    assert merge(STEPS[:2], PRICES, periods=periods).groups == ((0, 1),)


def test_8_physical_channels():
    sizes, wants = [24, 16, 20, 9], [[0], [0, 1], [2], [2, 3], [1]]

    def extra(where):
        return round(overhearing(where, sizes, wants, header=1, listen=0.1), 9)

    assert [extra(where) for where in ([0, 1, 2, 3], [0, 0, 1, 1], [0, 1, 0, 1], [0, 0, 0, 1], [0] * 4)] == [
        0, 7.9, 19.2, 27.0, 34.6,
    ]  # fmt: skip
    found = {p: allocate(sizes, wants, p, header=1, listen=0.1).tolist() for p in (4, 2, 1)}
    assert found == {4: [0, 1, 2, 3], 2: [0, 0, 1, 1], 1: [0, 0, 0, 0]}


def test_9_a_greedy_trap():
    costs = Costs(8, 3, 1)
    assert merge(TRAP, costs, "none").cost == 155
    assert values(TRAP, costs, GAIN) == {(1, 2): 13, (0, 3): 12, (1, 3): 8, (2, 3): 4, (0, 1): -4, (0, 2): -33}
    for method in ("pairs", "clusters"):
        assert (merge(TRAP, costs, method).groups, merge(TRAP, costs, method).cost) == (((0, 3), (1, 2)), 130)
    assert (merge(TRAP, costs, "partition").groups, merge(TRAP, costs, "partition").cost) == (((0, 1, 3), (2,)), 119)
    assert merge(TRAP, costs, "directed", starts=1).cost == 130
    assert merge(TRAP, costs, "directed", starts=2).cost == 119
    assert distance(130, 119, 155) == pytest.approx(30.6, abs=0.05)
    assert distance(119, 119, 155) == 0
    assert distance(5, 5, 5) == 0


def test_10_far_apart():
    far, costs = [[0, 0, 1, 1], [9, 9, 10, 10]], Costs(10, 1, 1)
    assert total_cost(far, [[0], [1]], costs) == 22
    costs_by_plan = {p: total_cost(far, [[0, 1]], costs, procedure=p) for p in ("box", "union", "pieces")}
    assert costs_by_plan == {"box": 308, "union": 14, "pieces": 22}
    assert merge(far, costs, procedure="union").groups == ((0, 1),)
    touching = channels([[0, 0, 2, 2], [2, 0, 4, 2]], [[0, 1]], procedure="pieces")
    assert [part.regions[0].tolist() for part in touching] == [[0, 0, 2, 2], [2, 0, 2, 2], [2, 0, 4, 2]]


def test_11_headers():
    x, y, z = (0.0, 0.0, 1.0, 1.0), (5.0, 5.0, 6.0, 6.0), (1.0, 0.0, 2.0, 1.0)
    first, second = channels([x, y, z], [[0, 2], [1]], owners=["c1", "c1", "c2"])
    assert first.header == {"c1": ((x, 0),), "c2": ((z, 2),)}
    assert second.header == {"c1": ((y, 1),)}


def test_prices_of_the_seed():
    """[CBGM] §7.2, E10."""
    year, month = 31_536_000, 2_592_000
    costs = Costs.estimate(
        server_second=(100_000 / 2 + 50_000) / year,
        query_seconds=1,
        row_seconds=0.01,
        megabyte=(1165 / 24 + 235) / (month * 1.1 / 8),
        channel_megabytes=0.1,
        row_megabytes=0.001,
        client_second=5 / (1800 * 60),
        client_row_seconds=0.1,
    )
    assert costs.channel == pytest.approx(0.0032505, rel=1e-4)
    assert costs.transfer == pytest.approx(0.000032505, rel=1e-4)
    assert costs.waste == pytest.approx(0.0000046296, rel=1e-4)
