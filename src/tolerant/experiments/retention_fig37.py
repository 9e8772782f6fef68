"""Seed 003, Figure 3.7: h1, what a row is worth by its distance from where a random walk stands."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from tolerant.experiments.harness.experiment import Chart, Experiment, Row, Verdict
from tolerant.retention.walks import h1

ALPHA = 10.0


def grid(quick: bool) -> list[Row]:
    """Drifts of 0, 2 and 4 a tick, variance 1."""
    return [{"drift": drift} for drift in (0, 2, 4)]


def measure(parameters: Mapping[str, float | int | str]) -> list[Row]:
    """h1 at every distance."""
    distances = np.arange(-10, 31)
    found = h1(distances.astype(np.float64), float(parameters["drift"]), 1.0, ALPHA)
    return [{**parameters, "distance": int(d), "worth": float(w)} for d, w in zip(distances, found, strict=True)]


def judge(rows: Sequence[Row]) -> Verdict:
    """Without drift the nearer is worth more; with drift what lies ahead."""
    found = {drift: {int(r["distance"]): float(r["worth"]) for r in rows if r["drift"] == drift} for drift in (0, 2, 4)}
    still = found[0]
    ranked = all(still[d] > still[d + 1] and np.isclose(still[d], still[-d]) for d in range(10))
    ahead = all(found[drift][d] > found[drift][-d] for drift in (2, 4) for d in range(1, 11))
    peaks = {drift: max(one, key=lambda d, one=one: one[d]) for drift, one in found.items()}  # type: ignore[misc]
    return Verdict(ranked and ahead, "peaks at distances " + ", ".join(f"{p} (drift {d})" for d, p in peaks.items()))


EXPERIMENT = Experiment(
    figure="seed 003, Figure 3.7",
    claim="without drift a walk's row is worth less the farther it is, to either side; with drift what is ahead counts",
    grid=grid,
    measure=measure,
    judge=judge,
    chart=Chart(x="distance", y="worth", series="drift", x_label="value − present position", y_label="h1"),
)
