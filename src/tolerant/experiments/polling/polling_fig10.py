"""[GPR05], Figure 10: pulls when a pull brings every value missed, against pulls that bring one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tolerant.experiments.harness.experiment import Chart, Experiment, Row, Verdict
from tolerant.experiments.workloads.stock_prices import means, measured

SETTINGS: tuple[tuple[str, float, int], ...] = (
    ("stock", 0.01, 2400),
    ("stock", 0.01, 5400),
    ("walk", 0.03, 2400),
    ("walk", 0.03, 5400),
    ("reverting", 0.02, 2400),
    ("reverting", 0.02, 5400),
)
EQUAL = 1.25
"""Up to this ratio the two are about equal."""


def grid(quick: bool) -> list[Row]:
    """Return the parameter sets: traces and tolerances × seeds."""
    size: Row = {"queries": 200 if quick else 500, "ticks": 2000 if quick else 3000, "fidelity": 0.98}
    return [
        {"trace": trace, "sigma": sigma, "within": within, "seed": seed, **size}
        for trace, sigma, within in SETTINGS
        for seed in range(2 if quick else 5)
    ]


def measure(parameters: Mapping[str, float | int | str]) -> list[Row]:
    """Measure pulls per item with and without, and the fidelity delivered by each."""
    rows: list[Row] = []
    for intermediates in (False, True):
        _, figures = measured(parameters, "max", int(parameters["seed"]), intermediates=intermediates)
        label = "every value" if intermediates else "the last value"
        rows.append({**parameters, "brings": label, "pulls": figures["pulls"], "delivered": figures["fidelity"]})
    return rows


def judge(rows: Sequence[Row]) -> Verdict:
    """Judge the claim on stock prices; elsewhere the finding reports where "about equal" stops."""
    pulls = means(rows, ["trace", "within", "brings"], "pulls")
    ratio = {
        (t, b): pulls[t, b, "every value"] / pulls[t, b, "the last value"]
        for t, b in dict.fromkeys((key[0], key[1]) for key in pulls)
    }
    stock = [value for (trace, _), value in ratio.items() if trace == "stock"]
    summary = "; ".join(f"{t} {b:g}: {value:.1f}" for (t, b), value in ratio.items())
    beyond = [f"{t} {b:g}" for (t, b), value in ratio.items() if value > EQUAL]
    return Verdict(
        all(value <= EQUAL for value in stock),
        f"pulls with every value over those with the last: {summary}; not about equal on {', '.join(beyond) or 'none'}",
    )


EXPERIMENT = Experiment(
    figure="[GPR05], Figure 10",
    claim="a source that hands over every missed value changes the number of pulls little (slightly more)",
    grid=grid,
    measure=measure,
    judge=judge,
    chart=Chart(x="within", y="pulls", series="brings", panel="trace", x_label="within", y_label="pulls per item"),
)
