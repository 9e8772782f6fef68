"""[CBGM], Figure 16: the total cost before and after merging, by the share of queries that are clustered.

[CBGM] speaks of savings of 1 to 2 dollars; its prose fixes neither what happens at the border nor the scale.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tolerant.experiments.harness.experiment import Chart, Experiment, Row, Verdict
from tolerant.experiments.workloads.rectangle_sets import DOLLAR, mean_of, prices, rising, series, sets
from tolerant.merging import merge


def grid(quick: bool) -> list[Row]:
    """Return the parameter sets: the share of queries that are clustered."""
    shares = (0.0, 0.5, 1.0) if quick else (0.0, 0.2, 0.4, 0.6, 0.8, 1.0)
    return [{"cf": share, "n": 100, "samples": 40 if quick else 1000} for share in shares]


def measure(parameters: Mapping[str, float | int | str]) -> list[Row]:
    """Measure the mean cost before and after, in dollars."""
    costs, before, after = prices(), [], []
    for rectangles in sets(parameters):
        before.append(merge(rectangles, costs, "none").cost * DOLLAR)
        after.append(merge(rectangles, costs).cost * DOLLAR)
    return [{**parameters, "when": when, "cost": mean_of(c)} for when, c in (("before", before), ("after", after))]


def judge(rows: Sequence[Row]) -> Verdict:
    """Judge the claim: there is a saving without clusters, and it grows with them."""
    before, after = (series(rows, "cf", "cost", when=w) for w in ("before", "after"))
    saved = [100 * (b - a) / b for b, a in zip(before, after, strict=True)]
    most = max(b - a for b, a in zip(before, after, strict=True))
    holds = saved[0] > 0 and rising(saved)
    summary = ", ".join(f"{value:.1f}" for value in saved)
    return Verdict(holds, f"saved from no clusters to all: {summary} %, {most:.2f} dollars at most ([CBGM]: 1 to 2)")


EXPERIMENT = Experiment(
    figure="[CBGM], Figure 16",
    claim="merging saves even where queries are independent, and more the more they cluster",
    grid=grid,
    measure=measure,
    judge=judge,
    chart=Chart(x="cf", y="cost", series="when", x_label="share of clustered queries", y_label="total cost, dollars"),
)
