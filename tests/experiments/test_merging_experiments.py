"""The merging experiments: what each judges, and one tiny measurement of each."""

import numpy as np
import pytest

from tolerant.experiments import load
from tolerant.experiments.workloads.rectangle_sets import table_evaluations
from tolerant.merging import Costs

NAMES = [*(f"merging-fig{n}" for n in range(9, 17)), "merging-limits"]


def rows(name, **few):
    """A tiny run: the first parameter set of the quick grid, and what else is given."""
    experiment = load(name)
    return list(experiment.measure({**experiment.grid(True)[0], **few}))


@pytest.mark.parametrize("name", NAMES)
def test_a_tiny_measurement_fills_the_chart(name):
    experiment = load(name)
    measured = rows(name, samples=1, n=4)
    chart = experiment.chart
    assert measured
    for row in measured:
        assert {chart.x, chart.y, chart.series, *([chart.panel] if chart.panel else [])} <= row.keys()
    assert untimed(measured) == untimed(rows(name, samples=1, n=4))
    assert untimed(measured) != untimed(rows(name, samples=1, n=7))


def untimed(measured):
    """The rows without what the clock says."""
    return [{column: value for column, value in row.items() if column != "seconds"} for row in measured]


def test_the_limits_are_those_of_sets_that_were_solved():
    (row,) = rows("merging-limits", samples=2, n=4)
    assert row["solved"] == row["samples"] == 2
    assert row["seconds"] > 0


def judged(name, found):
    return load(name).judge(found).reproduced


def test_gains_are_counted_as_in_the_papers_table():
    rectangles = [[0, 0, 4, 4], [2, 0, 6, 4], [5, 0, 9, 4], [20, 20, 24, 24], [21, 20, 25, 24]]
    assert table_evaluations(np.array(rectangles, float), Costs(10, 2, 0.5)) == (162.0, 15)
    assert table_evaluations(np.array(rectangles[:2], float), Costs(1000, 2, 0.5))[1] == 1


def test_figure_9():
    def groups(channel, transfer, waste):
        values = {"channel": channel, "transfer": transfer, "waste": waste}
        return [
            {"price": price, "factor": factor, "groups": value}
            for price, pair in values.items()
            for factor, value in zip((0.5, 2), pair, strict=True)
        ]

    assert judged("merging-fig9", groups((60, 30), (50, 45), (48, 52)))
    assert not judged("merging-fig9", groups((60, 50), (50, 45), (30, 60)))  # K_U moves it most
    assert not judged("merging-fig9", groups((30, 60), (50, 45), (48, 52)))
    finding = load("merging-fig9").judge(groups((60, 50), (50, 45), (30, 60))).finding
    assert "most sensitive is waste" in finding


def test_figure_10():
    def better(*values, worse=0):
        return [
            {"n": n, "starts": starts, "better": value, "worse": worse}
            for n in (12, 100)
            for starts, value in zip((1, 50), values, strict=True)
        ]

    assert judged("merging-fig10", better(0, 20))
    assert not judged("merging-fig10", better(20, 10))
    assert not judged("merging-fig10", better(0, 20, worse=1))


def optimal(pairs, directed):
    columns = ("n", "optimal", "distance", "suboptimal", "missed")
    return [
        {"method": method, **dict(zip(columns, values, strict=True))}
        for method, found in (("pairs", pairs), ("directed", directed))
        for values in found
    ]


def test_figures_11_to_13():
    good = optimal([(3, 99, 0.1, 90, 1), (12, 87, 0.8, 6, 13)], [(3, 100, 0, 0, 0), (12, 99.5, 0.01, 2, 1)])
    bad = optimal([(3, 87, 0.8, 6, 13), (12, 99, 0.1, 90, 1)], [(3, 80, 0.5, 1, 20), (12, 99.5, 0.01, 2, 1)])
    for name in ("merging-fig11", "merging-fig12", "merging-fig13"):
        assert judged(name, good)
        assert not judged(name, bad)
    assert not judged("merging-fig13", optimal([(3, 100, 0, 0, 0)], [(3, 100, 0, 0, 0)]))


def test_figure_14():
    def cost(pairs, clusters=1.0):
        return [
            {"n": n, "method": method, "cost": value}
            for n, none, merged in zip((20, 100), (0.66, 3.3), pairs, strict=True)
            for method, value in (
                ("none", none),
                ("pairs", merged),
                ("directed", merged),
                ("clusters", merged * clusters),
            )
        ]

    assert judged("merging-fig14", cost((0.63, 2.5)))
    assert not judged("merging-fig14", cost((0.63, 2.5), clusters=1.1))
    assert not judged("merging-fig14", cost((0.3, 3.2)))


def test_figure_15():
    def counts(clusters):
        return [
            {"prices": name, "n": 100, "method": method, "evaluations": value, "cost": 1.0}
            for name in ("base prices", "K_U × 16")
            for method, value in (("pairs", 9778), ("clusters", clusters), ("clusters by gain", 598))
        ]

    assert judged("merging-fig15", counts(3000))
    assert not judged("merging-fig15", counts(9700))


def test_figure_16():
    def cost(*after):
        return [
            {"cf": cf, "when": when, "cost": value}
            for cf, merged in zip((0, 1), after, strict=True)
            for when, value in (("before", 3.3), ("after", merged))
        ]

    assert judged("merging-fig16", cost(2.9, 2.4))
    assert not judged("merging-fig16", cost(3.3, 2.4))
    assert not judged("merging-fig16", cost(2.4, 2.9))


def test_limits():
    def solved(exhaustive, partition, seconds=1.0):
        return [
            {"method": method, "n": n, "samples": 2, "solved": 2, "seconds": seconds}
            for method, n in (("exhaustive", exhaustive), ("partition", partition))
        ]

    assert judged("merging-limits", solved(8, 16))
    assert not judged("merging-limits", solved(4, 16))
    assert not judged("merging-limits", solved(8, 16, seconds=400.0))
