"""Plans against exhaustive search, slow twins and the definitions."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from views_strategies import concave, linears, problems
from views_twin import best_lazy_greedy_minimal, best_of_all_plans, history, per_tick, step_by_step

from tolerant.views import Linear, audit, schedule

METHODS = ["naive", "online", "per-tick", "estimated", "forecast", "optimal"]


@settings(deadline=None)
@given(problems(ticks=12), st.sampled_from(METHODS), st.integers(0, 6))
def test_every_method_gives_a_valid_lazy_plan_and_its_cost(problem, method, estimate):
    plan = schedule(*problem, method, estimate=estimate)
    found = audit(*problem, actions=plan.actions)
    assert found.valid
    assert found.lazy
    assert found.minimal or method in ("naive", "estimated")
    assert plan.cost == pytest.approx(found.cost)
    ticks = [tick for tick, _ in plan.actions]
    assert ticks == sorted(set(ticks))
    assert all(tables and tables == tuple(sorted(set(tables))) for _, tables in plan.actions)
    quiet = np.flatnonzero(problem[1].sum(axis=0) == 0) if len(problem[1]) else range(len(problem[0]))
    assert not {table for _, tables in plan.actions for table in tables} & set(map(int, quiet))


@settings(deadline=None)
@given(problems(ticks=10))
def test_optimal_is_the_best_lazy_greedy_minimal_plan(problem):
    plan = schedule(*problem, "optimal")
    assert plan.proved
    assert plan.cost == pytest.approx(best_lazy_greedy_minimal(*problem))


@settings(deadline=None)
@given(problems(costs=linears, ticks=14, rows=2, least=6))
def test_dominance_over_ticks_is_exact_for_linear_costs(problem):
    assert schedule(*problem, "optimal").cost == pytest.approx(best_lazy_greedy_minimal(*problem))


@settings(deadline=None, max_examples=40)
@given(problems(costs=linears, tables=2, ticks=5, rows=2))
def test_theorem_2_for_linear_costs_it_is_the_best_of_all(problem):
    assert schedule(*problem, "optimal").cost == pytest.approx(best_of_all_plans(*problem))


@settings(deadline=None, max_examples=40)
@given(problems(tables=2, ticks=5, rows=2))
def test_theorem_1_it_is_within_twice_the_best_of_all(problem):
    best = best_of_all_plans(*problem)
    assert best - 1e-9 <= schedule(*problem, "optimal").cost <= 2 * best + 1e-9


@settings(deadline=None, max_examples=20)
@given(problems(ticks=12, costs=linears))
def test_for_linear_costs_no_method_beats_the_optimum(problem):
    best = schedule(*problem, "optimal").cost
    for method in METHODS:
        assert schedule(*problem, method, estimate=4).cost >= best - 1e-9


@settings(deadline=None, max_examples=20)
@given(problems(ticks=12, costs=concave))
def test_for_concave_costs_no_method_is_below_half_the_optimum(problem):
    # The optimum is that of lazy, greedy, minimal plans: theorem 1 says how much a plan that is none of them may save.
    best = schedule(*problem, "optimal").cost
    for method in METHODS:
        assert schedule(*problem, method, estimate=4).cost >= best / 2 - 1e-9


@settings(deadline=None)
@given(problems(costs=linears, ticks=12), st.sampled_from([("online", history), ("per-tick", per_tick)]))
def test_rules_agree_with_their_plain_twins(problem, rule):
    plan = schedule(*problem, rule[0])
    actions, cost = step_by_step(*problem, score=rule[1])
    assert plan.actions == actions
    assert plan.cost == pytest.approx(cost)


@settings(deadline=None, max_examples=50)
@given(problems(costs=linears, ticks=10, least=1), st.integers(0, 9))
def test_theorem_5_a_plan_for_later_costs_at_most_the_setups_more(problem, last):
    costs, arrivals, limit = problem
    real = arrivals[: last + 1]
    plan = schedule(costs, real, limit, "estimated", estimate=arrivals)
    setups = sum(cost.setup for cost in costs)
    assert plan.cost <= schedule(costs, real, limit, "optimal").cost + setups + 1e-9


@settings(deadline=None, max_examples=50)
@given(problems(costs=linears, ticks=4, least=1), st.integers(1, 4))
def test_theorem_6_a_plan_repeated_costs_at_most_the_setups_a_round_more(problem, times):
    costs, arrivals, limit = problem
    real = np.tile(arrivals, (times, 1))
    plan = schedule(costs, real, limit, "estimated", estimate=arrivals)
    setups = sum(cost.setup for cost in costs)
    assert plan.cost <= schedule(costs, real, limit, "optimal").cost + times * setups + 1e-9


@settings(deadline=None)
@given(problems(ticks=10, costs=linears, least=1))
def test_an_estimate_that_comes_true_is_the_plan_itself(problem):
    costs, arrivals, limit = problem
    plan = schedule(costs, arrivals, limit, "estimated", estimate=arrivals)
    assert plan.actions == schedule(costs, arrivals, limit, "optimal").actions


def test_beyond_the_budget_the_plan_is_valid_and_not_proved():
    costs, arrivals = [Linear(0.25, 0.5), Linear(0.01, 7)], np.ones((300, 2), int)
    best = schedule(costs, arrivals, 12, "optimal")
    plan = schedule(costs, arrivals, 12, "optimal", budget=40)
    assert best.proved
    assert not plan.proved
    assert audit(costs, arrivals, 12, plan.actions).valid
    assert best.cost <= plan.cost <= 1.1 * best.cost


def test_a_tick_may_bring_more_than_the_limit():
    plan = schedule([Linear(1.0, 1.0)] * 2, [[50, 60], [0, 0], [1, 1]], 5, "optimal")
    assert plan.actions[0] == (0, (0, 1))


def test_many_tables_at_once():
    rng = np.random.default_rng(3)
    costs = [Linear(*pair) for pair in rng.uniform(0.1, 2, (8, 2)).round(2)]
    arrivals = rng.poisson(0.7, (40, 8))
    naive, online, optimal = (
        schedule(costs, arrivals, 12, method, budget=20_000).cost for method in ("naive", "online", "optimal")
    )
    assert optimal <= online <= naive


def test_rounding_does_not_break_the_limit():
    # 0.1·3 is a little more than 0.3.
    assert schedule([Linear(0.1)], np.ones((3, 1), int), 0.3, "naive").actions == [(2, (0,))]
