"""What the experiments of [GR07] measure and how they judge it, without Spark."""

import importlib

import numpy as np
import pytest

from tolerant.experiments import load, names
from tolerant.experiments.workloads.aggregator_networks import halves, portfolios, random_network, trace_of
from tolerant.experiments.workloads.recorded import recorded
from tolerant.experiments.workloads.single_part_plans import ppmcc, rank_correlation

TINY = {
    "fig2": {"trace": "walk", "kind": "queries", "moves": 6, "queries": 5, "ticks": 300},
    "fig3": {"trace": "walk", "queries": 3, "ticks": 300, "bounds": 3},
    "fig5": {"trace": "walk", "floors": "negligible", "within": 0.5, "queries": 3},
    "fig6": {"trace": "walk", "seed": 1, "queries": 4, "ticks": 300},
    "fig7": {"trace": "walk", "within": 0.8, "alpha": 2, "queries": 4},
    "table1": {"weights": "equal", "within": 0.8, "queries": 3, "ticks": 300, "seeds": 1},
}


def module(name):
    return importlib.import_module(f"tolerant.experiments.query_planning.planning_{name}")


@pytest.mark.parametrize("name", TINY)
def test_a_tiny_run_has_rows_that_the_chart_and_the_judge_can_read(name):
    rows = module(name).measure(TINY[name])
    experiment = load(f"planning-{name}")
    assert f"planning-{name}" in names()
    for row in rows:
        assert {experiment.chart.x, experiment.chart.y, experiment.chart.series} <= set(row)
    assert isinstance(experiment.judge(rows).finding, str)


def points(panel, kind, refreshes):
    return [{"panel": panel, "kind": kind, "sumdiff": k, "refreshes": y} for k, y in enumerate(refreshes)]


def test_figure_2_asks_for_a_straight_line_where_there_are_refreshes():
    judge = module("fig2").judge
    assert judge(points("p", "queries", [100, 200, 300, 410])).reproduced
    assert not judge(points("p", "queries", [300, 100, 400, 90])).reproduced
    assert judge(points("p", "queries", [3, 1, 4, 1])).reproduced  # too few to say


def test_figure_3_asks_for_the_inverse_square():
    def rows(power):
        bounds = [0.05, 0.1, 0.2, 0.4]
        return [
            {"trace": "t", "normalised_bound": c, "inverse_square": c**-2, "moves": 100 * c, "refreshes": 9 * c**power}
            for c in bounds
        ]

    assert module("fig3").judge(rows(-1.9)).reproduced
    assert not module("fig3").judge(rows(-1.0)).reproduced


def costs(naive, best, *, floors="negligible", violations=0):
    found = {"naive": naive, "optimal-bounds": naive * 0.95, "random": naive * 0.6, "min-cost": best * 1.2}
    found |= {"max-gain": best, "search": best * 0.97, "exact": best * 0.96, "split": best * 0.94}
    base = {"trace": "t", "floors": floors, "within": 0.5, "queries": 9, "met": 9, "violations": violations}
    return [{**base, "heuristic": name, "refreshes": value} for name, value in found.items()]


def test_figure_5_asks_for_a_third_where_floors_are_negligible():
    judge = module("fig5").judge
    assert judge(costs(100, 20)).reproduced
    assert not judge(costs(100, 40)).reproduced
    assert judge(costs(100, 20) + costs(100, 80, floors="as printed")).reproduced
    assert not judge(costs(100, 20, violations=1)).reproduced


def test_figure_6_asks_for_opposite_trends():
    def rows(min_cost):
        trends = {"best of all": 1, "max-gain": 1, "min-cost": min_cost, "max-gain-relative": 0}
        return [
            {"trace": "walk", "seed": 1, "choice": choice, "sumdiff": k, "size": 1.5 + trend * k / 10}
            for choice, trend in trends.items()
            for k in range(5)
        ]

    assert module("fig6").judge(rows(-1)).reproduced
    assert not module("fig6").judge(rows(1)).reproduced


def test_figure_7_asks_for_fewer_repairs_at_no_fewer_messages():
    def rows(repaired, refreshes):
        base = {"trace": "walk", "within": 0.8, "dropped": 0.2}
        return [
            {**base, "alpha": 0, "repaired": 0.4, "refreshes": 100},
            {**base, "alpha": 10, "repaired": repaired, "refreshes": refreshes},
        ]

    assert module("fig7").judge(rows(0.03, 120)).reproduced
    assert not module("fig7").judge(rows(0.3, 120)).reproduced
    assert not module("fig7").judge(rows(0.03, 50)).reproduced


def test_table_1_asks_for_what_the_cosine_saves():
    def rows(with_cosine):
        base = {"weights": "equal", "within": 0.8}
        return [
            {**base, "knows": "with the cosine", "refreshes": with_cosine},
            {**base, "knows": "without", "refreshes": 9},
        ]

    assert module("table1").judge(rows(8)).reproduced
    assert not module("table1").judge(rows(8.9)).reproduced


def test_workloads_repeat_and_are_what_they_say():
    trace = trace_of("walk", 6, 2_000)
    assert np.median(abs(np.diff(trace.values, axis=0)).mean(axis=0)) == pytest.approx(0.006, rel=0.6)
    learn, run = halves(trace)
    assert (learn.ticks, run.ticks) == (1_000, 1_000)
    network = random_network(trace.items, 0.01, 0.02, aggregators=4, seed=1)
    assert network == random_network(trace.items, 0.01, 0.02, aggregators=4, seed=1)
    assert set(network.items) == set(trace.items)
    queries = portfolios(trace.items, 20, 0.8, sizes=(2, 3))
    assert {len(query.weights) for query in queries} == {2, 3}
    assert ppmcc([1, 2, 3], [2, 4, 6]) == pytest.approx(1)
    assert ppmcc([1, 1], [2, 3]) == 0
    assert rank_correlation([1, 2, 3], [1, 10, 100]) == pytest.approx(1)


def test_a_trace_that_is_not_there_is_none(tmp_path, monkeypatch):
    monkeypatch.setenv("TOLERANT_DATA", str(tmp_path))
    assert recorded("no-such-trace") is None
