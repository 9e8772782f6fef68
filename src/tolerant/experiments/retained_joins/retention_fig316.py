"""[DISS], Figures 3.16 and 3.17: h2 for the temperatures, exact and from few points."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from tolerant.experiments.harness.experiment import Chart, Experiment, Row, Verdict
from tolerant.experiments.workloads.moving_streams import MELBOURNE
from tolerant.retention.offline.surfaces import Surface, h2

LOW, HIGH = 70, 433
"""The coldest and the hottest day, tenths of a degree."""

NEAR = 0.05
"""Satisfactory: nowhere farther off than this part of the peak."""


def grid(quick: bool) -> list[Row]:
    """Return the parameter sets: points along each side, at several α."""
    return [
        {"alpha": alpha, "points": n} for alpha in ((10, 100) if quick else (10, 50, 100, 200, 300)) for n in (5, 9, 17)
    ]


def measure(parameters: Mapping[str, float | int | str]) -> list[Row]:
    """Measure the largest error over the square, as a part of the peak."""
    alpha, at = float(parameters["alpha"]), np.arange(LOW, HIGH + 1, 3)
    exact = h2(MELBOURNE, alpha, at, at)
    rough = Surface(MELBOURNE, alpha, LOW, HIGH, int(parameters["points"]))(at, at)
    return [{**parameters, "error": float(np.abs(rough - exact).max() / exact.max()), "peak": float(exact.max())}]


def judge(rows: Sequence[Row]) -> Verdict:
    """Judge the claim: [DISS]'s 25 points, and finer."""
    worst = {n: max(float(row["error"]) for row in rows if row["points"] == n) for n in (5, 9, 17)}
    least = min(float(row["error"]) for row in rows if row["points"] == 5)
    summary = f"25 points are off by {least:.0%} to {worst[5]:.0%} of the peak, 81 by up to {worst[9]:.1%}, "
    return Verdict(worst[5] <= NEAR, summary + f"289 by up to {worst[17]:.1%}")


EXPERIMENT = Experiment(
    figure="[DISS], Figures 3.16 and 3.17",
    claim="bicubic interpolation of 25 points is a satisfactory h2",
    grid=grid,
    measure=measure,
    judge=judge,
    chart=Chart(
        x="alpha", y="error", series="points", x_label="α", y_label="largest error, part of the peak", log_y=True
    ),
)
