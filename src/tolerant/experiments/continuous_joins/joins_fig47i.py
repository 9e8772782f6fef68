"""[DISS], Figure 4.7(i): throughput against the number of select joins."""

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
    """Return the parameter sets: from 10 to 100,000 queries; 30 groups, 1,000 partners, a tenth of the queries select
    an event.
    """
    counts = [100, 1000, 10_000] if quick else [10, 100, 1000, 10_000, 100_000]
    return [
        {"queries": count, "rows": 20_000 if quick else 100_000, "events": 40 if quick else 200} for count in counts
    ]


def measure(parameters: Mapping[str, float | int | str]) -> list[Row]:
    """Measure microseconds per event of each method, search alone and with the output."""
    queries = int(parameters["queries"])
    # Ranges of c get shorter as queries get more, so that an event's output stays the same.
    joins = select_joins(queries, int(parameters["rows"]), c_half=min(0.5, 500 / queries))
    return method_rows(parameters, joins, select_events(joins, int(parameters["events"])), SELECT_METHODS)


def judge(rows: Sequence[Row]) -> Verdict:
    """Judge each of the four sentences of the claim."""
    measured = list(rows)
    most = max(float(row["queries"]) for row in measured)
    last = {method: series(measured, method, "queries")[-1][1] for method in SELECT_METHODS}
    grows = {
        method: growth([p for p in series(measured, method, "queries") if p[0] >= 100]) for method in SELECT_METHODS
    }
    ratio = most / 100
    linear = all(grows[method] > ratio / 8 for method in ("scan", "select-first"))
    share, loss = last["ssi"] / last["join-first"], 1 - 1 / grows["ssi"]
    finding = (
        f"from 100 to {most:,.0f} queries, the output kept equal, the search takes {grows['scan']:.0f} (scan), "
        f"{grows['select-first']:.0f} (select-first), {grows['join-first']:.0f} (join-first) and {grows['ssi']:.1f} "
        f"(ssi) times as long; join-first's throughput is {share:.1%} of ssi's"
    )
    return Verdict(linear and share < 0.05 and loss < 0.2, finding)


EXPERIMENT = Experiment(
    figure="[DISS], Figure 4.7(i)",
    claim=(
        "scan and select-first fall linearly with the queries, join-first is below 5 % of ssi at the most, "
        "ssi loses less than 20 %"
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
