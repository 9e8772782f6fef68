import math
import pickle

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from planning_cases import ITEMS, cases, dynamics_of, network_of, walk

import planning_plain as plain
from tolerant.planning import (
    HEURISTICS,
    Dynamics,
    Network,
    Unsatisfiable,
    cost_under,
    plan,
    plan_many,
    plan_with,
    simulate,
)
from tolerant.queries import Aggregate

GREEDY = ("min-cost", "max-gain", "max-gain-relative")


def shape(made):
    return {part.aggregator: tuple(part.weights) for part in made.parts}


@given(case=cases(), rule=st.sampled_from(GREEDY), alpha=st.sampled_from([0.0, 0.5, 5.0]))
@settings(max_examples=150, deadline=None)
def test_greedy_plans_are_those_of_the_plain_frame(case, rule, alpha):
    query, network, dynamics = case
    made, expected = (
        plan(query, network, dynamics, rule, alpha=alpha),
        plain.greedy(query, network, dynamics, rule, alpha),
    )
    # Where items cancel to nothing scores are rounding errors, and ties fall either way.
    if shape(made) != shape(expected):
        rates = plain.Rates(query, dynamics)
        assume(all(rates.together(list(part.weights))[0] > 1e-6 * rates.apart_all for part in made.parts))
    assert shape(made) == shape(expected)
    assert made.repairs == expected.repairs
    assert made.cost == pytest.approx(expected.cost, rel=1e-6)
    bounds = {part.aggregator: part for part in expected.parts}
    for part in made.parts:
        assert part.within == pytest.approx(bounds[part.aggregator].within, rel=1e-6)
        assert part.floor == pytest.approx(bounds[part.aggregator].floor, rel=1e-9, abs=1e-12)


@given(case=cases(), heuristic=st.sampled_from(HEURISTICS), seed=st.integers(0, 5))
@settings(max_examples=150, deadline=None)
def test_every_plan_meets_its_conditions(case, heuristic, seed):
    query, network, dynamics = case
    made = plan(query, network, dynamics, heuristic, seed=seed)
    weights = plain.effective(query)
    covered = dict.fromkeys(weights, 0.0)
    for part in made.parts:
        for item, weight in part.weights.items():
            covered[item] += weight
    assert covered == pytest.approx(weights, rel=1e-12)
    assert made.within <= query.within * (1 + 1e-9)
    if heuristic not in ("naive", "optimal-bounds"):
        assert len(shape(made)) == len(made.parts)
    for part in made.parts:
        served = network.bounds[part.aggregator]
        floors = [abs(weight) * served[item] for item, weight in part.weights.items()]
        assert part.floor == pytest.approx(max(floors) if query.fn in ("min", "max") else sum(floors), abs=1e-12)
        assert part.within >= part.floor * (1 - 1e-9)
        if heuristic == "split":
            assert all(0 < weight / weights[item] <= 1 for item, weight in part.weights.items())
        else:
            assert all(weight == weights[item] for item, weight in part.weights.items())
        assert list(part.weights) == [item for item in weights if item in part.weights]
    assert not math.isnan(made.cost)
    assert made.cost > 0


@given(case=cases(most=5, aggregators=4))
@settings(max_examples=60, deadline=None)
def test_exact_is_the_cheapest_of_all_assignments(case):
    query, network, dynamics = case
    least = plain.cheapest(*case)
    made = plan(query, network, dynamics, "exact")
    if math.isinf(least):
        assert math.isinf(made.cost)
    else:
        assert made.cost == pytest.approx(least, rel=1e-6)


@given(case=cases())
@settings(max_examples=60, deadline=None)
def test_search_is_between_exact_and_its_starts(case):
    query, network, dynamics = case
    costs = {name: plan(query, network, dynamics, name).cost for name in (*GREEDY, "search", "exact")}
    assert costs["exact"] <= costs["search"] * (1 + 1e-9)
    assert costs["search"] <= min(costs[name] for name in GREEDY) * (1 + 1e-9)


