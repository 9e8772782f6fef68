"""[DISS], Figure 4.10(i): throughput against the number of band joins."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from tolerant.experiments.harness.experiment import Chart, Experiment, Row, Verdict
from tolerant.experiments.workloads.join_loads import BAND_METHODS, band_joins, growth, method_rows, series


def grid(quick: bool) -> list[Row]:
    """Return the parameter sets: from 50 to 500,000 queries in 10 to 60 groups."""
    counts = [500, 20_000] if quick else [50, 500, 5000, 50_000, 500_000]
    size: Row = {"rows": 20_000 if quick else 100_000, "events": 40}
    return [{"queries": count, "centres": 10 + 10 * step, **size} for step, count in enumerate(counts)]


def measure(parameters: Mapping[str, float | int | str]) -> list[Row]:
    """Measure microseconds per event of each method, search alone and with the output."""
    joins = band_joins(
        int(parameters["queries"]), int(parameters["rows"]), groups=int(parameters["centres"]), half=1e-6
    )
    probes = (np.random.default_rng(1).uniform(2000, 8000, int(parameters["events"])),)
    return method_rows(parameters, joins, probes, BAND_METHODS)


def judge(rows: Sequence[Row]) -> Verdict:
    """Judge the claim: ssi must be the best at the most queries, by 10 at least, and take at most 8 times as long as at
    the fewest.
    """
    measured = list(rows)
    grows = {method: growth(series(measured, method, "queries")) for method in BAND_METHODS}
    last = {method: series(measured, method, "queries")[-1][1] for method in BAND_METHODS}
    best = min(last[method] for method in BAND_METHODS if method != "ssi") / last["ssi"]
    summary = ", ".join(f"{method} {value:.1f} ×" for method, value in grows.items())
    finding = (
        f"from the fewest to the most queries: {summary}; at the most ssi is {best:.0f} × as fast as the next best"
    )
    return Verdict(best > 10 and grows["ssi"] < 8 and grows["queries"] > 10, finding)


EXPERIMENT = Experiment(
    figure="[DISS], Figure 4.10(i)",
    claim=(
        "data is flat and slow, queries linear, merge flat and then falling, ssi best by far and falls to "
        "about a third over a factor of 10⁴"
    ),
    grid=grid,
    measure=measure,
    judge=judge,
    chart=Chart(
        x="queries",
        y="search_us",
        series="method",
        x_label="queries",
        y_label="search, µs per event",
        log_x=True,
        log_y=True,
    ),
)
