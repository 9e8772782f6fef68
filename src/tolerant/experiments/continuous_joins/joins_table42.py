"""[DISS], Table 4.2: the coefficients of the cost models, fitted on this machine, each component timed apart.

The ranges of Table 4.1 lie anywhere, so the models are fitted to scattered queries. Crowded ones are measured beside
them: a bisection that always goes the same way costs half, which the models do not include, so that one fit to both
leaves more unexplained.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tolerant.experiments.harness.experiment import Chart, Experiment, Row, Verdict
from tolerant.joins.method_costs import NAMES, CostCoefficients, Sample, fit_costs
from tolerant.joins.offline.calibrate import samples

PAPER = dict(zip(NAMES, (0.25, 4.34, 0.36, 0.17, 0.64, 42.49, 1.19, 0.19, 0.08, 70.19, 1.17), strict=False))
"""[DISS]'s coefficients, of a 650 MHz machine."""


def grid(quick: bool) -> list[Row]:
    """Return the parameter sets: queries and rows, as many of each, the queries scattered or crowded."""
    sizes = [10_000, 30_000] if quick else [100_000, 200_000, 300_000, 400_000, 500_000]
    return [
        {"size": size, "events": 16 if quick else 100, "queries": queries}
        for size in sizes
        for queries in ("scattered", "crowded")
    ]


def measure(parameters: Mapping[str, float | int | str]) -> list[Row]:
    """Measure every sample of this size."""
    size, crowded = int(parameters["size"]), parameters["queries"] == "crowded"
    timings = samples(size, sizes=(size,), events=int(parameters["events"]), crowded=(crowded,))
    return [{**parameters, **timing._asdict()} for timing in timings]


def judge(rows: Sequence[Row]) -> Verdict:
    """Judge the claim: the per-hit models must explain their times (R² ≥ 0.8); coefficients are this machine's, so not
    compared.
    """
    costs, of_both = _fitted([row for row in rows if row["queries"] == "scattered"]), _fitted(rows)
    findings, holds = [], True
    for name in NAMES:
        fitted = getattr(costs, name)
        paper = f", [DISS] {PAPER[name]:g}" if name in PAPER else ""
        findings.append(
            f"{name} {fitted.value:.3g} [{fitted.low:.3g}, {fitted.high:.3g}] µs, R² {fitted.r_squared:.2f}"
            f" (with crowded queries {getattr(of_both, name).r_squared:.2f}){paper}"
        )
        if name.split("_")[-1] in ("stab", "test", "hit"):
            holds &= fitted.r_squared >= 0.8
    return Verdict(holds, "; ".join(findings))


def _fitted(rows: Sequence[Row]) -> CostCoefficients:
    return fit_costs(Sample(str(row["component"]), float(row["units"]), float(row["microseconds"])) for row in rows)


EXPERIMENT = Experiment(
    figure="[DISS], Table 4.2",
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
