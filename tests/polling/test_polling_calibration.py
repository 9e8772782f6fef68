"""Calibrated risk: what it learns of data that is no walk, and what that costs where it is one."""

import numpy as np
import pytest

from tolerant.experiments.workloads.stock_prices import outcome, polled_trace, portfolios
from tolerant.polling import Poller, simulate
from tolerant.polling.choice.risk_calibration import learn_variance
from tolerant.polling.fidelity_window import bridge_moments
from tolerant.polling.poller_arrays import ITEM
from tolerant.queries import Aggregate
from tolerant.traces import Trace

CALIBRATED = {"calibrated": True, "forecast": True}


def learned(values, ticks):
    """An item that was asked for every so many ticks."""
    item = np.zeros(1, ITEM)[0]
    item["growth"] = item["usual"] = 1
    for before, now in zip(values[:-ticks:ticks], values[ticks::ticks], strict=False):
        item["pulls"] += 1
        learn_variance(item, now - before, now - before, ticks)
    return item


@pytest.mark.parametrize("ticks", [2, 10])
def test_it_learns_how_variance_grows_with_age(ticks):
    rng = np.random.default_rng(1)
    noise = rng.normal(size=40_000)
    walk = np.cumsum(noise)
    straight = np.arange(40_000.0)
    assert learned(noise, ticks)["growth"] < 0.35
    assert 0.75 < learned(walk, ticks)["growth"] < 1.25
    assert learned(straight, ticks)["growth"] > 1.8
    # The variance at the age of the pulls is right whatever the growth.
    assert learned(noise, ticks)["slow"] * ticks ** learned(noise, ticks)["growth"] == pytest.approx(2.0, rel=0.6)
    assert learned(walk, ticks)["slow"] * ticks ** learned(walk, ticks)["growth"] == pytest.approx(ticks, rel=0.6)


def test_on_the_way_is_what_conditioning_a_normal_path_gives():
    item = np.zeros(1, ITEM)[0]
    item["variance"], item["growth"] = 0.7, 1.4
    ages = np.arange(1, 8)

    def covariance(a, b):
        return 0.35 * (a**1.4 + b**1.4 - abs(a - b) ** 1.4)

    for k in ages[:-1]:
        share, doubt = bridge_moments(item, int(k), 7)
        whole = covariance(7, 7)
        assert share == pytest.approx(covariance(k, 7) / whole)
        assert doubt == pytest.approx(covariance(k, k) - covariance(k, 7) ** 2 / whole)


def test_on_a_walk_it_costs_little():
    trace, queries = polled_trace("walk", seed=7), portfolios(500, 2400, 0.98, seed=7)
    plain, calibrated = (outcome(simulate(trace, queries, "risk", **o)) for o in ({}, CALIBRATED))
    assert calibrated["pulls"] <= 1.25 * plain["pulls"]
    assert calibrated["fidelity"] >= 0.98


def spiky(ticks=4000, items=12, seed=3):
    """Quiet items that leap for a tick, each at one of 50 ticks."""
    rng = np.random.default_rng(seed)
    values = np.cumsum(rng.normal(size=(ticks, items)) * 0.01, axis=0)
    values += (rng.random((ticks, items)) < 0.02) * 5.0
    return Trace(tuple(f"i{k}" for k in range(items)), values)


def test_spikes_that_nobody_sees_are_found_and_paid_for():
    trace = spiky()
    queries = [Aggregate.over(f"q{k}", "sum", trace.items[k : k + 3], 3.0, 0.98) for k in range(10)]
    plain, calibrated = (outcome(simulate(trace, queries, "risk", **o), 12) for o in ({}, CALIBRATED))
    assert calibrated["fidelity"] > plain["fidelity"] + 0.01
    assert plain["pulls"] < calibrated["pulls"] < trace.ticks


def test_what_it_learned_outlives_other_queries_and_a_restart():
    trace = spiky(600)
    queries = [Aggregate.over("all", "sum", trace.items, 3.0, 0.98), Aggregate.over("one", "sum", ["i0"], 3.0, 0.98)]
    poller = Poller(queries, "risk", window=50, **CALIBRATED)

    def play(first, stop, *pollers):
        asked = []
        for tick in range(first, stop):
            due = [each.due(tick) for each in pollers]
            asked.append(due)
            for each, items in zip(pollers, due, strict=True):
                for item in items:
                    each.pulled(item, float(trace.values[tick, trace.items.index(item)]), tick)
        return asked

    play(0, 400, poller)
    restored = Poller.restore(poller.save())
    assert all(a == b for a, b in play(400, 500, poller, restored))
    doubts = poller._arranged.rows.table["doubt"].copy()  # what only matters over thousands of ticks
    assert (doubts > 1).any()
    poller.add(Aggregate.over("two", "sum", ["i1", "i2"], 3.0, 0.98))
    assert (poller._arranged.rows.table["doubt"][:2] == doubts).all()
