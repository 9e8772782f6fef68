"""[GPR05], Figure 4: pulls of the choosers on single portfolio queries, by tolerance.

[GPR05] shows pulls alone; beside them stands here the fidelity delivered, which differs between the choosers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tolerant.experiments.harness.experiment import Chart, Experiment, Row, Verdict
from tolerant.experiments.workloads.stock_prices import means, outcome, polled_trace, portfolios
from tolerant.polling import simulate

CHOOSERS = ("max", "positive-negative", "per-item", "all", "ideal-push", "least-push")


def grid(quick: bool) -> list[Row]:
    """Return the parameter sets: tolerances and seeds; single queries over walks of σ 0.05."""
    bounds = [2400, 5400] if quick else [2400, 3000, 3600, 4200, 4800, 5400]
    size: Row = {"queries": 8, "ticks": 1500} if quick else {"queries": 30, "ticks": 3000}
    return [{"within": within, "seed": seed, **size} for within in bounds for seed in range(2 if quick else 5)]


def measure(parameters: Mapping[str, float | int | str]) -> list[Row]:
    """Measure pulls of each chooser over all the queries, each run alone; and their mean fidelity."""
    seed, ticks = int(parameters["seed"]), int(parameters["ticks"])
    trace = polled_trace("walk", ticks, sigma=0.05, seed=seed)
    queries = portfolios(int(parameters["queries"]), float(parameters["within"]), 0.98, seed=seed)
    rows: list[Row] = []
    for chooser in CHOOSERS:
        runs = [simulate(trace, [query], chooser, seed=seed) for query in queries]
        fidelity = sum(outcome(run)["fidelity"] for run in runs) / len(runs)
        rows.append({**parameters, "chooser": chooser, "pulls": sum(run.pulls for run in runs), "fidelity": fidelity})
    return rows


def judge(rows: Sequence[Row]) -> Verdict:
    """Judge the claim: "max" must need fewest pulls, then "positive-negative", then "per-item", at every tolerance."""
    pulls, fidelity = means(rows, ["within", "chooser"], "pulls"), means(rows, ["within", "chooser"], "fidelity")
    bounds = sorted({float(row["within"]) for row in rows})
    holds = all(pulls[b, "max"] < pulls[b, "positive-negative"] < pulls[b, "per-item"] for b in bounds)
    summary = "; ".join(
        f"{b:g}: "
        + " / ".join(
            f"{pulls[b, c] / 1000:.1f} ({fidelity[b, c]:.3f})" for c in ("max", "positive-negative", "per-item")
        )
        for b in bounds
    )
    return Verdict(
        holds,
        f"thousands of pulls (fidelity delivered of 0.98) of max / positive-negative / per-item: {summary}. What the "
        "figure hides: fewer pulls also deliver less fidelity",
    )


EXPERIMENT = Experiment(
    figure="[GPR05], Figure 4",
    claim="on single queries, max needs the fewest pulls, then positive-negative, then per-item",
    grid=grid,
    measure=measure,
    judge=judge,
    chart=Chart(x="within", y="pulls", series="chooser", x_label="within", y_label="pulls", log_y=True),
)
