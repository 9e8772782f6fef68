"""[DISS], Figures 4.13 to 4.15: routing by estimated cost against each fixed method and the best of each event."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tolerant.experiments.harness.experiment import Chart, Experiment, Row, Verdict
from tolerant.experiments.workloads.join_routing import FIXED, cost, routed_rows, shares_at


def grid(quick: bool) -> list[Row]:
    """Return the parameter sets: as many queries as rows."""
    sizes = [10_000, 20_000] if quick else [100_000, 200_000, 300_000, 400_000, 500_000]
    return [{"queries": size, "rows": size, "events": 100 if quick else 1000} for size in sizes]


def measure(parameters: Mapping[str, float | int | str]) -> list[Row]:
    """Measure microseconds per event of each method, the shares that "auto" took, its agreement with the best."""
    return routed_rows(parameters)


def judge(rows: Sequence[Row]) -> Verdict:
    """Judge each sentence of the claim at every size; agreement is reported."""
    measured = list(rows)
    points = sorted({float(row["queries"]) for row in measured})
    lead = [
        min(cost(measured, method, "queries", at) for method in FIXED[1:]) / cost(measured, "hotspot", "queries", at)
        for at in points
    ]
    gain = [cost(measured, "hotspot", "queries", at) / cost(measured, "auto", "queries", at) for at in points]
    plain = [cost(measured, "ssi", "queries", at) / cost(measured, "auto", "queries", at) for at in points]
    agreed = [float(row["agreed"]) for row in measured if row["method"] == "auto"]
    finding = (
        f"hotspot is {min(lead):.1f} to {max(lead):.1f} × as fast as the better of select-first and "
        f"join-first; auto is "
        f"{min(gain):.1f} to {max(gain):.1f} × as fast as hotspot, {min(plain):.1f} to {max(plain):.1f} × as "
        f"ssi; it takes "
        f"{shares_at(measured, 'queries', points[-1])}, the best method in {min(agreed):.0%} to "
        f"{max(agreed):.0%} of events"
    )
    return Verdict(min(lead) > 3 and min(gain) >= 0.95, finding)


EXPERIMENT = Experiment(
    figure="[DISS], Figures 4.13, 4.14, 4.15",
    claim=(
        "hotspot is 3 times as fast as the other fixed methods, auto beats it everywhere, though it agrees "
        "with the optimum in some 30 % of events only"
    ),
    grid=grid,
    measure=measure,
    judge=judge,
    chart=Chart(
        x="queries",
        y="search_us",
        series="method",
        x_label="queries and rows",
        y_label="search, µs per event",
        log_y=True,
    ),
)
