"""[DISS], Figure 3.7: h1, the value of a row by its distance from the present position of a random walk."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from tolerant.experiments.harness.experiment import Chart, Experiment, Row, Verdict
from tolerant.retention.walk_scores import h1

ALPHA = 10.0


def grid(quick: bool) -> list[Row]:
    """Return the parameter sets: drifts of 0, 2 and 4 per tick, variance 1."""
    return [{"drift": drift} for drift in (0, 2, 4)]


def measure(parameters: Mapping[str, float | int | str]) -> list[Row]:
    """Measure h1 at every distance."""
    distances = np.arange(-10, 31)
    worths = h1(distances.astype(np.float64), float(parameters["drift"]), 1.0, ALPHA)
    return [{**parameters, "distance": int(d), "worth": float(w)} for d, w in zip(distances, worths, strict=True)]


def judge(rows: Sequence[Row]) -> Verdict:
    """Judge the claim: without drift the nearer is worth more; with drift what lies ahead."""
    curves = {
        drift: {int(r["distance"]): float(r["worth"]) for r in rows if r["drift"] == drift} for drift in (0, 2, 4)
    }
    still = curves[0]
    ranked = all(still[d] > still[d + 1] and np.isclose(still[d], still[-d]) for d in range(10))
    ahead = all(curves[drift][d] > curves[drift][-d] for drift in (2, 4) for d in range(1, 11))
    peaks = {drift: max(curve, key=lambda d, curve=curve: curve[d]) for drift, curve in curves.items()}  # type: ignore[misc]
    return Verdict(ranked and ahead, "peaks at distances " + ", ".join(f"{p} (drift {d})" for d, p in peaks.items()))


EXPERIMENT = Experiment(
    figure="[DISS], Figure 3.7",
    claim="without drift a walk's row is worth less the farther it is, to either side; with drift what is ahead counts",
    grid=grid,
    measure=measure,
    judge=judge,
    chart=Chart(x="distance", y="worth", series="drift", x_label="value − present position", y_label="h1"),
)
