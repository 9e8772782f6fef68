"""[GPR05], Figure 8: the loss of fidelity so far and in the last 200 ticks, over time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from tolerant.experiments.harness.experiment import Chart, Experiment, Row, Verdict
from tolerant.experiments.workloads.stock_prices import means, measured

SETTLED = 1000
"""Ticks after which the loss so far is judged: five windows."""


def grid(quick: bool) -> list[Row]:
    """Return the parameter sets: tolerance 2400, fidelity 0.98, on stock prices."""
    size: Row = {"trace": "stock", "queries": 500, "ticks": 3000, "within": 2400, "fidelity": 0.98}
    return [{"seed": seed, **size} for seed in range(3 if quick else 5)]


def measure(parameters: Mapping[str, float | int | str]) -> list[Row]:
    """Measure per cent of ticks at which a query was off, window by window and so far; means over the queries."""
    run, _ = measured(parameters, "max", int(parameters["seed"]), history=True)
    assert run.windows is not None
    loss = 100 * (1 - run.windows.delivered)
    so_far = np.cumsum(loss) / np.arange(1, len(loss) + 1)
    rows: list[Row] = []
    for which, series in (("so far", so_far), ("last 200 ticks", loss)):
        rows += [
            {**parameters, "tick": 200 * (k + 1), "of": which, "loss": float(value)} for k, value in enumerate(series)
        ]
    return rows


def judge(rows: Sequence[Row]) -> Verdict:
    """Judge the claim: after five windows the loss so far must stay between 1 and 3 %."""
    loss = means(rows, ["of", "tick"], "loss")
    late = {tick: value for (of, tick), value in loss.items() if of == "so far" and float(tick) >= SETTLED}
    summary = ", ".join(f"{late[tick]:.1f} % after {tick}" for tick in (1000, 2000, 2800) if tick in late)
    return Verdict(all(1 <= value <= 3 for value in late.values()), f"loss so far (asked: 1 to 3 %): {summary}")


EXPERIMENT = Experiment(
    figure="[GPR05], Figure 8",
    claim="with feedback the loss so far stays within a point of the 2 % allowed, and recovers quickly",
    grid=grid,
    measure=measure,
    judge=judge,
    chart=Chart(x="tick", y="loss", series="of", panel="seed", x_label="tick", y_label="loss, %"),
)
