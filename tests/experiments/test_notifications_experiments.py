"""The experiments of [DISS], chapter 5: workloads, one tiny measurement each, and verdicts that can fail."""

import numpy as np
import pytest

from tolerant.experiments import load
from tolerant.experiments.workloads.changing_ranges import (
    SIDE,
    changing_rows,
    narrow_ranges,
    stocks,
    watched_ranges,
    watched_stocks,
)
from tolerant.notifications import RangeMin

TINY = {
    "notifications-table52": {"rows": 500, "subscriptions": 2_000, "events": 200},
    "notifications-table53": {"rows": 500, "subscriptions": 2_000, "events": 200},
    "notifications-fig56": {"rows": 500, "subscriptions": 2_000, "events": 200},
    "notifications-fig57": {"rows": 500, "subscriptions": 2_000, "events": 200},
    "notifications-fig58": {"at_each": 2, "subscriptions": 2_000, "events": 100},
    "notifications-fig59": {"gateways": "content", "spikes": 0.02, "rows": 500, "subscriptions": 2_000, "events": 100},
    "notifications-fig510": {"subscriptions": 2_000, "events": 200},
}


@pytest.mark.parametrize(("name", "parameters"), TINY.items())
def test_every_experiment_measures_what_its_chart_shows(name, parameters):
    experiment = load(name)
    rows = experiment.measure(parameters)
    assert {row["approach"] for row in rows} >= {"s-cn", "s-un"}
    for row in rows:
        assert parameters.items() <= row.items()
        assert np.isfinite(float(row[experiment.chart.y]))
    assert all(set(parameters) == set(point) for point in experiment.grid(True) + experiment.grid(False))


def points(x, y, values, **others):
    """Rows of several approaches: {approach: values of y at x = 1, 2, …}."""
    return [
        {x: n + 1.0, "approach": approach, y: value, **others}
        for approach, listed in values.items()
        for n, value in enumerate(listed)
    ]


@pytest.mark.parametrize(
    ("content", "unicast", "reproduced"),
    [([2.1, 2.15], [600.0, 650.0], True), ([2.1, 2.5], [600.0, 650.0], False), ([2.1, 2.15], [10.0, 20.0], False)],
)
def test_verdict_of_table_5_2(content, unicast, reproduced):
    values = {"s-cn": content, "s-un": unicast, "s-cn-active": content, "packed": content}
    assert load("notifications-table52").judge(
        points("rows", "messages", values, subscriptions=500_000)
    ).reproduced == reproduced  # fmt: skip


@pytest.mark.parametrize(
    ("content", "unicast", "reproduced"),
    [([2.08, 2.08], [300.0, 600.0], True), ([2.08, 2.09], [300.0, 600.0], False), ([2.08] * 2, [300.0] * 2, False)],
)
def test_verdict_of_table_5_3(content, unicast, reproduced):
    values = {"s-cn": content, "s-un": unicast, "s-cn-active": content}
    assert load("notifications-table53").judge(points("subscriptions", "messages", values)).reproduced == reproduced


@pytest.mark.parametrize(
    ("content", "unicast", "reproduced"),
    [([1.0, 1.2], [3.5, 3.0], True), ([1.0, 2.2], [3.5, 5.0], False), ([1.0, 1.0], [2.0, 2.5], False)],
)
def test_verdict_of_figure_5_6(content, unicast, reproduced):
    rows = points("rows", "microseconds", {"s-cn": content, "s-un": unicast})
    assert load("notifications-fig56").judge(rows).reproduced == reproduced


@pytest.mark.parametrize(
    ("content", "unicast", "reproduced"),
    [([1.0, 1.1], [2.0, 3.0], True), ([1.0, 1.6], [2.0, 3.6], False), ([1.0, 1.0], [2.0, 1.7], False)],
)
def test_verdict_of_figure_5_7(content, unicast, reproduced):
    rows = points("subscriptions", "microseconds", {"s-cn": content, "s-un": unicast})
    assert load("notifications-fig57").judge(rows).reproduced == reproduced


@pytest.mark.parametrize(
    ("unicast", "raw", "content", "reproduced"),
    [
        ([900.0, 20.0], [100.0, 101.0], [50.0, 5.0], True),
        ([900.0, 20.0], [100.0, 150.0], [50.0, 5.0], False),
        ([900.0, 20.0], [100.0, 100.0], [50.0, 25.0], False),
        ([900.0, 200.0], [100.0, 100.0], [50.0, 5.0], False),
    ],
)
def test_verdict_of_figure_5_8(unicast, raw, content, reproduced):
    values = {"s-un": unicast, "cn": raw, "s-cn": content, "packed": content}
    assert load("notifications-fig58").judge(points("ignorable", "bytes", values)).reproduced == reproduced