def test_search_is_near_the_optimum_on_average():
    rng, ratios = np.random.default_rng(5), []
    items = tuple(f"i{k}" for k in range(20))
    for _ in range(30):
        network = plain.random_network(rng, 20, items, 2, 8, 0, 0.05)
        dynamics = dynamics_of(rng, items, "correlated")
        query = plain.random_query(rng, items, 10, 4.0)
        costs = [plan(query, network, dynamics, name).cost for name in ("search", "exact")]
        ratios.append(costs[0] / costs[1])
    assert min(ratios) > 1 - 1e-9
    assert np.mean(ratios) <= 1.02


def test_an_item_is_split_where_that_is_cheaper():
    items = ("a", "b", "c")
    network = Network({"D": {"a": 0, "b": 0}, "E": {"b": 0, "c": 0}})
    dynamics, query = Dynamics(items, [1, 1, 1], np.eye(3)), Aggregate.over("q", "sum", items, 2.0)
    made = plan(query, network, dynamics, "split")
    assert {part.aggregator: dict(part.weights) for part in made.parts} == {
        "D": pytest.approx({"a": 1.0, "b": 0.5}),
        "E": pytest.approx({"b": 0.5, "c": 1.0}),
    }
    assert made.cost == pytest.approx(2 * 1.25)  # 2 · (1 + ¼)/1²
    assert made.cost / plan(query, network, dynamics, "exact").cost == pytest.approx(0.866, abs=1e-3)


@given(case=cases())
@settings(max_examples=60, deadline=None)
def test_split_is_never_dearer_than_exact_and_its_cost_is_that_of_its_parts(case):
    query, network, dynamics = case
    made = plan(query, network, dynamics, "split")
    assert made.cost <= plan(query, network, dynamics, "exact").cost * (1 + 1e-9)
    # Where items cancel to nothing the sums are rounding errors, and so is the cost.
    if made.cost > 1e-3 * plan(query, network, dynamics, "optimal-bounds").cost:
        assert cost_under(made, dynamics) == pytest.approx(made.cost, rel=1e-5)


def test_search_takes_large_queries_and_exact_refuses_them():
    rng = np.random.default_rng(2)
    items = tuple(f"i{k}" for k in range(40))
    network = plain.random_network(rng, 15, items, 5, 15, 0, 0.05)
    dynamics = dynamics_of(rng, items, "correlated")
    query = plain.random_query(rng, items, 40, 20.0)
    best = min(plan(query, network, dynamics, name).cost for name in GREEDY)
    assert plan(query, network, dynamics, "search").cost < best
    assert plan(query, network, dynamics, "split").cost < plan(query, network, dynamics, "search").cost
    with pytest.raises(ValueError, match="at most 14 items, query 'q' has 40; heuristic=\"search\""):
        plan(query, network, dynamics, "exact")


def test_fourteen_items_are_planned_exactly():
    rng = np.random.default_rng(3)
    items = tuple(f"i{k}" for k in range(14))
    network = plain.random_network(rng, 12, items, 3, 7, 0, 0.05)
    dynamics = dynamics_of(rng, items, "correlated")
    query = plain.random_query(rng, items, 14, 6.0)
    assert plan(query, network, dynamics, "exact").cost <= plan(query, network, dynamics, "search").cost * (1 + 1e-9)


def test_random_repeats_by_seed():
    rng = np.random.default_rng(1)
    network, dynamics = network_of(rng, ITEMS, 6), dynamics_of(rng, ITEMS, "independent")
    query = Aggregate.over("q", "sum", ITEMS, 100.0)
    shapes = [tuple(sorted(shape(plan(query, network, dynamics, "random", seed=seed)).items())) for seed in range(20)]
    assert shapes[3] == tuple(sorted(shape(plan(query, network, dynamics, "random", seed=3)).items()))
    assert len(set(shapes)) > 3


