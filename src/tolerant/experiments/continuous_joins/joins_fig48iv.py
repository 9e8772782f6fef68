"""[DISS], Figure 4.8(iv): throughput against the number of partners of an event."""

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
    """Return the parameter sets: from 10 to 10,000 partners per event, by the number of values of b."""
    partners = [10, 1000] if quick else [10, 100, 1000, 10_000]
    size: Row = {"queries": 10_000 if quick else 100_000, "rows": 20_000 if quick else 100_000, "events": 40}
    return [{"partners": count, **size} for count in partners]


def measure(parameters: Mapping[str, float | int | str]) -> list[Row]:
    """Measure microseconds per event of each method, search alone and with the output."""
    joins = select_joins(
        int(parameters["queries"]), int(parameters["rows"]), partners=int(parameters["partners"]), c_half=1e-4
    )
    return method_rows(parameters, joins, select_events(joins, int(parameters["events"])), SELECT_METHODS)


def judge(rows: Sequence[Row]) -> Verdict:
    """Judge the claim: join-first must grow at least a tenth as fast as k_j (a probe has costs of its own), the others
    less.
    """
    measured = list(rows)
    rise = growth([(x, x) for x, _ in series(measured, "ssi", "partners")])
    grows = {method: growth(series(measured, method, "partners")) for method in SELECT_METHODS}
    summary = ", ".join(f"{method} {value:.1f} ×" for method, value in grows.items())
    others = all(value < rise / 10 for method, value in grows.items() if method != "join-first")
    return Verdict(grows["join-first"] > rise / 10 and others, f"for {rise:.0f} × k_j: {summary}")


EXPERIMENT = Experiment(
    figure="[DISS], Figure 4.8(iv)",
    claim="join-first falls linearly with k_j, the others are unaffected",
    grid=grid,
    measure=measure,
    judge=judge,
    chart=Chart(
        x="partners",
        y="search_us",
        series="method",
        x_label="k_j",
        y_label="search, µs per event",
        log_x=True,
        log_y=True,
    ),
)
