"""Bounds and proofs: column generation against dynamic programming."""

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from merging_twin import cost, partitions, prices, rectangle_sets

from tolerant.merging import Costs, area, generate, lower_bound, merge, rows
from tolerant.merging.best_boxes import best_boxes
from tolerant.merging.column_generation import prove
from tolerant.merging.compiled_descent import units_of
from tolerant.merging.cost_model import model_of
from tolerant.merging.sizes import AREA, sizes_of
from tolerant.merging.units import collapsed

BASE = Costs(365, 3.25, 0.16)


def units(rectangles, table=AREA):
    found = collapsed(rectangles)
    return units_of(found.boxes, found.counts, sizes_of(found.boxes, table))


@settings(max_examples=30, deadline=None)
@example(np.array([[0, 0, 0, 0], [0, 0, 0, 1], [0, 0, 2, 0], [0, 0, 1, 3]], float), Costs(4, 0, 0.25))
@given(rectangle_sets(most=6, least=1), prices)
def test_the_bound_is_below_the_optimum_and_the_plan_is_not(rectangles, costs):
    best = min(cost(rectangles, plan, costs) for plan in partitions(list(range(len(rectangles)))))
    constant = costs.waste * area(rectangles).sum()
    proof = prove(units(rectangles), model_of(costs, AREA), [])
    slack = 1e-6 * (1 + best + constant)
    assert proof.lower - constant <= best + slack
    assert proof.upper - constant >= best - slack
    assert sorted(np.concatenate(proof.groups)) == list(range(len(units(rectangles))))
    if proof.closed:
        assert proof.upper - constant == pytest.approx(best, abs=slack)


@settings(max_examples=40, deadline=None)
@given(rectangle_sets(most=6, least=1), prices, st.integers(0, 10**6))
def test_no_box_with_a_value_is_overlooked(rectangles, costs, seed):
    given_units, model = units(rectangles), model_of(costs, AREA)
    worth = np.random.default_rng(seed).uniform(0, 40, len(given_units))
    values, boxes = best_boxes(given_units, worth, model)
    edges = [sorted(set(given_units[:, c])) for c in range(4)]
    best = 0.0
    for x1 in edges[0]:
        for y1 in edges[1]:
            for x2 in edges[2]:
                for y2 in edges[3]:
                    size = (x2 - x1) * (y2 - y1)
                    inside = (given_units[:, :2] >= [x1, y1]).all(1) & (given_units[:, 2:4] <= [x2, y2]).all(1)
                    if inside.any():
                        each = worth[inside] - costs.waste * size * given_units[inside, 4]
                        best = max(best, np.maximum(each, 0).sum() - costs.channel - costs.transfer * size)
    assert (values[0] if len(values) else 0.0) == pytest.approx(best, abs=1e-6)
    assert len(values) == len(boxes)


def test_thirty_queries_are_solved_and_proved():
    rectangles = generate(30, seed=1)
    merged = merge(rectangles, BASE, "partition")
    assert merged.cost == pytest.approx(lower_bound(rectangles, BASE))
    assert merged.cost <= merge(rectangles, BASE, "directed").cost * (1 + 1e-12)


def test_rows_counted_from_data_are_proved_too():
    size = rows(np.random.default_rng(3).normal(200, 80, (4000, 2)), cells=32)
    rectangles, costs = generate(24, side=150, seed=4), Costs(30, 2, 0.1)
    bound = lower_bound(rectangles, costs, size)
    assert bound <= merge(rectangles, costs, "directed", size=size).cost * (1 + 1e-9)
    assert bound >= 0.9 * merge(rectangles, costs, "pairs", size=size).cost


def test_sixteen_in_one_component_and_blobs_far_apart():
    sixteen = generate(16, side=100, seed=2)
    assert merge(sixteen, BASE, "partition").cost <= merge(sixteen, BASE, "directed").cost * (1 + 1e-12)
    blobs = np.concatenate([generate(8, seed=k) + 10_000 * k for k in range(5)])
    alone = [merge(blobs[8 * k : 8 * k + 8], BASE, "partition") for k in range(5)]
    together = merge(blobs, BASE, "partition")
    assert together.cost == pytest.approx(sum(one.cost for one in alone))
    assert len(together.groups) == sum(len(one.groups) for one in alone)


def test_duplicates_count_once_towards_the_limits():
    many = np.repeat(generate(12, seed=5), 50, axis=0)
    assert merge(many, BASE, "exhaustive").cost == pytest.approx(merge(many, BASE, "partition").cost)


def test_what_cannot_be_proved_is_refused():
    with pytest.raises(ValueError, match=r"at most 120 .* got 200"):
        merge(generate(200), Costs(1000, 1, 0.001), "partition")
    with pytest.raises(ValueError, match=r"at most 18 .* got 30"):
        merge(generate(30), BASE, "partition", size=lambda boxes: area(boxes))
    with pytest.raises(ValueError, match="at most 120"):
        lower_bound(generate(200), Costs(1000, 1, 0.001))
    assert lower_bound([], BASE) == 0


@pytest.mark.soak
def test_directed_is_near_certified_optima_at_100_queries():
    from tolerant.merging import distance

    off = []
    for seed in range(10):
        rectangles = generate(100, seed=1000 + seed)
        bound, none = lower_bound(rectangles, BASE), merge(rectangles, BASE, "none").cost
        off.append(distance(merge(rectangles, BASE, "directed").cost, bound, none))
    assert np.mean(off) <= 0.3
