"""Seed 003, Table 4.2: the coefficients of the cost models, fitted on this machine, each component timed apart.

The ranges of Table 4.1 lie anywhere, so the models are fitted to scattered queries. Crowded ones are measured beside
them: a bisection that always goes the same way costs half, which the models do not know, so that one fit to both leaves
more unexplained.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tolerant.experiments.harness.experiment import Chart, Experiment, Row, Verdict
from tolerant.joins.calibration import samples
from tolerant.joins.costs import NAMES, Costs, Sample, fit_costs

SEED = dict(zip(NAMES, (0.25, 4.34, 0.36, 0.17, 0.64, 42.49, 1.19, 0.19, 0.08, 70.19, 1.17), strict=False))
"""The seed's coefficients, of a 650 MHz machine."""


def grid(quick: bool) -> list[Row]:
    """Queries and rows, as many of each, the queries scattered or crowded."""
    sizes = [10_000, 30_000] if quick else [100_000, 200_000, 300_000, 400_000, 500_000]
    return [
        {"size": size, "events": 16 if quick else 100, "queries": queries}
        for size in sizes
        for queries in ("scattered", "crowded")
    ]


def measure(parameters: Mapping[str, float | int | str]) -> list[Row]:
    """Every sample of this size."""
    size, crowded = int(parameters["size"]), parameters["queries"] == "crowded"
    found = samples(size, sizes=(size,), events=int(parameters["events"]), crowded=(crowded,))
    return [{**parameters, **one._asdict()} for one in found]


def judge(rows: Sequence[Row]) -> Verdict:
    """The per-hit models must explain their times (R² ≥ 0.8); coefficients are this machine's, so not compared."""
    costs, of_both = _fitted([row for row in rows if row["queries"] == "scattered"]), _fitted(rows)
    told, held = [], True
    for name in NAMES:
        fitted = getattr(costs, name)
        seed = f", seed {SEED[name]:g}" if name in SEED else ""
        told.append(
            f"{name} {fitted.value:.3g} [{fitted.low:.3g}, {fitted.high:.3g}] µs, R² {fitted.r_squared:.2f}"
            f" (with crowded queries {getattr(of_both, name).r_squared:.2f}){seed}"
        )
        if name.split("_")[-1] in ("stab", "test", "hit"):
            held &= fitted.r_squared >= 0.8
    return Verdict(held, "; ".join(told))


def _fitted(rows: Sequence[Row]) -> Costs:
    return fit_costs(Sample(str(row["component"]), float(row["units"]), float(row["microseconds"])) for row in rows)


EXPERIMENT = Experiment(
    figure="seed 003, Table 4.2",
    claim="the cost models explain the measured times of scattered queries: per-hit components with R² of at least 0.8",
    grid=grid,
    measure=measure,
    judge=judge,
    chart=Chart(
        x="units",
        y="microseconds",
        series="component",
        x_label="units of the component",
        y_label="µs",
        log_x=True,
        log_y=True,
    ),
)
