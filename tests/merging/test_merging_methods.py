"""Every method against brute force, and what must hold for all of them."""

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from merging_twin import area_of, box_of, closure, cost, covers, greedy, partitions, prices, rectangle_sets, union_area

from tolerant.merging import Costs, area, clusters, cost_breakdown, generate, merge, rows, total_cost
from tolerant.merging.clusters import GAIN, SAFE, linked
from tolerant.merging.merge import METHODS, clustered_pairs
from tolerant.merging.pricing import Pricing
from tolerant.merging.units import collapsed

BASE = Costs(365, 3.25, 0.16)


def called(boxes):
    """`area`, but nothing is known about it."""
    return area(boxes)


def check(rectangles, found, costs):
    members = sorted(m for group in found.groups for m in group)
    assert members == list(range(len(rectangles)))
    assert all(list(group) == sorted(group) for group in found.groups)
    assert [group[0] for group in found.groups] == sorted(group[0] for group in found.groups)
    assert found.cost == pytest.approx(cost(rectangles, found.groups, costs))


@settings(max_examples=40, deadline=None)
@given(rectangle_sets(), prices)
def test_pairs_are_the_greedy_algorithm(rectangles, costs):
    merged = merge(rectangles, costs)
    groups, _ = greedy(rectangles, costs)
    plain = merge(rectangles, costs, size=called)
    if costs.transfer or costs.waste:  # else all gains are equal, and one group is right
        assert merged.groups == groups
    assert plain.groups == groups
    check(rectangles, merged, costs)


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 10**6), st.sampled_from([0.25, 1, 4]), st.sampled_from([0.25, 1, 16]))
def test_pairs_by_index_and_without_on_the_seeds_data(seed, channel, waste):
    rectangles, costs = generate(60, seed=seed), Costs(365 * channel, 3.25, 0.16 * waste)
    assert merge(rectangles, costs).groups == merge(rectangles, costs, size=called).groups


def test_pairs_with_sides_of_very_different_lengths():
    rng = np.random.default_rng(5)
    low = rng.uniform(0, 1000, (300, 2))
    rectangles = np.concatenate([low, low + 10 ** rng.uniform(-2, 2.7, (300, 2))], axis=1)
    for costs in (Costs(50, 1, 0.1), Costs(5000, 0.1, 0.01), Costs(0, 1, 1)):
        assert merge(rectangles, costs).groups == merge(rectangles, costs, size=called).groups


def test_pairs_with_rows_counted_from_data():
    rng = np.random.default_rng(6)
    size = rows(np.concatenate([rng.normal(100, 20, (3000, 2)), rng.uniform(0, 400, (1000, 2))]), cells=64)
    rectangles = generate(150, seed=2)
    for costs in (Costs(30, 2, 0.1), Costs(3, 1, 1), Costs(300, 1, 0.01)):
        assert merge(rectangles, costs, size=size).groups == merge(rectangles, costs, size=lambda r: size(r)).groups


@settings(max_examples=50, deadline=None)
@given(rectangle_sets(most=6), prices)
def test_partition_is_the_best_partition(rectangles, costs):
    best = min((cost(rectangles, plan, costs) for plan in partitions(list(range(len(rectangles))))), default=0)
    merged = merge(rectangles, costs, "partition")
    assert merged.cost == pytest.approx(best)
    check(rectangles, merged, costs)
    assert merge(rectangles, costs, "partition", size=called).cost == pytest.approx(best)


@settings(max_examples=8, deadline=None)
@given(rectangle_sets(most=3), prices)
def test_exhaustive_is_the_best_cover_and_partition_as_good(rectangles, costs):
    if len(rectangles) == 0:
        return
    best = min(cost(rectangles, plan, costs) for plan in covers(len(rectangles)))
    assert merge(rectangles, costs, "exhaustive").cost == pytest.approx(best)
    assert merge(rectangles, costs, "partition").cost == pytest.approx(best)


@settings(max_examples=10, deadline=None)
@given(rectangle_sets(most=8), prices)
def test_exhaustive_equals_partition(rectangles, costs):
    exhaustive, partition = (merge(rectangles, costs, method).cost for method in ("exhaustive", "partition"))
    assert exhaustive == pytest.approx(partition)


