"""Each experiment of the joins: a tiny measurement, and a judgement that can go either way."""

from importlib import import_module

import numpy as np
import pytest

from tolerant.experiments.workloads.join_loads import updates, zipf_share

TINY = {
    "fig42": {"beta": 1.0},
    "fig47i": {"queries": 50, "rows": 200, "events": 4},
    "fig47ii": {"centres": 20, "queries": 300, "rows": 200, "events": 4},
    "fig48iii": {"width": 100.0, "queries": 50, "rows": 200, "events": 4, "selecting": 5.0},
    "fig48iv": {"partners": 10, "queries": 50, "rows": 200, "events": 4},
    "fig49": {"coverage": 0.5, "hot": 5, "queries": 300, "rows": 200, "events": 4},
    "fig410i": {"queries": 50, "centres": 5, "rows": 200, "events": 4},
    "fig410ii": {"centres": 5, "queries": 50, "rows": 200, "events": 4},
    "fig411": {"epsilon": 3.0, "queries": 200, "updates": 100},
    "fig412": {"data": "as stated", "buckets": 5, "intervals": 100},
    "table42": {"size": 300, "events": 8, "queries": "scattered"},
    "fig413": {"queries": 300, "rows": 300, "events": 6},
    "fig416": {"nearness": 0, "queries": 300, "rows": 300, "events": 6},
    "fig418": {"middle": 5000, "queries": 300, "rows": 300, "events": 6},
}

SELECT = {"scan", "join-first", "select-first", "ssi"}
ROUTED = {*SELECT, "hotspot", "auto", "optimum"}
COMPARED = {
    "fig47i": SELECT, "fig47ii": SELECT, "fig48iii": SELECT, "fig48iv": SELECT, "fig49": {"hotspot", "select-first"},
    "fig410i": {"data", "merge", "queries", "ssi"}, "fig410ii": {"data", "merge", "ssi"},
    "fig411": {"merge", "queries", "ssi"}, "fig412": {"equal-width", "greedy", "optimal", "ssi", "ssi-sum"},
    "fig413": ROUTED, "fig416": ROUTED, "fig418": ROUTED,
}  # fmt: skip
"""The methods that each figure compares."""
ON_SOME = {"scan", "join-first", "queries", "data"}
"""Slow methods are timed on some of the events only."""


def experiment(name):
    return import_module(f"tolerant.experiments.continuous_joins.joins_{name}").EXPERIMENT


@pytest.mark.parametrize("name", TINY)
def test_a_tiny_measurement(name):
    chosen = experiment(name)
    rows = chosen.measure(TINY[name])
    assert rows
    for row in rows:
        assert {chosen.chart.x, chosen.chart.y, chosen.chart.series} <= set(row)
        assert np.isfinite(row[chosen.chart.y])
    assert TINY[name].keys() <= chosen.grid(True)[0].keys()


@pytest.mark.parametrize("name", COMPARED)
def test_every_method_of_a_figure_is_measured_once(name):
    assert sorted(row["method"] for row in experiment(name).measure(TINY[name])) == sorted(COMPARED[name])


@pytest.mark.parametrize(
    ("name", "parameters"),
    [
        ("fig47i", TINY["fig47i"]),
        ("fig47ii", TINY["fig47ii"]),
    ],
)
def test_the_methods_that_are_compared_find_the_same_pairs(name, parameters):
    rows = experiment(name).measure(parameters)
    for timed_on in (ON_SOME, COMPARED[name] - ON_SOME):
        pairs = {row["pairs"] for row in rows if row["method"] in timed_on}
        assert len(pairs) == 1
        assert pairs.pop() > 0


@pytest.mark.parametrize("name", ["fig413", "fig416", "fig418"])
def test_the_shares_of_the_methods_that_auto_takes_add_up(name):
    rows = experiment(name).measure(TINY[name])
    assert sum(row["share"] for row in rows) == pytest.approx(1.0)
    assert {row["method"] for row in rows if row["share"]} <= {"hotspot", "select-first", "join-first", "ssi", "scan"}


def timed(x, methods):
    """Rows of methods whose time is a function of x, at 100 and at 10,000."""
    return [
        {x: at, "method": method, "search_us": float(time(at)), "hot_share": 1.0, "queries": at}
        for at in (100, 10_000)
        for method, time in methods.items()
    ]


def linear(at):
    return at


def flat(at):
    return 20


@pytest.mark.parametrize(
    ("name", "x", "good", "bad"),
    [
        ("fig47i", "queries", {"scan": linear, "select-first": linear, "join-first": linear, "ssi": flat}, "ssi"),
        ("fig48iii", "selecting", {"scan": flat, "select-first": linear, "join-first": flat, "ssi": flat}, "ssi"),
        ("fig48iv", "partners", {"scan": flat, "select-first": flat, "join-first": linear, "ssi": flat}, "scan"),
        ("fig49", "coverage", {"select-first": flat, "hotspot": lambda at: 1e4 / at}, "hotspot"),
        ("fig410i", "queries", {"merge": linear, "data": linear, "queries": linear, "ssi": flat}, "ssi"),
    ],
)
def test_the_verdict_follows_the_times(name, x, good, bad):
    judge = experiment(name).judge
    assert judge(timed(x, good)).reproduced
    assert not judge(timed(x, {**good, bad: lambda at: 50 * at})).reproduced


