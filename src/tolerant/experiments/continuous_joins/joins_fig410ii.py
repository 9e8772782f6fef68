"""[DISS], Figure 4.10(ii): throughput against the number of groups of band joins."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from tolerant.experiments.harness.experiment import Chart, Experiment, Row, Verdict
from tolerant.experiments.workloads.join_loads import band_joins, growth, method_rows, series


def grid(quick: bool) -> list[Row]:
    """Return the parameter sets: up to 5,000 groups."""
    queries = 20_000 if quick else 100_000
    counts = [10, 500] if quick else [10, 60, 300, 1000, 5000]
    return [{"centres": count, "queries": queries, "rows": queries, "events": 40} for count in counts]


def measure(parameters: Mapping[str, float | int | str]) -> list[Row]:
    """Measure microseconds per event of each method, search alone and with the output."""
    joins = band_joins(
        int(parameters["queries"]), int(parameters["rows"]), groups=int(parameters["centres"]), half=1e-6
    )
    probes = (np.random.default_rng(1).uniform(2000, 8000, int(parameters["events"])),)
    return method_rows(parameters, joins, probes, ("ssi", "merge", "data"))


def judge(rows: Sequence[Row]) -> Verdict:
    """Judge the claim: merge within a factor of two, ssi growing, and the best at the most groups."""
    measured = list(rows)
    grows = {method: growth(series(measured, method, "groups")) for method in ("ssi", "merge", "data")}
    last = {method: series(measured, method, "groups")[-1] for method in grows}
    best = min(last["merge"][1], last["data"][1]) / last["ssi"][1]
    summary = ", ".join(f"{method} {value:.1f} ×" for method, value in grows.items())
    finding = f"{summary}; with {last['ssi'][0]:,.0f} groups ssi is {best:.1f} × as fast as the next best"
    return Verdict(0.5 < grows["merge"] < 2 and grows["ssi"] > 3 and best > 1, finding)


EXPERIMENT = Experiment(
    figure="[DISS], Figure 4.10(ii)",
    claim="merge and data stay flat, ssi falls linearly with τ and is still the best at 5,000",
    grid=grid,
    measure=measure,
    judge=judge,
    chart=Chart(
        x="groups",
        y="search_us",
        series="method",
        x_label="groups",
        y_label="search, µs per event",
        log_x=True,
        log_y=True,
    ),
)
