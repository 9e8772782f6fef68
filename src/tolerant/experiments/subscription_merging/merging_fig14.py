"""[CBGM], Figure 14: the total cost with and without merging, by the number of queries."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tolerant.experiments.harness.experiment import Chart, Experiment, Row, Verdict
from tolerant.experiments.workloads.rectangle_sets import DOLLAR, mean_of, prices, rising, series, sets
from tolerant.merging import merge

METHODS = ("none", "pairs", "directed", "clusters")


def grid(quick: bool) -> list[Row]:
    """Return the parameter sets: the number of queries in the database of 400 × 400."""
    sizes = (20, 60, 100) if quick else (20, 40, 60, 80, 100, 150, 200)
    return [{"n": n, "samples": 20 if quick else 300} for n in sizes]


def measure(parameters: Mapping[str, float | int | str]) -> list[Row]:
    """Measure the mean cost of each method, in dollars."""
    costs = prices()
    costs_by_method: dict[str, list[float]] = {method: [] for method in METHODS}
    for rectangles in sets(parameters):
        for method in METHODS:
            costs_by_method[method].append(merge(rectangles, costs, method, starts=10).cost * DOLLAR)
    return [{**parameters, "method": method, "cost": mean_of(values)} for method, values in costs_by_method.items()]


def judge(rows: Sequence[Row]) -> Verdict:
    """Judge the claim: merging is below none, by more and more; clusters and directed are within 1 % of pairs."""
    cost = {m: series(rows, "n", "cost", method=m) for m in METHODS}
    saved = [none - pairs for none, pairs in zip(cost["none"], cost["pairs"], strict=True)]
    off = {
        m: max(abs(v / p - 1) for v, p in zip(cost[m], cost["pairs"], strict=True)) for m in ("clusters", "directed")
    }
    holds = min(saved) > 0 and rising(saved) and max(off.values()) <= 0.01
    return Verdict(
        holds,
        f"saved by pairs, from the fewest queries to the most: {', '.join(f'{v:.3f}' for v in saved)} dollars; "
        f"off pairs' cost: clusters by {100 * off['clusters']:.2f} %, directed by {100 * off['directed']:.2f} %",
    )


EXPERIMENT = Experiment(
    figure="[CBGM], Figure 14",
    claim="merging costs less than none, the more so the more queries there are; clusters and directed cost as pairs",
    grid=grid,
    measure=measure,
    judge=judge,
    chart=Chart(x="n", y="cost", series="method", x_label="queries", y_label="total cost, dollars"),
)
