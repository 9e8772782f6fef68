"""[GPR05], Figure 9: fidelity as estimated between pulls, with and without the values missed.

With every value that was missed the estimate is the truth; without, [GPR05] draws straight lines between pulls, which
hide excursions. `honest` is the estimate of `docs/design/polling.md` §5.5, which doubts what lies between pulls.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from tolerant.experiments.harness.experiment import Chart, Experiment, Row, Verdict
from tolerant.experiments.workloads.stock_prices import means, measured

TRACES = ("walk", "stock", "momentum", "reverting")
JUDGED = ("walk", "stock")


def grid(quick: bool) -> list[Row]:
    """Return the parameter sets: traces × tolerances × seeds."""
    size: Row = {"queries": 300 if quick else 500, "ticks": 3000, "fidelity": 0.98}
    return [
        {"trace": trace, "within": within, "seed": seed, **size}
        for trace in ((*JUDGED, "reverting") if quick else TRACES)
        for within in (2400, 5400)
        for seed in range(3 if quick else 5)
    ]


def measure(parameters: Mapping[str, float | int | str]) -> list[Row]:
    """Measure by how many points each estimate is above what was delivered, in the mean over the windows."""
    run, _ = measured(parameters, "max", int(parameters["seed"]), history=True)
    assert run.windows is not None
    rows: list[Row] = []
    for name, estimate in (("interpolated", run.windows.interpolated), ("honest", run.windows.honest)):
        gap = 100 * (estimate - run.windows.delivered)
        rows.append({**parameters, "estimate": name, "gap": float(gap.mean()), "largest": float(np.abs(gap).max())})
    return rows


def judge(rows: Sequence[Row]) -> Verdict:
    """Judge the claim: interpolation must be the higher one by at most 1 point on walk and stock; the honest one within
    0.3.
    """
    gap = means(rows, ["trace", "within", "estimate"], "gap")
    bounds = sorted({key[1] for key in gap})
    holds = all(-0.01 <= gap[t, b, "interpolated"] <= 1 for t in JUDGED for b in bounds)
    honest = max(abs(gap[t, b, "honest"]) for t in JUDGED for b in bounds)
    summary = "; ".join(
        f"{t} {b:g}: {gap[t, b, 'interpolated']:+.1f} / {gap[t, b, 'honest']:+.1f}"
        for t in dict.fromkeys(key[0] for key in gap)
        for b in bounds
    )
    return Verdict(
        holds and honest <= 0.3,
        f"points above the truth, interpolated / honest: {summary}. On reverting items the claim does not carry over",
    )


EXPERIMENT = Experiment(
    figure="[GPR05], Figure 9",
    claim="without the missed values fidelity is overestimated by at most a point; with doubt, by at most 0.3",
    grid=grid,
    measure=measure,
    judge=judge,
    chart=Chart(x="within", y="gap", series="estimate", panel="trace", x_label="within", y_label="points above truth"),
)
