"""Each experiment of the joins: a tiny measurement, and a judgement that can go either way."""

from importlib import import_module

import pytest

from tolerant.experiments.workloads.joining import updates, zipf_share

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


def experiment(name):
    return import_module(f"tolerant.experiments.joins_{name}").EXPERIMENT


@pytest.mark.parametrize("name", TINY)
def test_a_tiny_measurement(name):
    chosen = experiment(name)
    rows = chosen.measure(TINY[name])
    assert rows
    for row in rows:
        assert {chosen.chart.x, chosen.chart.y, chosen.chart.series} <= set(row)
        assert row[chosen.chart.y] >= 0
    assert TINY[name].keys() <= chosen.grid(True)[0].keys()


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
    assert judge(timed(x, good)).came_out
    assert not judge(timed(x, {**good, bad: lambda at: 50 * at})).came_out


def test_groups_must_make_ssi_slower_but_not_the_others():
    judge = experiment("fig410ii").judge
    assert judge(
        timed("groups", {"merge": lambda at: 2000, "data": lambda at: 5000, "ssi": lambda at: at / 10})
    ).came_out
    assert not judge(timed("groups", {"merge": linear, "data": flat, "ssi": linear})).came_out
    crossing = experiment("fig47ii").judge
    methods = {"scan": flat, "select-first": flat, "join-first": flat}
    rows = [{**row, "groups": row["groups"] / 4} for row in timed("groups", {**methods, "ssi": lambda at: at / 10})]
    assert crossing(rows).came_out
    assert not crossing(timed("groups", {**methods, "ssi": flat})).came_out


def test_upkeep_is_held_against_one_list():
    rows = [
        {"epsilon": 1.0, "method": method, "update_us": spent, "rebuilds": 1}
        for method, spent in (("ssi", 1.0), ("merge", 2.0), ("queries", 0.0))
    ]
    assert experiment("fig411").judge(rows).came_out
    assert not experiment("fig411").judge([{**row, "rebuilds": 9} for row in rows]).came_out


def test_the_histogram_by_groups_is_held_against_equal_widths():
    def rows(ours):
        errors = {"ssi-sum": ours, "equal-width": 0.5, "ssi": 0.1}
        return [
            {"data": data, "buckets": 20, "method": method, "error": error}
            for data in ("as stated", "tight hotspots")
            for method, error in errors.items()
        ]

    assert experiment("fig412").judge(rows(0.15)).came_out
    assert not experiment("fig412").judge(rows(0.9)).came_out


def test_zipf_shares_are_those_of_the_worked_example():
    assert [round(zipf_share(5000, 500, beta), 3) for beta in (1.0, 1.1, 1.2)] == [0.747, 0.825, 0.886]
    assert [round(zipf_share(5000, 50, beta), 3) for beta in (1.0, 1.1, 1.2)] == [0.495, 0.606, 0.707]
    rows = [row for beta in (1.0, 1.2) for row in experiment("fig42").measure({"beta": beta})]
    assert experiment("fig42").judge(rows).came_out
    assert not experiment("fig42").judge([{**row, "share": 0.1} for row in rows]).came_out


def test_coefficients_must_explain_the_times():
    names = ("join_first_stab", "scan_test", "select_first_hit", "hotspot_hit")
    rows = [
        {"component": name, "units": x, "microseconds": 2.0 * x, "queries": "scattered"}
        for name in names
        for x in (1.0, 2.0, 5.0)
    ]
    crowded = [{**row, "microseconds": row["units"], "queries": "crowded"} for row in rows]
    verdict = experiment("table42").judge(rows + crowded)
    assert verdict.came_out
    assert "scan_test 2 [2, 2] µs, R² 1.00 (with crowded queries 0." in verdict.finding
    noise = [{**row, "microseconds": 10.0 - row["units"]} for row in rows]
    assert not experiment("table42").judge(noise).came_out


def routed(x, points, shares):
    costs = {"hotspot": 1.0, "select-first": 5.0, "join-first": 6.0, "ssi": 2.0, "auto": 0.8, "optimum": 0.5}
    return [
        {x: at, "method": method, "search_us": spent * (2 + k), "share": shares[k].get(method, 0.0), "agreed": 0.3}
        for k, at in enumerate(points)
        for method, spent in costs.items()
    ]


def test_routing_is_judged_by_times_and_shares():
    fixed = routed("queries", (1, 2), [{"hotspot": 1.0}] * 2)
    assert experiment("fig413").judge(fixed).came_out
    slow = [{**row, "search_us": 9.0 * row["search_us"]} if row["method"] == "auto" else row for row in fixed]
    assert not experiment("fig413").judge(slow).came_out
    falling = [{"join-first": 0.6}, {"join-first": 0.1}]
    assert experiment("fig416").judge(routed("nearness", (-3000, 0), falling)).came_out
    assert not experiment("fig416").judge(routed("nearness", (-3000, 0), falling[::-1])).came_out
    chosen = [{"select-first": 0.9}, {"select-first": 0.1}]
    assert experiment("fig418").judge(routed("middle", (0, 5000), chosen)).came_out
    assert not experiment("fig418").judge(routed("middle", (0, 5000), chosen[::-1])).came_out


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
