"""[OJW03], Figure 4: five AVG queries over random two to five of ten walks, with equal and with unequal costs.

As Figure 3: updates alone count, and the claim is judged while the optimum is busy.
"""

from __future__ import annotations

from collections.abc import Mapping

from tolerant.experiments.harness.experiment import Chart, Experiment, Row
from tolerant.experiments.workloads.random_walks import against_optimal, judge_against_optimal

COSTS = {"equal costs": None, "costs 0.2–3": (0.2, 3.0)}


def grid(quick: bool) -> list[Row]:
    """Return the parameter sets: δ, the widest that a query's answer may be, for each kind of cost."""
    widths = [3.0, 6.0, 48.0] if quick else [1.0, 2.0, 3.0, 6.0, 12.0, 24.0, 48.0]
    size: Row = {"ticks": 3000, "warmup": 1000, "seeds": 2} if quick else {"ticks": 20_000, "warmup": 2000, "seeds": 5}
    return [{"costs": costs, "delta": width, **size} for costs in COSTS for width in widths]


def measure(parameters: Mapping[str, float | int | str]) -> list[Row]:
    """Measure cost per tick of each policy's updates."""
    return against_optimal(parameters, queries=5, costs=COSTS[str(parameters["costs"])])


EXPERIMENT = Experiment(
    figure="[OJW03], Figure 4",
    claim="with overlapping queries, adaptive filters send about as many updates as the best static ones",
    grid=grid,
    measure=measure,
    judge=judge_against_optimal,
    chart=Chart(
        x="delta",
        y="updates_per_tick",
        series="policy",
        panel="costs",
        x_label="largest δ",
        y_label="cost of updates per tick",
        log_x=True,
        log_y=True,
    ),
)
