"""Lead, recomputing, averages, forecasts: what goes beyond [DISS] (§5)."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from views_strategies import concave, linears, problems
from views_twin import minimal_sets as plain_sets

from tolerant.views import Linear, audit, schedule
from tolerant.views.cost_curves import Curves
from tolerant.views.cost_floors import cheapest_batches, floor_of, floors_of
from tolerant.views.schedule_problem import posed, tables_of
from tolerant.views.table_sets import comes_first, minimal_sets

METHODS = ["naive", "online", "per-tick", "estimated", "forecast", "optimal"]


@settings(deadline=None, max_examples=50)
@given(problems(ticks=1, least=1, rows=6), st.lists(st.integers(0, 2), min_size=3, max_size=3))
def test_minimal_sets_are_those_of_the_definition(problem, more):
    costs, arrivals, limit = problem
    counts, extra = arrivals[0], np.array(more[: len(costs)], np.int64)
    curves, bound = Curves(costs), limit + 1e-9 * max(1, limit)
    curves.cover(math.inf, (counts + extra).tolist(), [0] * len(costs))
    masks, prices, found = minimal_sets(curves.packed(), counts, extra, bound, math.inf)
    tuples = [tables_of(mask) for mask in masks[:found].tolist()]
    assert sorted(tuples) == sorted(plain_sets(costs, counts.tolist(), bound, tuple(extra.tolist())))
    for tables, price in zip(tuples, prices, strict=False):
        assert price == pytest.approx(sum(costs[i](int(counts[i])) for i in tables))


@settings(deadline=None)
@given(st.integers(0, 63), st.integers(0, 63))
def test_sets_are_ordered_as_tuples(one, other):
    assert comes_first(one, other) == (tables_of(one) < tables_of(other))


@settings(deadline=None, max_examples=50)
@given(problems(ticks=10, least=1, rows=5, tables=1))
def test_the_floor_is_the_cheapest_split_into_batches(problem):
    task = posed(*problem, foresight=True)
    floors, rows = floors_of(task), int(task.total[-1, 0])
    exact = cheapest_batches(task.packed, 0, rows, int(floors.batch[0]))
    found = [floor_of(floors, task.packed, 0, n) for n in range(rows + 1)]
    np.testing.assert_allclose(found, exact, rtol=1e-12, atol=1e-12)


@settings(deadline=None, max_examples=50)
@given(problems(ticks=12, least=1, costs=concave), st.sampled_from(METHODS))
def test_with_a_lead_plans_are_valid_and_cost_what_they_say(problem, method):
    plan = schedule(*problem, method, estimate=4, lead=1)
    found = audit(*problem, actions=plan.actions)
    assert found.valid
    assert plan.cost == pytest.approx(found.cost)


def most_before_an_action(costs, arrivals, actions):
    """The most work that a request may find, before any push of its tick is done."""
    base, worst = np.zeros(len(costs), int), 0.0
    total, planned = np.cumsum(arrivals, axis=0), dict(actions)
    for tick, seen in enumerate(total):
        worst = max(worst, sum(cost(int(k)) for cost, k in zip(costs, seen - base, strict=True)))
        tables = list(planned.get(tick, ()))
        base[tables] = seen[tables]
    return worst


@settings(deadline=None, max_examples=50)
@given(st.lists(linears, min_size=2, max_size=3), st.integers(1, 3), st.sampled_from(METHODS))
def test_with_a_lead_whoever_asks_during_a_push_waits_no_longer_than_the_limit(costs, rows, method):
    # One tick of everybody's rows must fit, or nothing can be promised.
    limit = 1.0 + 2 * sum(cost(rows) for cost in costs)
    arrivals = np.full((40, len(costs)), rows)
    plan = schedule(costs, arrivals, limit, method, estimate=39, lead=1)
    assert most_before_an_action(costs, arrivals, plan.actions) <= limit + 1e-6


def test_without_a_lead_they_may_wait_longer():
    costs, arrivals = [Linear(1.0), Linear(0.5, 4.0)], np.ones((40, 2), int)
    assert most_before_an_action(costs, arrivals, schedule(costs, arrivals, 8).actions) > 8


@settings(deadline=None, max_examples=50)
@given(problems(ticks=12, least=1, costs=concave), st.sampled_from(METHODS), st.integers(0, 40))
def test_recomputing_is_one_more_choice(problem, method, quarter):
    costs, arrivals, limit = problem
    again = quarter / 4
    plan = schedule(costs, arrivals, limit, method, estimate=4, recompute=again)
    base, cost = np.zeros(len(costs), int), 0.0
    total, planned = np.cumsum(arrivals, axis=0), dict(plan.actions)
    for tick, seen in enumerate(total):
        tables, counts = planned.get(tick, ()), seen - base
        price = sum(costs[i](int(counts[i])) for i in tables)
        cost += min(price, again) if tables == tuple(np.flatnonzero(counts)) else price
        base[list(tables)] = seen[list(tables)]
        left = sum(f(int(k)) for f, k in zip(costs, seen - base, strict=True))
        assert min(left, again) <= limit + 1e-6
    assert plan.cost == pytest.approx(cost)


@settings(deadline=None, max_examples=50)
@given(problems(ticks=12, least=1, costs=linears), st.integers(0, 40))
def test_a_choice_more_never_makes_the_optimum_dearer(problem, quarter):
    with_it = schedule(*problem, "optimal", recompute=quarter / 4).cost
    assert with_it <= schedule(*problem, "optimal").cost + 1e-9


def test_a_limit_that_recomputing_keeps_is_never_broken():
    plan = schedule([Linear(1.0)], np.ones((50, 1), int), 5, "online", recompute=4.0)
    assert (plan.actions, plan.cost) == ([(49, (0,))], 4.0)


def test_averages_forget():
    # Table 0 stops sending after tick 60: an average over all ticks expects it for ever.
    arrivals = np.zeros((400, 2), int)
    arrivals[:60, 0], arrivals[:, 1] = 4, 1
    costs = [Linear(0.5, 1.0), Linear(0.4, 2.0)]
    plans = {memory: schedule(costs, arrivals, 9, "per-tick", memory=memory) for memory in (None, 10)}
    for plan in plans.values():
        assert audit(costs, arrivals, 9, plan.actions).valid
    assert plans[10].cost <= plans[None].cost


def ensemble(seed):
    rng = np.random.default_rng((11, seed))
    n = int(rng.integers(2, 4))
    pairs = rng.uniform((0.05, 0.5), (1.0, 6.0), (n, 2)).tolist()
    if seed % 2:
        costs = [Linear(slope, setup) for slope, setup in pairs]
    else:
        costs = [lambda k, a=slope, b=setup: a * math.sqrt(k) + b if k else 0.0 for slope, setup in pairs]
    arrivals = rng.poisson(rng.uniform(0.3, 2, n), (int(rng.integers(50, 101)), n))
    return costs, arrivals, rng.uniform(1.5, 2.5) * sum(setup for _, setup in pairs)


def test_forecasts_are_nearly_optimal_on_an_ensemble():
    ratios = {method: [] for method in ("naive", "online", "per-tick", "forecast")}
    for seed in range(8):
        problem = ensemble(seed)
        best = schedule(*problem, "optimal")
        assert best.proved
        for method, found in ratios.items():
            found.append(schedule(*problem, method, window=30).cost / best.cost)
    mean = {method: np.mean(found) for method, found in ratios.items()}
    assert mean["forecast"] <= 1.05
    assert max(ratios["forecast"]) <= 1.25
    assert mean["forecast"] <= 1.03 * mean["online"]
    assert mean["forecast"] < mean["naive"]
    assert mean["per-tick"] < mean["naive"]


def test_a_set_that_costs_as_much_as_recomputing_is_a_set_still():
    plan = schedule([Linear(1.0, 2.75)], [[1], [3], [0]], 3.75, "online", recompute=6.75)
    assert (plan.actions, plan.cost) == ([(1, (0,))], 6.75)