def test_alpha_prefers_tight_aggregators():
    rng = np.random.default_rng(8)
    items = tuple(f"i{k}" for k in range(12))
    repairs = dict.fromkeys((0.0, 20.0), 0)
    for _ in range(40):
        network = plain.random_network(rng, 10, items, 3, 8, 0.01, 0.04)
        query = plain.random_query(rng, items, 8, 1.2)
        for alpha in repairs:
            try:
                made = plan(query, network, dynamics_of(rng, items, "independent"), alpha=alpha)
            except Unsatisfiable:
                continue
            repairs[alpha] += made.repairs > 0
    assert repairs[20.0] < repairs[0.0] / 2


@pytest.mark.parametrize("heuristic", HEURISTICS)
def test_plan_many_is_plan_one_by_one_with_what_is_impossible_in_its_place(heuristic):
    rng = np.random.default_rng(4)
    network, dynamics = network_of(rng, ITEMS, 5), dynamics_of(rng, ITEMS, "correlated")
    queries = [Aggregate.over(f"q{k}", "sum", ITEMS[:k], 40.0) for k in range(1, 8)]
    queries += [Aggregate.over("top", "max", ITEMS, 2.0), Aggregate.over("tight", "sum", ITEMS, 1.5)]
    queries.append(Aggregate.over("impossible", "sum", ITEMS, 1e-9))
    found = plan_many(queries, network, dynamics, heuristic, alpha=0.5, seed=3)
    possible = [
        (query, made) for query, made in zip(queries, found, strict=True) if not isinstance(made, Unsatisfiable)
    ]
    assert len(possible) >= 8
    for query, made in possible:
        assert made == plan(query, network, dynamics, heuristic, alpha=0.5, seed=3)
    assert isinstance(found[-1], Unsatisfiable)
    assert plan_many([], network, dynamics, heuristic) == []


def test_large_networks_are_planned_on_those_that_matter():
    rng = np.random.default_rng(6)
    items = tuple(f"i{k}" for k in range(200))
    network = plain.random_network(rng, 700, items, 3, 12, 0, 0.02)
    dynamics = dynamics_of(rng, items, "independent")
    query = plain.random_query(rng, items, 12, 5.0)
    assert shape(plan(query, network, dynamics)) == shape(plain.greedy(query, network, dynamics))
    naive = plan(query, network, dynamics, "naive")
    assert all(network.bounds[p.aggregator][i] == network.tightest(i) for p in naive.parts for i in p.weights)


def test_degenerate_queries_have_finite_plans():
    items = ("a", "b", "c")
    network = Network({"D": dict.fromkeys(items, 0.0), "E": {"a": 0.0}})
    same = Dynamics(items, [1, 1, 2], np.ones((3, 3)))
    opposite = Aggregate("q", "sum", {"a": 1, "b": -1, "c": 0}, 1.0)
    for heuristic in HEURISTICS:
        assert 0 < plan(opposite, network, same, heuristic).cost < math.inf
        still = Dynamics(items, [0, 0, 0], np.eye(3))
        assert 0 < plan(Aggregate.over("q", "avg", items, 1.0), network, still, heuristic).cost < math.inf
        one = plan(Aggregate.over("q", "sum", ["a"], 1.0), network, same, heuristic)
        assert [part.within for part in one.parts] == [1.0]
    assert len(plan(Aggregate.over("q", "sum", items, 1.0), network, same).parts) == 1


