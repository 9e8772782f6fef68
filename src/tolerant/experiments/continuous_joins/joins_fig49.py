"""[DISS], Figure 4.9: hotspot processing against the share of queries in hot groups."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tolerant.experiments.harness.experiment import Chart, Experiment, Row, Verdict
from tolerant.experiments.workloads.join_loads import growth, method_rows, select_events, select_joins, series


def grid(quick: bool) -> list[Row]:
    """Return the parameter sets: from a tenth to all of the queries in at most 500 hot groups; α = 0.1 %."""
    shares = [0.1, 0.95] if quick else [0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 1.0]
    size: Row = {"queries": 50_000 if quick else 500_000, "rows": 20_000 if quick else 100_000, "events": 40}
    return [{"coverage": share, "hot": 50 if quick else 80, **size} for share in shares]


def measure(parameters: Mapping[str, float | int | str]) -> list[Row]:
    """Measure microseconds per event of each method, search alone and with the output."""
    joins = select_joins(
        int(parameters["queries"]), int(parameters["rows"]), groups=int(parameters["hot"]), c_half=0.05,
        hot_share=float(parameters["coverage"]), alpha=0.001,
    )  # fmt: skip
    rows = method_rows(parameters, joins, select_events(joins, int(parameters["events"])), ("hotspot", "select-first"))
    return [{**row, "hot_share": joins.hot_share} for row in rows]


def judge(rows: Sequence[Row]) -> Verdict:
    """Judge the claim: select-first within a factor of two; hotspot at the most coverage at most 0.4 of its time at the
    least.
    """
    measured = list(rows)
    flat = growth(series(measured, "select-first", "coverage"))
    fall = growth(series(measured, "hotspot", "coverage"))
    hot = ", ".join(f"{float(row['hot_share']):.0%}" for row in measured if row["method"] == "hotspot")
    finding = (
        f"select-first {flat:.2f} ×, hotspot at the most coverage takes {fall:.2f} of its time at the least "
        f"(hot: {hot})"
    )
    return Verdict(0.5 < flat < 2 and fall < 0.4, finding)


EXPERIMENT = Experiment(
    figure="[DISS], Figure 4.9",
    claim="select-first stays flat, the time of hotspot falls linearly with coverage",
    grid=grid,
    measure=measure,
    judge=judge,
    chart=Chart(
        x="coverage",
        y="search_us",
        series="method",
        x_label="share of queries in hot groups",
        y_label="search, µs per event",
        log_x=True,
        log_y=True,
    ),
)