def test_the_number_of_covers():
    assert [sum(1 for _ in covers(n)) for n in (1, 2, 3)] == [1, 5, 109]


@settings(max_examples=40, deadline=None)
@given(rectangle_sets(most=6), prices, st.integers(1, 5))
def test_no_method_is_worse_than_it_must(rectangles, costs, starts):
    plans = {method: merge(rectangles, costs, method, starts=starts) for method in METHODS}
    slack = 1e-9 * (1 + plans["none"].cost)
    for plan in plans.values():
        check(rectangles, plan, costs)
        assert plans["partition"].cost <= plan.cost + slack
    assert plans["pairs"].cost <= plans["none"].cost + slack
    assert plans["directed"].cost <= plans["pairs"].cost + slack


@settings(max_examples=25, deadline=None)
@given(rectangle_sets(most=5), prices, st.integers(1, 4))
def test_directed_by_calls_never_costs_more_than_pairs(rectangles, costs, starts):
    directed = merge(rectangles, costs, "directed", starts=starts, size=called)
    assert directed.cost <= merge(rectangles, costs).cost + 1e-9
    check(rectangles, directed, costs)


def test_directed_in_windows_never_costs_more_than_pairs():
    for seed in range(3):
        rectangles = generate(90, seed=seed)
        merged = merge(rectangles, BASE, "directed", starts=10)
        check(rectangles, merged, BASE)
        assert merged.cost <= merge(rectangles, BASE).cost * (1 + 1e-12)
        assert merged == merge(rectangles, BASE, "directed", starts=10)


@settings(max_examples=40, deadline=None)
@given(rectangle_sets(), prices)
def test_clusters_are_the_closure_over_all_pairs(rectangles, costs):
    # Where nothing but waste costs, rectangles without area cost nothing together or apart: either grouping is right.
    assume(costs.channel + costs.transfer > 0)
    own = [area_of(r) for r in rectangles]

    def joint(a, b):
        return area_of(box_of(rectangles, (a, b)))

    def near(a, b):
        wasted = 2 * joint(a, b) - own[a] - own[b]
        return costs.channel + costs.transfer * min(own[a], own[b]) - costs.waste * wasted >= 0

    def safe(a, b):
        return costs.channel + (costs.transfer + costs.waste) * min(own[a], own[b]) - costs.waste * joint(a, b) >= 0

    for size in (area, called):
        assert clusters(rectangles, costs, size).tolist() == closure(len(rectangles), near)
        assert clusters(rectangles, costs, size, safe=True).tolist() == closure(len(rectangles), safe)


def test_clusters_from_the_index_on_the_seeds_data():
    for seed, waste in ((0, 4), (1, 16), (2, 64)):
        rectangles, costs = generate(200, seed=seed), Costs(365, 3.25, 0.16 * waste)
        for safe in (False, True):
            labels = clusters(rectangles, costs, safe=safe)
            assert labels.tolist() == clusters(rectangles, costs, called, safe=safe).tolist()
        plain, indexed = (Pricing(collapsed(rectangles), costs, size) for size in (called, area))
        assert linked(plain, GAIN).tolist() == linked(indexed, GAIN).tolist()


@settings(max_examples=30, deadline=None)
@given(rectangle_sets(most=6, least=2), prices)
def test_the_safe_rule_never_cuts_an_optimum(rectangles, costs):
    labels = linked(Pricing(collapsed(rectangles), costs, area), SAFE)
    of = collapsed(rectangles).of
    best = min(cost(rectangles, plan, costs) for plan in partitions(list(range(len(rectangles)))))
    inside = [
        cost(rectangles, plan, costs)
        for plan in partitions(list(range(len(rectangles))))
        if all(len({labels[of[m]] for m in group}) == 1 for group in plan)
    ]
    assert min(inside) == pytest.approx(best)


