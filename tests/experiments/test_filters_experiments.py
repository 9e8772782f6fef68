"""The experiments on filters: each judge follows its rows, each measurement of a tiny size breaks no promise."""

import numpy as np
import pytest

from tolerant.experiments.adaptive_filters import (
    filters_fig2,
    filters_fig3,
    filters_fig4,
    filters_fig6,
    filters_fig8,
    filters_fig9,
    filters_sensitivity,
    filters_table5,
)
from tolerant.experiments.workloads.hindsight import clairvoyant_cost, count_sent, static_cost
from tolerant.experiments.workloads.random_walks import judge_against_optimal
from tolerant.experiments.workloads.scaled_traces import available, scaled
from tolerant.experiments.workloads.trace_kinds import KINDS, averages, generated, one_average, step_of
from tolerant.filters import simulate
from tolerant.queries import Aggregate
from tolerant.traces import Trace


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_repeats_by_its_seed(kind):
    first, again, other = (generated(kind, 4, 300, seed) for seed in (1, 1, 2))
    assert first.values.tolist() == again.values.tolist()
    assert first.values.tolist() != other.values.tolist()
    assert step_of(first) > 0


def test_an_unknown_kind_or_trace_is_named_with_those_there_are():
    with pytest.raises(ValueError, match=r"walk.*'waltz'"):
        generated("waltz", 2, 3)
    with pytest.raises(ValueError, match=r"markets.*'moon'"):
        scaled("moon")


def test_tolerances_are_in_mean_steps():
    trace = Trace("ab", [[0, 0], [1, 3], [2, 6]])
    assert step_of(trace) == 2
    assert one_average(trace, 8)[0].within == 8
    six = averages(generated("walk", 10, 50), 8.0, 6, (5, 5), (0.3, 1.0))
    assert [len(query.weights) for query in six] == [5] * 6


