"""[DISS], Figures 4.16, 4.17 and 4.20: routing as events have more partners."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tolerant.experiments.harness.experiment import Chart, Experiment, Row, Verdict
from tolerant.experiments.workloads.join_routing import cost, routed_rows, shares_at


def grid(quick: bool) -> list[Row]:
    """Return the parameter sets: R.b drawn far from the middle of S.b, where rows are few, to near it."""
    size = 20_000 if quick else 500_000
    offsets = [3000, 0] if quick else [3000, 2500, 2000, 1500, 1000, 0]
    return [{"nearness": -offset, "queries": size, "rows": size, "events": 100 if quick else 500} for offset in offsets]


def measure(parameters: Mapping[str, float | int | str]) -> list[Row]:
    """Measure microseconds per event of each method, the shares that "auto" took, its agreement with the best."""
    return routed_rows(parameters, b_offset=-float(parameters["nearness"]))


def judge(rows: Sequence[Row]) -> Verdict:
    """Judge the claim: the share of join-first must fall, and auto get slower."""
    measured = list(rows)
    points = sorted({float(row["nearness"]) for row in measured})
    shares = {at: {row["method"]: float(row["share"]) for row in measured if row["nearness"] == at} for at in points}
    slower = cost(measured, "auto", "nearness", points[-1]) / cost(measured, "auto", "nearness", points[0])
    agreed = [float(row["agreed"]) for row in measured if row["method"] == "auto"]
    first, last = shares[points[0]]["join-first"], shares[points[-1]]["join-first"]
    finding = (
        f"join-first's share goes from {first:.0%} to {last:.0%}; with the most partners auto takes "
        f"{shares_at(measured, 'nearness', points[-1])} and {slower:.1f} × as long as with the fewest; agreement with "
        f"the best {min(agreed):.0%} to {max(agreed):.0%}"
    )
    return Verdict(last < first and slower > 1, finding)


EXPERIMENT = Experiment(
    figure="[DISS], Figures 4.16, 4.17, 4.20",
    claim="as k_j grows join-first loses its share to select-first, and everything gets slower",
    grid=grid,
    measure=measure,
    judge=judge,
    chart=Chart(
        x="nearness",
        y="search_us",
        series="method",
        x_label="R.b − middle of S.b, negated",
        y_label="search, µs per event",
        log_y=True,
    ),
)