@pytest.mark.parametrize(("raw", "content", "reproduced"), [(100.0, 10.0, True), (100.0, 60.0, False)])
def test_verdict_of_figure_5_9(raw, content, reproduced):
    values = {"s-un": [56.0, 112.0], "cn": [raw, raw], "s-cn": [content, 2 * content]}
    values |= {"s-cn-active": values["s-cn"], "packed": values["s-cn"]}
    rows = points("affected", "bytes", values, gateways="content")
    rows += points("affected", "bytes", {"s-cn": [500.0, 900.0]}, gateways="random")
    verdict = load("notifications-fig59").judge(rows)
    assert verdict.reproduced == reproduced
    assert "500 900" in verdict.finding


@pytest.mark.parametrize(
    ("content", "stress", "reproduced"), [([80.0, 90.0], 8, True), ([80.0, 120.0], 8, False), ([80.0, 90.0], 11, False)]
)
def test_verdict_of_figure_5_10(content, stress, reproduced):
    values = {"s-un": [2000.0, 4000.0], "cn": [16000.0, 16000.0], "s-cn": content}
    rows = points("subscriptions", "bytes", values, max_stress=stress, ignorable=0.9)
    assert load("notifications-fig510").judge(rows).reproduced == reproduced


def test_spikes_drop_and_are_restored():
    table = changing_rows(100, 2_000, spikes=0.2, seed=3)
    ids, _, new = table.changes
    low = np.flatnonzero(new[:-1] < 0.001)
    assert len(low) > 200
    assert (ids[low + 1] == ids[low]).all()
    assert (new[low + 1] > 0.001).all()


def test_ignorable_updates_are_as_many_as_the_rows_at_a_place_say():
    for at_each in (1, 3, 9):
        table = changing_rows(200 * at_each, 6_000, spikes=0.0, at_each=at_each)
        rows = RangeMin.of(*table.rows)
        rows.apply(*table.changes)
        assert rows.counters.ignorable / 6_000 == pytest.approx(1 - 2 / (at_each + 1), abs=0.03)


def moves(table):
    """By how much each change moves its row."""
    heights, steps = table.rows[2].copy(), []
    for row, new in zip(table.changes[0], table.changes[2], strict=True):
        steps.append(new - heights[row])
        heights[row] = new
    return np.array(steps)


def test_redrawing_gives_two_messages_and_walking_fewer():
    messages = []
    for walk in ("redraw", 1000.0, 100.0):
        table = changing_rows(5_000, 5_000, spikes=0.0, walk=walk)
        step = np.median(np.abs(moves(table)))
        # The median of |N(0, σ)| is 0.674 σ, of the distance of two uniform draws (1 − √½) of the side.
        assert step == pytest.approx((1 - 0.5**0.5) * SIDE if walk == "redraw" else 0.674 * walk, rel=0.05)
        heights = table.changes[2]
        assert 0 <= heights.min() < 0.01 * SIDE  # reflected at both ends, not stuck there
        assert 0.99 * SIDE < heights.max() <= SIDE
        assert len(np.unique(heights)) == len(heights)
        messages.append(len(RangeMin.of(*table.rows).apply(*table.changes)) / 5_000)
    assert messages[0] == pytest.approx(2.0, abs=0.08)
    assert messages[0] > messages[1] > messages[2] > 1
    with pytest.raises(ValueError, match="walk must be 'redraw' or a number, got 'levy'"):
        changing_rows(5, 5, walk="levy")


def test_ranges_and_stocks_are_where_they_should_be():
    for low, high in (watched_ranges(5_000), narrow_ranges(5_000), watched_stocks(5_000)):
        assert (low <= high).all()
        assert len(low) == 5_000
    low, high = narrow_ranges(5_000)
    assert ((low + high) / 2 >= 0).all()
    assert (high - low).mean() == pytest.approx(50, abs=1)
    table = stocks(3_000)
    assert len(table.rows[0]) == 3053
    assert 1 <= table.rows[1].min() <= table.rows[1].max() <= 5
    rows = RangeMin.of(*table.rows)
    rows.apply(*table.changes)
    assert 0.02 < 1 - rows.counters.ignorable / 3_000 < 0.25
