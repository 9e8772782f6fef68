"""[DISS], Figure 3.8: the noise of s in TOWER, ROOF and FLOOR."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from tolerant.experiments.harness.experiment import Chart, Experiment, Row, Verdict
from tolerant.experiments.workloads.moving_streams import NOISES


def grid(quick: bool) -> list[Row]:
    """Return the parameter sets: one set per workload."""
    return [{"workload": name} for name in NOISES]


def measure(parameters: Mapping[str, float | int | str]) -> list[Row]:
    """Measure the probability of each value."""
    noise = NOISES[str(parameters["workload"])][1]
    values = np.arange(-noise.bound, noise.bound + 1)
    return [
        {**parameters, "value": int(value), "probability": float(weight)}
        for value, weight in zip(values, noise.weights(), strict=True)
    ]


def judge(rows: Sequence[Row]) -> Verdict:
    """Judge the claim: each sums to 1; from TOWER to FLOOR the peak sinks."""
    peaks, sums = {}, {}
    for name in NOISES:
        weights = [float(row["probability"]) for row in rows if row["workload"] == name]
        peaks[name], sums[name] = max(weights), sum(weights)
    holds = peaks["TOWER"] > peaks["ROOF"] > peaks["FLOOR"] and all(abs(total - 1) < 1e-9 for total in sums.values())
    return Verdict(holds, "peaks: " + ", ".join(f"{name} {peak:.3f}" for name, peak in peaks.items()))


EXPERIMENT = Experiment(
    figure="[DISS], Figure 3.8",
    claim="from TOWER over ROOF to FLOOR the noise is flatter, within the same bounds",
    grid=grid,
    measure=measure,
    judge=judge,
    chart=Chart(x="value", y="probability", series="workload", x_label="noise of s"),
)
