"""[DISS], Figure 4.7(ii): throughput against the number of groups of select joins."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tolerant.experiments.harness.experiment import Chart, Experiment, Row, Verdict
from tolerant.experiments.workloads.join_loads import (
    SELECT_METHODS,
    growth,
    method_rows,
    select_events,
    select_joins,
    series,
)


def grid(quick: bool) -> list[Row]:
    """Return the parameter sets: from 10 groups to as many as there are queries; about 250 queries select an event."""
    queries = 10_000 if quick else 100_000
    counts = [10, 300, 1500, queries] if quick else [10, 100, 300, 1000, 3000, 10_000, 10 * queries]
    size: Row = {"queries": queries, "rows": 20_000 if quick else 100_000, "events": 40 if quick else 100}
    return [{"centres": count, **size} for count in counts]


def measure(parameters: Mapping[str, float | int | str]) -> list[Row]:
    """Measure microseconds per event of each method, search alone and with the output."""
    queries, centres = int(parameters["queries"]), int(parameters["centres"])
    # The more centres, the shorter the ranges of c: groups do not run into each other.
    joins = select_joins(
        queries, int(parameters["rows"]), groups=centres, a_width=250 / queries * 1e4, c_half=100 / centres
    )
    rows = method_rows(parameters, joins, select_events(joins, int(parameters["events"])), SELECT_METHODS)
    return [{**row, "selecting": 250} for row in rows]


def judge(rows: Sequence[Row]) -> Verdict:
    """Judge the claim: flat methods within a factor of three; the crossing between a quarter and sixteen times k_s."""
    measured = list(rows)
    flat = {method: growth(series(measured, method, "groups")) for method in ("scan", "select-first")}
    ssi, select = series(measured, "ssi", "groups"), series(measured, "select-first", "groups")
    crossing = next((x for (x, ours), (_, theirs) in zip(ssi, select, strict=True) if ours > theirs), float("inf"))
    falls = growth(ssi)
    finding = (
        f"over τ {ssi[0][0]:,.0f} to {ssi[-1][0]:,.0f} scan changes {flat['scan']:.1f} ×, select-first "
        f"{flat['select-first']:.1f} ×, ssi takes {falls:.0f} × as long; join-first "
        f"{growth(series(measured, 'join-first', 'groups')):.2f} ×; "
        f"select-first is faster from τ = {crossing:,.0f} on (k_s = 250; the grid is coarse)"
    )
    reproduced = all(1 / 3 < value < 3 for value in flat.values()) and falls > 3 and 62 <= crossing <= 4000
    return Verdict(reproduced, finding)


EXPERIMENT = Experiment(
    figure="[DISS], Figure 4.7(ii)",
    claim="scan and select-first stay flat, ssi falls with τ, select-first overtakes it near τ = k_s",
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
