"""Dynamics of traces and plans of many queries on Spark are those that one machine finds."""

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

from tolerant.planning import Dynamics, Network, Unsatisfiable, simulate
from tolerant.planning import plan_many as plan_here
from tolerant.queries import Aggregate
from tolerant.spark.statistics import dynamics, plan_many, simulate_many
from tolerant.traces import Trace

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]

ITEMS = ("a", "b", "c.d")


def recorded(ticks=400):
    rng = np.random.default_rng(1)
    values = np.cumsum(rng.normal(0, [1.0, 0.5, 0.1], (ticks, 3)), axis=0)
    values[:, 1] -= values[:, 0]
    gaps = rng.random(values.shape) < 0.2
    gaps[:, 0] = False  # a long file has no ticks without any reading
    values[gaps] = np.nan
    return Trace(ITEMS, values)


def test_dynamics_and_plans_are_those_of_one_machine(spark, tmp_path):
    trace = recorded()
    expected = Dynamics.of(trace)
    wide = pa.table({"at": np.arange(trace.ticks), **{name: trace.values[:, k] for k, name in enumerate(ITEMS)}})
    parquet.write_table(wide, tmp_path / "wide.parquet")
    ats, places = np.nonzero(~np.isnan(trace.values))
    order = np.random.default_rng(2).permutation(len(ats))  # long files need not be sorted
    long = pa.table(
        {"at": ats[order], "item": np.array(ITEMS)[places[order]], "value": trace.values[ats, places][order]}
    )
    parquet.write_table(long, tmp_path / "long.parquet")
    for name in ("wide", "long"):
        found = dynamics(spark, tmp_path / f"{name}.parquet")
        assert (found.items, found.ticks) == (ITEMS, expected.ticks)
        np.testing.assert_allclose(found.sumdiff, expected.sumdiff, rtol=1e-12)
        np.testing.assert_allclose(found.cosine, expected.cosine, atol=1e-12)
    with pytest.raises(ValueError, match="must hold numbers"):
        dynamics(spark, spark.createDataFrame([(1, "x")], "at int, a string"))

    network = Network({"D1": {"a": 0.1, "b": 0.1}, "D2": {"b": 0.05, "c.d": 0.1}})
    queries = [Aggregate.over(f"q{n}", "sum", ITEMS[: n % 3 + 1], within=0.05 + n / 5) for n in range(12)]
    here = plan_here(queries, network, expected)
    there = plan_many(spark, queries, network, expected)
    assert [repr(one) for one in there] == [repr(one) for one in here]
    assert any(isinstance(one, Unsatisfiable) for one in there)
    plans = [one for one in there if not isinstance(one, Unsatisfiable)]
    runs = simulate_many(spark, plans, trace)
    assert [run.refreshes for run in runs] == [simulate(one, trace).refreshes for one in plans]
    assert not any(run.violations for run in runs)
    with pytest.raises(ValueError, match="heuristic"):
        plan_many(spark, queries, network, expected, "best")
