"""[GPR05], Figure 5: pulls of "max" for 500 queries, by tolerance and fidelity asked for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise

from tolerant.experiments.harness.experiment import Chart, Experiment, Row, Verdict
from tolerant.experiments.workloads.stock_prices import means, measured


def grid(quick: bool) -> list[Row]:
    """Return the parameter sets: tolerances × fidelities × seeds, on stock prices."""
    bounds, asked = ([1800, 3000, 5400], [0.9, 0.98]) if quick else ([1800, 2400, 3000, 3600, 5400], [0.9, 0.94, 0.98])
    size: Row = {"trace": "stock", "queries": 200 if quick else 500, "ticks": 2000 if quick else 3000}
    return [
        {"within": within, "fidelity": fidelity, "seed": seed, **size}
        for within in bounds
        for fidelity in asked
        for seed in range(2 if quick else 5)
    ]


def measure(parameters: Mapping[str, float | int | str]) -> list[Row]:
    """Measure pulls per item, as a part of the ticks too, and fidelity delivered."""
    _, figures = measured(parameters, "max", int(parameters["seed"]))
    delivered = {"pulls": figures["pulls"], "delivered": figures["fidelity"], "worst": figures["worst"]}
    return [{**parameters, **delivered, "share": figures["pulls"] / int(parameters["ticks"])}]


def judge(rows: Sequence[Row]) -> Verdict:
    """Judge the claim: pulls must rise as the tolerance or the loss tightens, fidelity matter less at wide tolerances,
    and a seventh of every-tick do at 3000.
    """
    pulls = means(rows, ["within", "fidelity"], "pulls")
    share = means(rows, ["within", "fidelity"], "share")
    bounds, asked = sorted({key[0] for key in pulls}), sorted({key[1] for key in pulls})
    rising = all(pulls[a, f] > pulls[b, f] for f in asked for a, b in pairwise(bounds))
    dearer = all(pulls[b, asked[-1]] > pulls[b, asked[0]] for b in bounds)
    extra = {b: pulls[b, asked[-1]] - pulls[b, asked[0]] for b in bounds}
    little = extra[bounds[-1]] < extra[3000]
    summary = "; ".join(f"{b:g}: " + " ".join(f"{pulls[b, f]:.0f}" for f in asked) for b in bounds)
    return Verdict(
        rising and dearer and little and share[3000, asked[-1]] <= 1 / 7,
        f"pulls per item at fidelity {', '.join(f'{f:g}' for f in asked)}: {summary}; "
        f"{share[3000, asked[-1]]:.3f} of every-tick at 3000 and {asked[-1]:g} (asked: at most 0.143)",
    )


EXPERIMENT = Experiment(
    figure="[GPR05], Figure 5",
    claim="pulls rise steeply as tolerance or loss tightens; at wide tolerances fidelity matters little",
    grid=grid,
    measure=measure,
    judge=judge,
    chart=Chart(x="within", y="pulls", series="fidelity", x_label="within", y_label="pulls per item"),
)
