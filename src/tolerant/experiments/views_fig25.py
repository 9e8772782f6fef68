"""Seed 003, Figure 2.5: what plans cost by the fitted costs against what they cost when they are carried out, by real
delta joins on Spark.
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from tolerant.experiments.harness.experiment import Chart, Experiment, Row, Verdict
from tolerant.experiments.workloads.changes import uniform_changes
from tolerant.experiments.workloads.delta_joins import CHANGING, DeltaJoins
from tolerant.views import Measured, Schedule, schedule

METHODS = ("naive", "online", "optimal")
WITHIN = 0.15
"""How far apart the two may be."""

SIZES = (1, 20, 40, 80)


def grid(quick: bool) -> list[Row]:
    """One set: the plans are carried out one after the other on the same tables. `pending`: the changes of each table
    that the limit has room for; naive acts every so many ticks.
    """
    if quick:
        return [{"scale": 0.01, "ticks": 60, "pending": 20, "repeats": 3}]
    return [{"scale": 1.0, "ticks": 1000, "pending": 40, "repeats": 5}]


def measure(parameters: Mapping[str, float | int | str]) -> list[Row]:
    """Cost by the model and in seconds, of each method."""
    from pyspark.sql import SparkSession

    spark = SparkSession.getActiveSession()
    assert spark is not None
    arrivals = uniform_changes(int(parameters["ticks"]))
    with tempfile.TemporaryDirectory() as folder:
        joins = DeltaJoins(spark, Path(folder), float(parameters["scale"]))
        timings = [joins.timed(table, SIZES, int(parameters["repeats"])) for table in CHANGING]
        costs = [Measured(*map(list, zip(*one, strict=True))).linear() for one in timings]
        limit = sum(cost(int(parameters["pending"])) for cost in costs)
        plans = {method: schedule(costs, arrivals, limit, method) for method in METHODS}
        return [
            {"method": method, "how": how, "seconds": seconds, "actions": len(plan.actions)}
            for method, plan in plans.items()
            for how, seconds in (("by the model", plan.cost), ("carried out", _carried_out(joins, plan)))
        ]


def _carried_out(joins: DeltaJoins, plan: Schedule) -> float:
    """Seconds of a plan's pushes, one change of each table a tick."""
    seen = dict.fromkeys(CHANGING, -1)
    total = 0.0
    for tick, places in plan.actions:
        for place in places:
            table = CHANGING[place]
            joins.change(table, tick - seen[table])
            seen[table] = tick
            total += joins.push([table])[1]
    return total


def judge(rows: Sequence[Row]) -> Verdict:
    """Both costs of every method."""
    found = {(row["method"], row["how"]): float(row["seconds"]) for row in rows}
    ratios = {method: found[method, "carried out"] / found[method, "by the model"] for method in METHODS}
    costs = ", ".join(f"{m} {found[m, 'by the model']:.1f} and {found[m, 'carried out']:.1f} s" for m in METHODS)
    finding = f"by the model and carried out: {costs}; " + ", ".join(f"{m} {r:.2f}" for m, r in ratios.items())
    return Verdict(all(abs(ratio - 1) <= WITHIN for ratio in ratios.values()), finding)


EXPERIMENT = Experiment(
    figure="seed 003, Figure 2.5",
    claim="plans cost what the model says, within 15 %",
    grid=grid,
    measure=measure,
    judge=judge,
    chart=Chart(x="actions", y="seconds", series="how", x_label="actions of the plan", y_label="seconds"),
    in_driver=True,
)
