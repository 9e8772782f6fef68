"""[CBGM], Figure 15: gains evaluated by pairs, directed search and clustering, by the number of queries.

[CBGM]'s clustering is far below the others. With the (corrected) heuristic distance at the base prices it is not:
boxes of up to 105 × 105 count as near, so that one cluster holds nearly all. It is where waste weighs 16 times more,
and with the gain of two queries alone as the distance. All are counted as [CBGM] counts, with a table of gains; by
index a twentieth is evaluated.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tolerant.experiments.harness.experiment import Chart, Experiment, Row, Verdict
from tolerant.experiments.workloads.rectangle_sets import (
    clustered_evaluations,
    descent_evaluations,
    mean_of,
    prices,
    series,
    sets,
    table_evaluations,
)
from tolerant.merging import merge
from tolerant.merging.clusters import GAIN, HEURISTIC

BASE, HEAVY = "base prices", "K_U × 16"
FACTORS = {BASE: 1.0, HEAVY: 16.0}
FAR_BELOW = 0.5
"""Clusters' evaluations over pairs': what [CBGM]'s figure shows at least."""


def grid(quick: bool) -> list[Row]:
    """Return the parameter sets: the number of queries, at the base prices and where waste weighs more."""
    sizes = (20, 60, 100) if quick else (20, 40, 60, 80, 100)
    return [{"prices": name, "n": n, "samples": 5 if quick else 100} for name in FACTORS for n in sizes]


def measure(parameters: Mapping[str, float | int | str]) -> list[Row]:
    """Measure the mean number of evaluations, and the mean cost relative to pairs'."""
    costs = prices(waste=FACTORS[str(parameters["prices"])])
    methods = ("pairs", "directed, 2 states", "clusters", "clusters by gain", "pairs by index")
    counts: dict[str, list[float]] = {method: [] for method in methods}
    ratios: dict[str, list[float]] = {method: [] for method in methods}
    for rectangles in sets(parameters):
        base, evaluations = table_evaluations(rectangles, costs)
        indexed = merge(rectangles, costs)
        figures = {
            "pairs": (base, evaluations),
            "directed, 2 states": (base, descent_evaluations(rectangles, costs, 2)),
            "clusters": clustered_evaluations(rectangles, costs, HEURISTIC),
            "clusters by gain": clustered_evaluations(rectangles, costs, GAIN),
            "pairs by index": (indexed.cost, indexed.evaluations),
        }
        for method, (cost, count) in figures.items():
            counts[method].append(count)
            ratios[method].append(cost / base)
    return [
        {**parameters, "method": method, "evaluations": mean_of(counts[method]), "cost": mean_of(ratios[method])}
        for method in methods
    ]


def judge(rows: Sequence[Row]) -> Verdict:
    """Judge the claim: clusters must be far below pairs at the base prices, at the largest number of queries."""

    def last(name: str, method: str, column: str) -> float:
        return series(rows, "n", column, prices=name, method=method)[-1]

    findings = []
    for name in FACTORS:
        pairs, clusters, gain = (
            last(name, method, "evaluations") for method in ("pairs", "clusters", "clusters by gain")
        )
        findings.append(
            f"{name}: pairs {pairs:.0f}, clusters {clusters:.0f} (cost × {last(name, 'clusters', 'cost'):.4f}), "
            f"by gain {gain:.0f} (cost × {last(name, 'clusters by gain', 'cost'):.4f})"
        )
    holds = last(BASE, "clusters", "evaluations") <= FAR_BELOW * last(BASE, "pairs", "evaluations")
    return Verdict(
        holds, f"evaluations at the most queries: {'; '.join(findings)}; asked: half of pairs' at the base prices"
    )


EXPERIMENT = Experiment(
    figure="[CBGM], Figure 15",
    claim="clustering evaluates far fewer gains than the others, at about the same cost",
    grid=grid,
    measure=measure,
    judge=judge,
    chart=Chart(
        x="n",
        y="evaluations",
        series="method",
        panel="prices",
        x_label="queries",
        y_label="gains evaluated",
        log_y=True,
    ),
)
