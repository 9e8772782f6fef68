"""The worked examples of `docs/design/views.md` §3, to the digit."""

import math

import numpy as np
import pytest
from views_twin import best_of_all_plans

from tolerant.views import Linear, schedule

SEED = [Linear(3 / 28000, 2 / 7), Linear(0.00025)]
SMALL = [Linear(1.0), Linear(0.5, 4.0)]


def ones(ticks, tables=2):
    return np.ones((ticks, tables), np.int64)


def test_figure_2_1_naive():
    plan = schedule(SEED, ones(360), 0.35, "naive")
    assert 1e3 * plan.cost / 720 == pytest.approx(0.9722, abs=5e-5)


def test_figure_2_1_online():
    plan = schedule(SEED, ones(1201), 0.35)
    assert len(plan.actions) == 33
    assert plan.actions[:4] == [(180, (1,)), (306, (1,)), (394, (1,)), (456, (1,))]
    assert plan.cost == pytest.approx(1.000357, abs=5e-7)
    assert 1e3 * plan.cost / 2402 == pytest.approx(0.4165, abs=5e-5)


def test_small_naive():
    plan = schedule(SMALL, ones(10), 8, "naive")
    assert (plan.actions, plan.cost) == ([(2, (0, 1)), (5, (0, 1)), (8, (0, 1)), (9, (0, 1))], 31.0)


def test_small_online():
    plan = schedule(SMALL, ones(10), 8, "online")
    assert plan.actions == [(2, (0,)), (4, (0,)), (6, (0,)), (7, (0,)), (8, (1,)), (9, (0, 1))]
    assert plan.cost == 23.0


def test_small_optimal():
    plan = schedule(SMALL, ones(10), 8, "optimal")
    assert plan.cost == 23.0
    assert plan.proved
    assert schedule(SMALL, ones(7), 8, "optimal").cost == 14.5 == best_of_all_plans(SMALL, ones(7), 8)


def test_small_estimated():
    plan = schedule(SMALL, ones(10), 8, "estimated", estimate=5)
    assert (plan.actions, plan.cost) == ([(2, (0,)), (4, (0,)), (6, (0, 1)), (9, (0, 1))], 23.0)
    assert schedule(SMALL, ones(10), 8, "estimated", estimate=ones(6)) == plan


@pytest.mark.parametrize(("epsilon", "best"), [(1, 90.0), (0.5, 75.0), (0.25, 67.5)])
def test_example_1_the_factor_2_is_tight(epsilon, best):
    limit, rows = 10, round(2 / epsilon)

    def cost(k):
        return (epsilon * k / 2) * limit if k <= rows else (1 + epsilon / 2) * limit

    arrivals = np.full((6, 1), rows + 1)
    assert schedule([cost], arrivals, limit, "optimal").cost == pytest.approx(best)
    assert best_of_all_plans([cost], arrivals, limit) == pytest.approx((1 + epsilon) * 3 * limit)


def test_not_concave():
    def cost(k):
        return math.ceil(k / 5)

    plan = schedule([cost], ones(10, 1), 1, "optimal")
    assert (plan.actions, plan.cost) == ([(5, (0,)), (9, (0,))], 3)
    assert best_of_all_plans([cost], ones(10, 1), 1) == 2


METHODS = ["naive", "online", "per-tick", "estimated", "forecast", "optimal"]


@pytest.mark.parametrize("method", METHODS)
def test_trivia(method):
    def plan(arrivals, limit):
        return schedule(SMALL, arrivals, limit, method, estimate=3)

    assert (plan(np.zeros((5, 2), int), 8).actions, plan(np.zeros((5, 2), int), 8).cost) == ([], 0.0)
    assert plan(np.zeros((0, 2), int), 8).actions == []
    assert [t for t, _ in plan([[1, 0], [0, 0], [2, 1], [0, 0]], 0).actions] == [0, 2]
    assert plan([[3, 2]], 8).actions == [(0, (0, 1))]


def test_the_printed_heuristic_would_be_wrong_where_one_tick_brings_much():
    assert schedule([Linear(1.0, 1.0)], [[1000]], 10, "optimal").cost == 1001


def test_the_printed_heuristic_would_be_wrong_where_costs_are_stairs():
    assert schedule([lambda k: math.ceil(k / 4)], np.full((4, 1), 4), 2, "optimal").cost == 4
