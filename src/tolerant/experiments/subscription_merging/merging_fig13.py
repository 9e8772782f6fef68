"""[CBGM], Figure 13: the mean Distance of the runs that missed the optimum, by the number of queries."""

from __future__ import annotations

from collections.abc import Sequence

from tolerant.experiments.harness.experiment import Chart, Experiment, Row, Verdict
from tolerant.experiments.workloads.rectangle_sets import against_the_optimum, small_grid


def judge(rows: Sequence[Row]) -> Verdict:
    """Judge the claim: over the sizes at which something was missed, pairs' distance at the largest is below that at
    the smallest.
    """
    missed = sorted(
        (float(row["n"]), float(row["suboptimal"])) for row in rows if row["method"] == "pairs" and row["missed"]
    )
    summary = ", ".join(f"{value:.1f} (n = {n:.0f})" for n, value in missed)
    directed = sum(int(row["missed"]) for row in rows if row["method"] == "directed")
    holds = len(missed) > 1 and missed[-1][1] < missed[0][1]
    return Verdict(
        holds, f"Distance of pairs where it missed: {summary or 'it never did'} %; directed missed {directed} times"
    )


EXPERIMENT = Experiment(
    figure="[CBGM], Figure 13",
    claim="where the optimum is missed, it is missed by less the more queries there are",
    grid=small_grid,
    measure=against_the_optimum,
    judge=judge,
    chart=Chart(x="n", y="suboptimal", series="method", x_label="queries", y_label="Distance of suboptimal runs, %"),
)
