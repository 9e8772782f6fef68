"""[CBGM], §6.1: how many queries the exact methods can solve.

[CBGM] solved 12 queries by partition, and 4 exhaustively, in five minutes. Here partition is dynamic programming up
to 18 queries that may belong together, and column generation above; exhaustive is dynamic programming too.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence

from tolerant.experiments.harness.experiment import Chart, Experiment, Row, Verdict
from tolerant.experiments.workloads.rectangle_sets import mean_of, prices, sets
from tolerant.merging import merge

FIVE_MINUTES = 300.0
PAPER = {"exhaustive": 4, "partition": 12}


def grid(quick: bool) -> list[Row]:
    """Return the parameter sets: queries in growing numbers."""
    few, many = (
        ((4, 8, 11), (12, 16, 30)) if quick else ((3, 4, 6, 8, 10, 12), (8, 10, 12, 14, 16, 18, 40, 60, 80, 100))
    )
    sizes = {"exhaustive": few, "partition": many}
    return [{"method": method, "n": n, "samples": 2 if quick else 5} for method in sizes for n in sizes[method]]


def measure(parameters: Mapping[str, float | int | str]) -> list[Row]:
    """Measure seconds per set, and whether each was solved."""
    costs, method = prices(), str(parameters["method"])
    seconds, solved = [], 0
    for rectangles in sets(parameters):
        begun = time.perf_counter()
        try:
            merge(rectangles, costs, method)
            solved += 1
        except ValueError:
            pass  # the bound and the plan did not meet
        seconds.append(time.perf_counter() - begun)
    return [{**parameters, "seconds": mean_of(seconds), "solved": solved}]


def judge(rows: Sequence[Row]) -> Verdict:
    """Judge the claim: both methods must solve more queries than [CBGM]'s limits, in less than five minutes."""
    solved = [row for row in rows if row["solved"] == row["samples"] and float(row["seconds"]) < FIVE_MINUTES]
    most = {m: max((int(row["n"]) for row in solved if row["method"] == m), default=0) for m in PAPER}
    summary = ", ".join(f"{method} {most[method]} ([CBGM]: {limit})" for method, limit in PAPER.items())
    return Verdict(all(most[m] > limit for m, limit in PAPER.items()), f"the most queries always solved: {summary}")


EXPERIMENT = Experiment(
    figure="[CBGM], §6.1",
    claim="the exact methods take more queries in five minutes than 4 (exhaustive) and 12 (partition)",
    grid=grid,
    measure=measure,
    judge=judge,
    chart=Chart(x="n", y="seconds", series="method", x_label="queries", y_label="seconds per set", log_y=True),
)