def test_a_bound_that_the_floors_use_up_costs_infinity_where_nothing_is_left():
    network = Network({"D": {"a": 1.0}, "E": {"b": 0.0}})
    dynamics = Dynamics(("a", "b"), [1, 1], np.eye(2))
    for heuristic in HEURISTICS:
        made = plan(Aggregate.over("q", "sum", "ab", 1.0), network, dynamics, heuristic)
        assert math.isinf(made.cost)
        assert {part.within for part in made.parts} == {0.0, 1.0}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"heuristic": "best"}, "heuristic must be one of naive.*got 'best'"),
        ({"alpha": -1.0}, "alpha must be finite and not negative, got -1.0"),
        ({"alpha": math.nan}, "alpha must be finite"),
        ({"query": Aggregate("q", "sum", {}, 1.0)}, "weights of query 'q'"),
        ({"query": Aggregate("q", "sum", {"a": 0}, 1.0)}, "weights of query 'q'"),
        ({"query": Aggregate.over("q", "sum", "a", 0.0)}, "within of query 'q' must be positive"),
        ({"query": Aggregate.over("q", "sum", "az", 1.0)}, "item 'z' has no dynamics"),
    ],
)
def test_bad_arguments_are_named(changes, message):
    arguments = {
        "query": Aggregate.over("q", "sum", "a", 1.0),
        "network": Network({"D": {"a": 0.1}}),
        "dynamics": Dynamics(("a", "b"), [1, 1], np.eye(2)),
        **changes,
    }
    with pytest.raises(ValueError, match=message):
        plan(**arguments)


def test_unserved_items_are_named():
    network, dynamics = Network({"D": {"a": 0.1}}), Dynamics(("a", "b"), [1, 1], np.eye(2))
    with pytest.raises(Unsatisfiable, match="no aggregator serves 'b'") as refused:
        plan(Aggregate.over("q", "sum", "ab", 1.0), network, dynamics)
    assert refused.value.items == ("b",)
    with pytest.raises(Unsatisfiable, match=r"within 0.05: the tightest possible is 0.1"):
        plan(Aggregate.over("q", "max", "a", 0.05), network, dynamics)
    again = pickle.loads(pickle.dumps(refused.value))
    assert again.items == ("b",)


def test_bounds_decided_beforehand_are_kept_and_checked():
    network = Network({"D": {"a": 0.1, "b": 0.5}, "E": {"b": 0.1}})
    dynamics = Dynamics(("a", "b"), [1, 1], np.eye(2))
    query = Aggregate("q", "sum", {"a": 2, "b": 3}, 2.0)
    made = plan_with(query, network, dynamics, {"a": 0.2, "b": 0.4})
    assert {part.aggregator: part.within for part in made.parts} == pytest.approx({"D": 0.4, "E": 1.2})
    assert made.cost == pytest.approx(4 / 0.4**2 + 9 / 1.2**2)
    with pytest.raises(ValueError, match=r"add up to 2\.5, more than within = 2"):
        plan_with(query, network, dynamics, {"a": 0.5, "b": 0.5})
    with pytest.raises(ValueError, match="item 'b' of query 'q' has none"):
        plan_with(query, network, dynamics, {"a": 0.5})
    with pytest.raises(Unsatisfiable, match="no aggregator holds 'a' within"):
        plan_with(query, network, dynamics, {"a": 0.05, "b": 0.5})
    with pytest.raises(ValueError, match="bounds of a max are not divided"):
        plan_with(Aggregate.over("q", "max", "ab", 2.0), network, dynamics, {"a": 0.5, "b": 0.5})


@given(case=cases(tree=True), heuristic=st.sampled_from(HEURISTICS), data=st.data())
@settings(max_examples=150, deadline=None)
def test_no_plan_ever_breaks_its_promise_and_the_simulation_is_the_plain_loop(case, heuristic, data):
    query, network, dynamics = case
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32)))
    trace = walk(rng, dynamics.items, 40, grid=data.draw(st.booleans()), gaps=data.draw(st.booleans()))
    made = plan(query, network, dynamics, heuristic)
    run = simulate(made, trace)
    assert run.violations == 0
    assert (list(run.by_part), run.violations, run.feeds) == plain.simulated(made, trace)
    assert run.refreshes == sum(run.by_part)
