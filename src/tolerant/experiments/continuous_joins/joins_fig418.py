"""[DISS], Figures 4.18, 4.19 and 4.21: routing as more queries select an event."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tolerant.experiments.harness.experiment import Chart, Experiment, Row, Verdict
from tolerant.experiments.workloads.join_routing import cost, routed_rows, shares_at


def grid(quick: bool) -> list[Row]:
    """Return the parameter sets: R.a drawn far from the middle of the queries to near it."""
    size = 20_000 if quick else 500_000
    middles = [-1500, 5000] if quick else [-1500, 0, 1000, 2000, 3000, 5000]
    return [{"middle": middle, "queries": size, "rows": size, "events": 100 if quick else 500} for middle in middles]


def measure(parameters: Mapping[str, float | int | str]) -> list[Row]:
    """Measure microseconds per event of each method, the shares that "auto" took, its agreement with the best."""
    return routed_rows(parameters, a_middle=float(parameters["middle"]))


def judge(rows: Sequence[Row]) -> Verdict:
    """Judge the claim: the share of select-first must fall, and auto get slower."""
    measured = list(rows)
    points = sorted({float(row["middle"]) for row in measured})
    shares = {at: {row["method"]: float(row["share"]) for row in measured if row["middle"] == at} for at in points}
    slower = cost(measured, "auto", "middle", points[-1]) / cost(measured, "auto", "middle", points[0])
    agreed = [float(row["agreed"]) for row in measured if row["method"] == "auto"]
    first, last = shares[points[0]]["select-first"], shares[points[-1]]["select-first"]
    finding = (
        f"select-first's share goes from {first:.0%} to {last:.0%}; with the most selecting queries auto takes "
        f"{shares_at(measured, 'middle', points[-1])} and {slower:.1f} × as long as with the fewest; agreement with "
        f"the best {min(agreed):.0%} to {max(agreed):.0%}"
    )
    return Verdict(first > 0.5 and last < first and slower > 1, finding)


EXPERIMENT = Experiment(
    figure="[DISS], Figures 4.18, 4.19, 4.21",
    claim="with few selecting queries select-first is taken, with many the others take over, and it gets slower",
    grid=grid,
    measure=measure,
    judge=judge,
    chart=Chart(
        x="middle", y="search_us", series="method", x_label="middle of R.a", y_label="search, µs per event", log_y=True
    ),
)