@settings(max_examples=40, deadline=None)
@given(rectangle_sets(most=5), prices, st.sampled_from(["union", "pieces"]))
def test_regions_cost_what_their_definition_says(rectangles, costs, procedure):
    groups = [list(range(len(rectangles)))] if len(rectangles) else []
    found = total_cost(rectangles, groups, costs, procedure=procedure)
    assert found == pytest.approx(total_cost(rectangles, groups, costs, called, procedure=procedure))
    if procedure == "union":
        assert found == pytest.approx(cost(rectangles, groups, costs, union_area))
    for method in ("pairs", "directed", "clusters", "partition"):
        plan = merge(rectangles, costs, method, procedure=procedure, starts=3)
        assert plan.cost == pytest.approx(total_cost(rectangles, plan.groups, costs, procedure=procedure))
        assert plan.cost <= merge(rectangles, costs, "none", procedure=procedure).cost + 1e-9


@settings(max_examples=25, deadline=None)
@given(rectangle_sets(most=5, least=1), prices)
def test_partition_of_regions_is_the_best(rectangles, costs):
    for procedure in ("union", "pieces"):
        plans = partitions(list(range(len(rectangles))))
        best = min(total_cost(rectangles, plan, costs, procedure=procedure) for plan in plans)
        assert merge(rectangles, costs, "partition", procedure=procedure).cost == pytest.approx(best)


@settings(max_examples=30, deadline=None)
@given(rectangle_sets(most=5), prices, st.lists(st.sampled_from([1, 2, 3, 4, 6]), min_size=5, max_size=5))
def test_periods_cost_the_mean_of_their_ticks(rectangles, costs, periods):
    n = len(rectangles)
    periods = periods[:n]
    merged = merge(rectangles, costs, periods=periods)
    ticks = []
    for tick in range(12):
        due = [[m for m in group if tick % periods[m] == 0] for group in merged.groups]
        live = sorted(m for group in due for m in group)
        place = {m: k for k, m in enumerate(live)}
        ticks.append(cost(rectangles[live], [[place[m] for m in group] for group in due if group], costs))
    assert merged.cost == pytest.approx(np.mean(ticks))
    assert merged.cost <= merge(rectangles, costs, "none", periods=periods).cost + 1e-9
    best = merge(rectangles, costs, "partition", periods=periods).cost
    plans = partitions(list(range(n)))
    expected = min((total_cost(rectangles, p, costs, periods=periods) for p in plans), default=0)
    assert best == pytest.approx(expected)


@settings(max_examples=40, deadline=None)
@given(rectangle_sets(), prices, st.integers(1, 5))
def test_equal_periods_are_the_base_model_divided(rectangles, costs, period):
    every = merge(rectangles, costs, size=called)
    merged = merge(rectangles, costs, periods=[period] * len(rectangles))
    assert merged.cost == pytest.approx(every.cost / period)
    assert total_cost(rectangles, every.groups, costs, periods=[period] * len(rectangles)) == pytest.approx(merged.cost)


@settings(max_examples=40, deadline=None)
@given(rectangle_sets(), prices, st.sampled_from([0.5, 4.0]), st.sampled_from([-64.0, 1024.0]))
def test_groups_do_not_depend_on_units_of_money_or_place(rectangles, costs, scale, shift):
    merged = merge(rectangles, costs)
    scaled = Costs(costs.channel * scale, costs.transfer * scale, costs.waste * scale)
    assert merge(rectangles, scaled).groups == merged.groups
    assert merge(rectangles + shift, costs).groups == merged.groups
    longer = Costs(costs.channel, costs.transfer / scale**2, costs.waste / scale**2)
    assert merge(rectangles * scale, longer).groups == merged.groups


@settings(max_examples=40, deadline=None)
@given(rectangle_sets(most=5), prices, st.integers(2, 4))
def test_identical_rectangles_stay_together(rectangles, costs, copies):
    many = np.repeat(rectangles, copies, axis=0)
    for method in ("pairs", "directed", "clusters", "partition"):
        of = {m: k for k, group in enumerate(merge(many, costs, method, starts=3).groups) for m in group}
        assert all(of[m] == of[m - m % copies] for m in range(len(many)))


def test_many_subscribers_on_few_rectangles_cost_as_much_as_few():
    few = generate(60, seed=9)
    many = few[np.random.default_rng(0).integers(0, 60, 30_000)]
    merged = merge(many, BASE, "directed", starts=5)
    assert len(merged.groups) <= 60
    assert sum(map(len, merged.groups)) == 30_000


