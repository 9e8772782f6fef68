"""[CBGM], Figure 12: the mean Distance to the optimum over all runs, by the number of queries."""

from __future__ import annotations

from collections.abc import Sequence

from tolerant.experiments.harness.experiment import Chart, Experiment, Row, Verdict
from tolerant.experiments.workloads.rectangle_sets import against_the_optimum, series, small_grid

SMALL = 2.0
"""Percent: what counts as small."""


def judge(rows: Sequence[Row]) -> Verdict:
    """Judge the claim: distances are small, pairs' grows from the fewest queries to the most, directed has none up to
    7.
    """
    pairs, directed = (series(rows, "n", "distance", method=m) for m in ("pairs", "directed"))
    few = series([row for row in rows if float(row["n"]) <= 7], "n", "distance", method="directed")
    holds = max(pairs) <= SMALL and max(directed) <= SMALL and pairs[-1] > pairs[0] and max(few) == 0
    return Verdict(
        holds,
        f"mean Distance from the fewest queries to the most: pairs {', '.join(f'{v:.2f}' for v in pairs)} %; "
        f"directed {', '.join(f'{v:.3f}' for v in directed)} %, {max(few):.3f} % at most up to 7 queries",
    )


EXPERIMENT = Experiment(
    figure="[CBGM], Figure 12",
    claim="the mean Distance is small and grows slowly; that of directed search is 0 up to 7 queries",
    grid=small_grid,
    measure=against_the_optimum,
    judge=judge,
    chart=Chart(x="n", y="distance", series="method", x_label="queries", y_label="mean Distance, %"),
)
