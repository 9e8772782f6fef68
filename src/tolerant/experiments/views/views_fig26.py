"""[DISS], Figure 2.6: uniform changes, the view is refreshed after 100 to 1000 ticks, not known in advance.

Costs are straight lines like those of Figure 2.4, the limit is 12 s, "estimated" plans for 500 ticks.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tolerant.experiments.harness.experiment import Chart, Experiment, Row, Verdict
from tolerant.experiments.workloads.view_changes import LINES, against_the_optimum, uniform_changes

METHODS = ("naive", "online", "estimated", "per-tick", "forecast", "optimal")
CLEARLY, CLOSE = 0.8, 1.1
"""What beats naive clearly costs at most this share of it; what is close to the optimum at most this much of it."""


def grid(quick: bool) -> list[Row]:
    """Return the parameter sets: the tick of the refresh."""
    return [{"last": last} for last in ((100, 300, 500, 1000) if quick else range(100, 1001, 50))]


def measure(parameters: Mapping[str, float | int | str]) -> list[Row]:
    """Measure each method's cost, and its ratio to the optimum."""
    arrivals = uniform_changes(int(parameters["last"]) + 1)
    rows = against_the_optimum(LINES, arrivals, 12.0, METHODS, {"estimate": 500})
    return [{**parameters, **row} for row in rows]


def judge(rows: Sequence[Row]) -> Verdict:
    """Judge the claim: both claims at every tick of refresh."""
    ratios = {method: [float(row["ratio"]) for row in rows if row["method"] == method] for method in METHODS}
    cost = {(row["last"], row["method"]): float(row["cost"]) for row in rows}
    beaten = all(
        cost[last, method] <= CLEARLY * cost[last, "naive"]
        for last, method in cost
        if method in ("online", "estimated")
    )
    far = [int(row["last"]) for row in rows if row["method"] == "online" and float(row["ratio"]) > CLOSE]
    close = not far and max(ratios["estimated"]) <= CLOSE
    summary = ", ".join(f"{method} {min(ratios[method]):.2f}–{max(ratios[method]):.2f}" for method in METHODS[:-1])
    trouble = f"; online is more than {CLOSE - 1:.0%} above the optimum from T = {min(far)} on" if far else ""
    finding = (
        f"cost over the optimum's: {summary}; {'all' if beaten else 'NOT all'} clearly below naive "
        f"(≤ {CLEARLY:g} of it){trouble}"
    )
    return Verdict(beaten and close and not any(row["broken"] for row in rows), finding)


EXPERIMENT = Experiment(
    figure="[DISS], Figure 2.6",
    claim="online and estimated plans cost clearly less than naive ones and are close to the optimum",
    grid=grid,
    measure=measure,
    judge=judge,
    chart=Chart(x="last", y="cost", series="method", x_label="tick of the refresh", y_label="cost, seconds"),
)
