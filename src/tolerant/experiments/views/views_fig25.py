"""[DISS], Figure 2.5: what plans cost by the fitted costs against what they cost when they are carried out, by real
delta joins on Spark.

Pushes are timed before the plans, which need costs to be made, and again each time that they have been carried out;
the model is fitted to all of it, because a machine is not always equally busy. For the same reason the plans are
carried out in turn, some ticks of each, and several times over.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from tolerant.experiments.harness.experiment import Chart, Experiment, Row, Verdict
from tolerant.experiments.workloads.delta_joins import CHANGING, DeltaJoins
from tolerant.experiments.workloads.view_changes import uniform_changes
from tolerant.views import Linear, Measured, Schedule, schedule

METHODS = ("naive", "online", "optimal")
WITHIN = 0.15
"""How far apart the two may be."""

SIZES = (1, 40, 150, 400)
"""As large as the batches of the plans: what a change more takes is little, and seen over many only."""

_LEAST_SLOPE = 1e-6  # seconds: without any, plans would never push


def grid(quick: bool) -> list[Row]:
    """Return the parameter sets: one set: the plans are carried out one after the other on the same tables. `pending`:
    the changes of each table that the limit has room for; naive acts every so many ticks.
    """
    if quick:
        return [{"scale": 0.01, "ticks": 60, "pending": 20, "repeats": 3, "rounds": 1}]
    return [{"scale": 1.0, "ticks": 1000, "pending": 40, "repeats": 3, "rounds": 3}]


def measure(parameters: Mapping[str, float | int | str]) -> list[Row]:
    """Measure cost by the model and in seconds, of each method."""
    from pyspark.sql import SparkSession

    spark = SparkSession.getActiveSession()
    assert spark is not None
    arrivals = uniform_changes(int(parameters["ticks"]))
    repeats, rounds = int(parameters["repeats"]), int(parameters["rounds"])
    with tempfile.TemporaryDirectory() as folder:
        joins = DeltaJoins(spark, Path(folder), float(parameters["scale"]))
        joins.warm_up()
        timings = [joins.timed(table, SIZES, repeats) for table in CHANGING]
        costs = [_line(of) for of in timings]
        limit = sum(cost(int(parameters["pending"])) for cost in costs)
        plans = {method: schedule(costs, arrivals, limit, method) for method in METHODS}
        seconds = dict.fromkeys(METHODS, 0.0)
        for _ in range(rounds):
            for method, took in _carried_out(joins, plans).items():
                seconds[method] += took / rounds
            for of, table in zip(timings, CHANGING, strict=True):
                of += joins.timed(table, SIZES, repeats)
        fitted = [_line(of) for of in timings]
        return [
            {"method": method, "how": how, "seconds": took, "actions": len(plan.actions)}
            for method, plan in plans.items()
            for how, took in (("by the model", _by_the_model(plan, fitted)), ("carried out", seconds[method]))
        ]


def _line(timings: Sequence[tuple[int, float]]) -> Linear:
    line = Measured(*map(list, zip(*timings, strict=True))).linear()
    return Linear(max(line.slope, _LEAST_SLOPE), line.setup)


def _pushes(plan: Schedule) -> Iterator[tuple[int, int, int]]:
    """(tick, table, changes) of every push, one change of each table a tick."""
    seen = [-1] * len(CHANGING)
    for tick, places in plan.actions:
        for place in places:
            yield tick, place, tick - seen[place]
            seen[place] = tick


def _by_the_model(plan: Schedule, costs: Sequence[Linear]) -> float:
    return sum(costs[place](changes) for _, place, changes in _pushes(plan))


def _carried_out(joins: DeltaJoins, plans: Mapping[str, Schedule]) -> dict[str, float]:
    """Seconds of the pushes of every plan, carried out side by side in the order of their ticks."""
    seconds = dict.fromkeys(plans, 0.0)
    everything = [(*push, method) for method, plan in plans.items() for push in _pushes(plan)]
    for _, place, changes, method in sorted(everything, key=lambda push: push[0]):
        joins.change(CHANGING[place], changes)
        seconds[method] += joins.push([CHANGING[place]])[1]
    return seconds


def judge(rows: Sequence[Row]) -> Verdict:
    """Judge the claim: both costs of every method."""
    seconds = {(row["method"], row["how"]): float(row["seconds"]) for row in rows}
    ratios = {method: seconds[method, "carried out"] / seconds[method, "by the model"] for method in METHODS}
    costs = ", ".join(f"{m} {seconds[m, 'by the model']:.1f} and {seconds[m, 'carried out']:.1f} s" for m in METHODS)
    finding = f"by the model and carried out: {costs}; " + ", ".join(f"{m} {r:.2f}" for m, r in ratios.items())
    return Verdict(all(abs(ratio - 1) <= WITHIN for ratio in ratios.values()), finding)


EXPERIMENT = Experiment(
    figure="[DISS], Figure 2.5",
    claim="plans cost what the model says, within 15 %",
    grid=grid,
    measure=measure,
    judge=judge,
    chart=Chart(x="actions", y="seconds", series="how", x_label="actions of the plan", y_label="seconds"),
    in_driver=True,
)
