"""[GPR05], Figure 7: fidelity under a fixed safety factor; and what the model alone (factor 1) delivers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise

from tolerant.experiments.harness.experiment import Chart, Experiment, Row, Verdict
from tolerant.experiments.workloads.stock_prices import means, measured


def grid(quick: bool) -> list[Row]:
    """Return the parameter sets: safety factors × tolerances × seeds, on stock prices."""
    factors = [0.5, 1.0, 2.0] if quick else [0.25, 0.5, 0.75, 1.0, 1.25, 2.0, 3.0]
    bounds = [2400, 3000, 5400] if quick else [1800, 2400, 3000, 3600, 5400]
    size: Row = {"trace": "stock", "queries": 200 if quick else 500, "ticks": 2000 if quick else 3000, "fidelity": 0.98}
    return [
        {"safety": factor, "within": within, "seed": seed, **size}
        for factor in factors
        for within in bounds
        for seed in range(2 if quick else 5)
    ]


def measure(parameters: Mapping[str, float | int | str]) -> list[Row]:
    """Measure fidelity delivered, and pulls per item."""
    _, figures = measured(parameters, "max", int(parameters["seed"]), safety=float(parameters["safety"]))
    return [{**parameters, "delivered": figures["fidelity"], "pulls": figures["pulls"]}]


def judge(rows: Sequence[Row]) -> Verdict:
    """Judge the claim: fidelity must fall with the factor, faster at tight tolerances; factor 1 must deliver 0.92 from
    2400 on.
    """
    got = means(rows, ["within", "safety"], "delivered")
    bounds, factors = sorted({key[0] for key in got}), sorted({key[1] for key in got})
    falls = all(got[b, lo] > got[b, hi] for b in bounds for lo, hi in pairwise(factors))
    drop = {b: got[b, factors[0]] - got[b, factors[-1]] for b in bounds}
    model = min(got[b, 1.0] for b in bounds if float(b) >= 2400)
    summary = "; ".join(f"{b:g}: " + " ".join(f"{got[b, f]:.3f}" for f in factors) for b in bounds)
    return Verdict(
        falls and drop[bounds[0]] > drop[bounds[-1]] and model >= 0.92,
        f"fidelity at factors {', '.join(f'{f:g}' for f in factors)}: {summary}; the model alone delivers at least "
        f"{model:.3f} from 2400 on (asked: 0.92)",
    )


EXPERIMENT = Experiment(
    figure="[GPR05], Figure 7",
    claim="fidelity falls with a fixed safety factor, faster at tight tolerances; the model alone gives at least 0.92",
    grid=grid,
    measure=measure,
    judge=judge,
    chart=Chart(x="safety", y="delivered", series="within", x_label="safety factor", y_label="fidelity"),
)
