"""[CBGM], Figure 11: how often pairs and directed search find the optimum, by the number of queries."""

from __future__ import annotations

from collections.abc import Sequence

from tolerant.experiments.harness.experiment import Chart, Experiment, Row, Verdict
from tolerant.experiments.workloads.rectangle_sets import against_the_optimum, series, small_grid


def judge(rows: Sequence[Row]) -> Verdict:
    """Judge the claim: pairs falls with n, directed is at least as often optimal."""
    pairs, directed = (series(rows, "n", "optimal", method=m) for m in ("pairs", "directed"))
    holds = pairs[-1] < pairs[0] and all(d >= p for p, d in zip(pairs, directed, strict=True))
    return Verdict(
        holds,
        f"optimal from the fewest queries to the most: pairs {', '.join(f'{v:.1f}' for v in pairs)} %; "
        f"directed {', '.join(f'{v:.1f}' for v in directed)} %",
    )


EXPERIMENT = Experiment(
    figure="[CBGM], Figure 11",
    claim="optimal plans get rarer with the number of queries; directed search finds them at least as often as pairs",
    grid=small_grid,
    measure=against_the_optimum,
    judge=judge,
    chart=Chart(x="n", y="optimal", series="method", x_label="queries", y_label="optimal, %"),
)