def test_groups_must_make_ssi_slower_but_not_the_others():
    judge = experiment("fig410ii").judge
    assert judge(
        timed("groups", {"merge": lambda at: 2000, "data": lambda at: 5000, "ssi": lambda at: at / 10})
    ).reproduced
    assert not judge(timed("groups", {"merge": linear, "data": flat, "ssi": linear})).reproduced
    crossing = experiment("fig47ii").judge
    methods = {"scan": flat, "select-first": flat, "join-first": flat}
    rows = [{**row, "groups": row["groups"] / 4} for row in timed("groups", {**methods, "ssi": lambda at: at / 10})]
    assert crossing(rows).reproduced
    assert not crossing(timed("groups", {**methods, "ssi": flat})).reproduced


def test_upkeep_is_compared_with_one_list():
    rows = [
        {"epsilon": 1.0, "method": method, "update_us": spent, "rebuilds": 1}
        for method, spent in (("ssi", 1.0), ("merge", 2.0), ("queries", 0.0))
    ]
    assert experiment("fig411").judge(rows).reproduced
    assert not experiment("fig411").judge([{**row, "rebuilds": 9} for row in rows]).reproduced


def test_the_histogram_by_groups_is_compared_with_equal_widths():
    def rows(ours):
        errors = {"ssi-sum": ours, "equal-width": 0.5, "ssi": 0.1}
        return [
            {"data": data, "buckets": 20, "method": method, "error": error}
            for data in ("as stated", "tight hotspots")
            for method, error in errors.items()
        ]

    assert experiment("fig412").judge(rows(0.15)).reproduced
    assert not experiment("fig412").judge(rows(0.9)).reproduced


def test_zipf_shares_are_those_of_the_worked_example():
    assert [round(zipf_share(5000, 500, beta), 3) for beta in (1.0, 1.1, 1.2)] == [0.747, 0.825, 0.886]
    assert [round(zipf_share(5000, 50, beta), 3) for beta in (1.0, 1.1, 1.2)] == [0.495, 0.606, 0.707]
    rows = [row for beta in (1.0, 1.2) for row in experiment("fig42").measure({"beta": beta})]
    assert experiment("fig42").judge(rows).reproduced
    assert not experiment("fig42").judge([{**row, "share": 0.1} for row in rows]).reproduced


def test_coefficients_must_explain_the_times():
    names = ("join_first_stab", "scan_test", "select_first_hit", "hotspot_hit")
    rows = [
        {"component": name, "units": x, "microseconds": 2.0 * x, "queries": "scattered"}
        for name in names
        for x in (1.0, 2.0, 5.0)
    ]
    crowded = [{**row, "microseconds": row["units"], "queries": "crowded"} for row in rows]
    verdict = experiment("table42").judge(rows + crowded)
    assert verdict.reproduced
    assert "scan_test 2 [2, 2] µs, R² 1.00 (with crowded queries 0." in verdict.finding
    noise = [{**row, "microseconds": 10.0 - row["units"]} for row in rows]
    assert not experiment("table42").judge(noise).reproduced


def routed(x, points, shares):
    costs = {"hotspot": 1.0, "select-first": 5.0, "join-first": 6.0, "ssi": 2.0, "auto": 0.8, "optimum": 0.5}
    return [
        {x: at, "method": method, "search_us": spent * (2 + k), "share": shares[k].get(method, 0.0), "agreed": 0.3}
        for k, at in enumerate(points)
        for method, spent in costs.items()
    ]


def test_routing_is_judged_by_times_and_shares():
    fixed = routed("queries", (1, 2), [{"hotspot": 1.0}] * 2)
    assert experiment("fig413").judge(fixed).reproduced
    slow = [{**row, "search_us": 9.0 * row["search_us"]} if row["method"] == "auto" else row for row in fixed]
    assert not experiment("fig413").judge(slow).reproduced
    falling = [{"join-first": 0.6}, {"join-first": 0.1}]
    assert experiment("fig416").judge(routed("nearness", (-3000, 0), falling)).reproduced
    assert not experiment("fig416").judge(routed("nearness", (-3000, 0), falling[::-1])).reproduced
    chosen = [{"select-first": 0.9}, {"select-first": 0.1}]
    assert experiment("fig418").judge(routed("middle", (0, 5000), chosen)).reproduced
    assert not experiment("fig418").judge(routed("middle", (0, 5000), chosen[::-1])).reproduced


def test_updates_never_remove_what_is_not_there():
    low, high, steps = updates(50, 200, groups=5)
    held = set(range(50))
    for step in steps:
        if step >= 0:
            assert step not in held
            held.add(step)
        else:
            held.remove(-1 - step)
    assert len(low) == len(high) == 250