def test_degenerate_prices():
    rectangles = generate(20, seed=1)
    assert len(merge(rectangles, Costs(1, 0, 0)).groups) == 1
    assert len(merge(rectangles, Costs(0, 0, 0)).groups) == 20
    assert len(merge(rectangles, Costs(1e12, 1, 0)).groups) == 1
    apart = [[0, 0, 1, 1], [5, 5, 6, 6]]
    assert len(merge(apart, Costs(0, 1, 1)).groups) == 2
    on_a_line = [[x, 3, x, 3] for x in range(0, 1000, 7)]
    assert len(merge(on_a_line, Costs(1, 1, 1)).groups) == 1
    nested = [[0, 0, 9, 9], [0, 0, 9, 8]]
    assert merge(nested, Costs(0, 1, 0)).groups == ((0, 1),)


def test_nothing_costs_nothing():
    for method in METHODS:
        merged = merge([], Costs(1, 1, 1), method)
        assert (merged.groups, merged.cost) == ((), 0)
    assert total_cost(np.zeros((0, 4)), [], Costs(1, 1, 1)) == 0
    assert clusters([], Costs(1, 1, 1)).tolist() == []


@settings(max_examples=30, deadline=None)
@given(st.integers(1, 6), st.integers(1, 3), prices, st.integers(0, 100))
def test_any_number_of_dimensions(n, dimensions, costs, seed):
    rng = np.random.default_rng(seed)
    low = rng.integers(0, 5, (n, dimensions))
    rectangles = np.concatenate([low, low + rng.integers(0, 4, (n, dimensions))], axis=1).astype(float)
    best = min(cost(rectangles, plan, costs) for plan in partitions(list(range(n))))
    assert merge(rectangles, costs, "partition").cost == pytest.approx(best)
    for method in ("pairs", "directed", "clusters"):
        check(rectangles, merge(rectangles, costs, method, starts=3), costs)


@settings(max_examples=30, deadline=None)
@given(rectangle_sets(least=1), prices)
def test_server_work_that_is_not_linear(rectangles, costs):
    def work(boxes):
        return 3 + np.sqrt(area(boxes))

    priced = Costs(costs.channel, costs.transfer, costs.waste, answer=work)
    groups = [list(range(len(rectangles)))]
    box = np.array([box_of(rectangles, groups[0])])
    expected = cost(rectangles, groups, costs) + work(box)[0]
    assert total_cost(rectangles, groups, priced) == pytest.approx(expected)
    linear = Costs(costs.channel, costs.transfer, costs.waste, answer=lambda boxes: 3 + 0.5 * area(boxes))
    folded = costs.folded(1, 3, 0.5)
    assert merge(rectangles, linear).cost == pytest.approx(merge(rectangles, folded).cost)


@settings(max_examples=40, deadline=None)
@given(rectangle_sets(least=1), prices, st.integers(1, 4))
def test_limits_are_kept(rectangles, costs, most):
    few = merge(rectangles, costs, max_channels=most)
    assert len(few.groups) <= most
    check(rectangles, few, costs)
    largest = float(area(rectangles).max()) + 3
    small = merge(rectangles, costs, max_size=largest)
    assert all(area_of(box_of(rectangles, group)) <= largest for group in small.groups)
    free = merge(rectangles, costs)
    assert len(free.groups) > most or few.groups == free.groups


@settings(max_examples=40, deadline=None)
@given(rectangle_sets(least=1), prices)
def test_the_bill_adds_up(rectangles, costs):
    for procedure in ("box", "union", "pieces"):
        plan = merge(rectangles, costs, procedure=procedure)
        parts = cost_breakdown(rectangles, plan.groups, costs, procedure=procedure)
        assert parts.total == pytest.approx(plan.cost)
        assert parts.apart == pytest.approx(merge(rectangles, costs, "none", procedure=procedure).cost)
        assert sum(group.cost for group in parts.groups) == pytest.approx(parts.total)
        assert sum(group.saves for group in parts.groups) == pytest.approx(parts.saved, abs=1e-9)
        assert [group.members for group in parts.groups] == list(plan.groups)


def test_clusters_by_the_gain_of_two_cut_most():
    pricing = Pricing(collapsed(generate(100, seed=3)), BASE, area)
    assert linked(pricing, GAIN).max() > linked(pricing, SAFE).max()
    assert clustered_pairs(pricing, GAIN).evaluations > 0
