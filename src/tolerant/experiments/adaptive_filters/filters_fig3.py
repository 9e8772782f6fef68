"""[OJW03], Figure 3: one AVG over ten random walks, adaptive filters against the best static ones.

Only updates count, as in [OJW03]. The claim is judged while the optimum sends an update every five ticks or more; with
rarer updates most periods see none, all deviations are 0 and growth is given at random: reported, not judged.
"""

from __future__ import annotations

from collections.abc import Mapping

from tolerant.experiments.harness.experiment import Chart, Experiment, Row
from tolerant.experiments.workloads.random_walks import against_optimal, judge_against_optimal


def grid(quick: bool) -> list[Row]:
    """Return the parameter sets: δ, twice the tolerance."""
    widths = [2.0, 4.0, 16.0] if quick else [1.0, 1.5, 2.0, 3.0, 4.0, 6.0, 8.0, 12.0, 16.0]
    size: Row = {"ticks": 3000, "warmup": 1000, "seeds": 2} if quick else {"ticks": 20_000, "warmup": 2000, "seeds": 5}
    return [{"costs": "equal costs", "delta": width, **size} for width in widths]


def measure(parameters: Mapping[str, float | int | str]) -> list[Row]:
    """Measure updates per tick of each policy."""
    return against_optimal(parameters, queries=1)


EXPERIMENT = Experiment(
    figure="[OJW03], Figure 3",
    claim="adaptive filters send about as many updates as the best static ones",
    grid=grid,
    measure=measure,
    judge=judge_against_optimal,
    chart=Chart(
        x="delta",
        y="updates_per_tick",
        series="policy",
        x_label="δ",
        y_label="updates per tick",
        log_x=True,
        log_y=True,
    ),
)