def test_recorded_traces_are_scaled_and_looked_for_where_the_environment_says(tmp_path, monkeypatch):
    import pyarrow as pa
    import pyarrow.parquet as pq

    pq.write_table(pa.table({"a": [50.0, 100.0, 25.0], "b": [2.0, 2.0, 4.0]}), tmp_path / "stocks-daily.parquet")
    monkeypatch.setenv("TOLERANT_DATA", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    assert available() == ["stocks"]
    with pytest.raises(ValueError, match="TOLERANT_DATA"):
        scaled("cloud")
    assert scaled("stocks", ticks=2).values.tolist() == [[100, 100], [200, 100]]


def test_a_fixed_width_sends_what_simulate_says_and_a_clairvoyant_cuts_pieces():
    trace = generated("walk", 5, 400, 3)
    query = one_average(trace, 8.0)
    run = simulate(trace, query, "uniform", warmup=50)
    assert count_sent(trace.values, run.widths, 50, False).tolist() == run.updates_by_item.tolist()
    steps = np.array([[0.0], [1.0], [2.0], [3.0], [2.5], [0.0]])
    assert count_sent(steps, np.array([2.0]), 0, True).tolist() == [2]


def test_hindsight_is_never_worse_than_equal_widths():
    trace = generated("lognormal", 8, 1500, 1)
    for queries in (one_average(trace, 8.0), averages(trace, 8.0, 4, (2, 5), (1.0, 1.0))):
        uniform = simulate(trace, queries, "uniform").cost
        assert clairvoyant_cost(trace, queries) < static_cost(trace, queries) < uniform


def walk_rows(adaptive, *, optimal=0.5, costs="equal costs", violations=0):
    base = {"costs": costs, "delta": 3.0, "violations": violations}
    rates = {"optimal": optimal, "adaptive": adaptive * optimal, "predictive": optimal}
    return [{**base, "policy": policy, "updates_per_tick": rate} for policy, rate in rates.items()]


def test_figures_3_and_4_are_judged_where_the_optimum_is_busy():
    idle = [{**row, "delta": 30.0} for row in walk_rows(2.0, optimal=0.01)]
    assert judge_against_optimal(walk_rows(1.3) + idle).reproduced
    assert "2.00–2.00 where it is not" in judge_against_optimal(walk_rows(1.3) + idle).finding
    assert not judge_against_optimal(walk_rows(1.6)).reproduced
    assert not judge_against_optimal(idle).reproduced
    assert not judge_against_optimal(walk_rows(1.3, violations=1)).reproduced


@pytest.mark.parametrize("figure", [filters_fig3, filters_fig4])
def test_figures_3_and_4_measure_updates_alone(figure):
    size = {"ticks": 300, "warmup": 50, "seeds": 1}
    rows = figure.measure({**figure.grid(True)[0], **size})
    assert [row["policy"] for row in rows] == ["optimal", "adaptive", "predictive"]
    assert all(row["violations"] == 0 for row in rows)


def test_figure_2():
    rows = [row for parameters in filters_fig2.grid(True) for row in filters_fig2.measure({**parameters, "rounds": 1})]
    assert all(float(row["cpu_share"]) > 0 for row in rows)
    made = [
        {"share": share, "queries": queries, "warm": 1, "cpu_share": cost}
        for (share, queries), cost in {(0.05, 20): 1e-6, (0.25, 20): 2e-6, (0.05, 200): 1e-5, (0.25, 200): 1e-4}.items()
    ]
    assert filters_fig2.judge(made).reproduced
    assert not filters_fig2.judge([{**row, "cpu_share": 200 * float(row["cpu_share"])} for row in made]).reproduced
    assert not filters_fig2.judge([{**row, "cpu_share": 1e-5} for row in made]).reproduced


def rated(regime, **rates):
    base = {"regime": regime, "delta": 0.8, "violations": 0}
    return [{**base, "policy": policy, "messages_per_second": rate} for policy, rate in rates.items()]


def test_figure_6():
    rows = filters_fig6.measure({"regime": "steady", "delta": 4.0, "ticks": 300, "warmup": 50})
    assert all(row["violations"] == 0 for row in rows)
    assert filters_fig6.judge(rated("steady", uniform=10, adaptive=9, predictive=8)).reproduced
    assert not filters_fig6.judge(rated("bursts", uniform=10, adaptive=11, predictive=8)).reproduced


def test_figure_8():
    trace = filters_fig8.traffic(40)
    assert trace.values.shape == (40, 310)
    queries = filters_fig8.queries_of(trace.items, 0.8)
    assert [len(query.weights) for query in queries] == [160] * 5
    assert [round(query.within, 6) for query in queries] == [0.004, 0.4, 0.004, 0.004, 0.4]
    rows = filters_fig8.measure({"regime": filters_fig8.REGIMES[2], "delta": 0.8, "ticks": 100, "warmup": 20})
    assert all(row["violations"] == 0 for row in rows)
    judged, told, _ = filters_fig8.REGIMES
    good = rated(judged, uniform=10, adaptive=4, predictive=3)
    assert filters_fig8.judge(good + rated(told, uniform=10, adaptive=12, predictive=3)).reproduced
    assert not filters_fig8.judge(rated(judged, uniform=10, adaptive=6, predictive=3)).reproduced


def test_figure_9():
    rows = [filters_fig9.measure({"allowance": allowance, "ticks": 3000})[0] for allowance in (0.0, 0.4)]
    assert rows[0]["in_time"] < rows[1]["in_time"]
    assert rows[0]["fidelity"] <= rows[1]["fidelity"]
    row = {"allowance": 0.4, "in_time": 0.998, "fidelity": 0.99998, "seconds_per_update": 8.0}
    assert filters_fig9.judge([row]).reproduced
    assert not filters_fig9.judge([{**row, "fidelity": 0.999}]).reproduced
    assert not filters_fig9.judge([{**row, "in_time": 0.99}]).reproduced


def test_sensitivity():
    rows = filters_sensitivity.measure({"workload": "10 walks", "ticks": 400, "quick": 1})
    assert {(row["period"], row["shrink"]) for row in rows} > filters_sensitivity.AROUND
    assert all(row["violations"] == 0 for row in rows)
    made = [{**row, "cost": 1.2 if row["shrink"] < 0.2 else 3.0} for row in rows]
    assert filters_sensitivity.judge(made).reproduced
    assert not filters_sensitivity.judge([{**row, "cost": 1.6} for row in rows]).reproduced


def test_the_table_of_all_policies():
    cell: dict = {"data": "walk", "queries": "one", "delta": 8.0, "source": "generated", "seeds": 1}
    rows = filters_table5.measure({**cell, "ticks": 400, "warmup": 100})
    assert [row["policy"] for row in rows] == [*filters_table5.POLICIES, "static", "clairvoyant"]
    assert all(row["violations"] == 0 for row in rows)
    good = [{**row, "ratio": 0.7} for row in rows]
    assert filters_table5.judge(good).reproduced
    assert "no recorded traces" in filters_table5.judge(good).finding
    assert not filters_table5.judge([{**row, "ratio": 0.9} for row in rows]).reproduced
    real = [{**row, "source": "recorded", "messages": 500.0, "data": "cloud"} for row in good]
    assert filters_table5.judge(good + real).reproduced
    bad = [{**row, "ratio": 1.2} for row in real]
    assert "not judged" in filters_table5.judge(good + bad).finding
    whole = [{**row, "delta": delta} for row in good + bad for delta in filters_table5.DELTAS]
    assert not filters_table5.judge(whole).reproduced


def test_overlapping_queries_are_built_from_the_trace():
    trace, queries = filters_table5.workload(
        {"data": "season", "queries": "overlap", "delta": 2.0, "source": "generated", "ticks": 60}, 1
    )
    assert len(queries) == 5
    assert all(isinstance(query, Aggregate) and set(query.weights) <= set(trace.items) for query in queries)
