"""[DISS], Figure 4.8(iii): throughput against the number of queries that select an event."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tolerant.experiments.harness.experiment import Chart, Experiment, Row, Verdict
from tolerant.experiments.workloads.join_loads import (
    DOMAIN,
    SELECT_METHODS,
    growth,
    method_rows,
    select_events,
    select_joins,
    series,
)


def grid(quick: bool) -> list[Row]:
    """Return the parameter sets: widths of the a ranges, so that from 0.1 % to 30 % of the queries select an event."""
    widths = [10.0, 3000.0] if quick else [10.0, 30.0, 100.0, 300.0, 1000.0, 3000.0]
    size: Row = {"queries": 10_000 if quick else 100_000, "rows": 20_000 if quick else 100_000, "events": 40}
    return [{"width": width, **size, "selecting": float(size["queries"]) * width / DOMAIN} for width in widths]


def measure(parameters: Mapping[str, float | int | str]) -> list[Row]:
    """Measure microseconds per event of each method, search alone and with the output."""
    width = float(parameters["width"])
    joins = select_joins(int(parameters["queries"]), int(parameters["rows"]), a_width=width, c_half=0.05)
    return method_rows(parameters, joins, select_events(joins, int(parameters["events"])), SELECT_METHODS)


def judge(rows: Sequence[Row]) -> Verdict:
    """Judge the claim: select-first must grow at least a fifth as fast as k_s, ssi at most a twentieth."""
    measured = list(rows)
    rise = growth([(x, x) for x, _ in series(measured, "ssi", "selecting")])
    grows = {method: growth(series(measured, method, "selecting")) for method in SELECT_METHODS}
    finding = (
        f"for {rise:.0f} × k_s: select-first {grows['select-first']:.0f} ×, ssi {grows['ssi']:.1f} ×, scan "
        f"{grows['scan']:.1f} ×, join-first {grows['join-first']:.1f} ×; ssi walks more of each group's tree "
        f"as more of it selects"
    )
    return Verdict(grows["select-first"] > rise / 5 and grows["ssi"] < rise / 20, finding)


EXPERIMENT = Experiment(
    figure="[DISS], Figure 4.8(iii)",
    claim="select-first falls linearly with k_s, ssi is unaffected",
    grid=grid,
    measure=measure,
    judge=judge,
    chart=Chart(
        x="selecting",
        y="search_us",
        series="method",
        x_label="k_s",
        y_label="search, µs per event",
        log_x=True,
        log_y=True,
    ),
)
