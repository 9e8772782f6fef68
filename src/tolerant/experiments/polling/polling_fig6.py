"""[GPR05], Figure 6: pulls of "max" at fidelity 0.99 over the messages of an ideal push."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tolerant.experiments.harness.experiment import Chart, Experiment, Row, Verdict
from tolerant.experiments.workloads.stock_prices import means, measured


def grid(quick: bool) -> list[Row]:
    """Return the parameter sets: tolerances × seeds, on stock prices."""
    bounds = [1800, 3000, 5400] if quick else [1800, 2400, 3000, 3600, 4200, 4800, 5400]
    size: Row = {"trace": "stock", "queries": 200 if quick else 500, "ticks": 2000 if quick else 3000, "fidelity": 0.99}
    return [{"within": within, "seed": seed, **size} for within in bounds for seed in range(2 if quick else 5)]


def measure(parameters: Mapping[str, float | int | str]) -> list[Row]:
    """Measure pulls over messages of the ideal push, and over those of a push that sends as little as it can."""
    seed = int(parameters["seed"])
    _, polled = measured(parameters, "max", seed)
    rows: list[Row] = []
    for push in ("ideal-push", "least-push"):
        run, pushed = measured(parameters, push, seed)
        rows.append({**parameters, "over": push, "ratio": polled["pulls"] / pushed["pulls"], "pulls": polled["pulls"]})
        del run
    return rows


def judge(rows: Sequence[Row]) -> Verdict:
    """Judge the claim: the ratio must stay below 5 everywhere."""
    ratio = means(rows, ["within", "over"], "ratio")
    bounds = sorted({key[0] for key in ratio})
    summary = " ".join(f"{b:g}: {ratio[b, 'ideal-push']:.1f}" for b in bounds)
    least = " ".join(f"{ratio[b, 'least-push']:.1f}" for b in bounds)
    return Verdict(
        all(ratio[b, "ideal-push"] < 5 for b in bounds),
        f"pulls over ideal push {summary}; over the least push {least}: [GPR05]'s ideal is not the minimum it says",
    )


EXPERIMENT = Experiment(
    figure="[GPR05], Figure 6",
    claim="polling at fidelity 0.99 needs less than 5 times the messages of an ideal push",
    grid=grid,
    measure=measure,
    judge=judge,
    chart=Chart(x="within", y="ratio", series="over", x_label="within", y_label="pulls / messages"),
)
