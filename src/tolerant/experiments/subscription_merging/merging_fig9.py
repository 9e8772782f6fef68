"""[CBGM], Figure 9: the number of channels that pair merging makes, as each price is scaled.

[CBGM] calls K_M the most sensitive of the three. With the generator as its prose describes it (its own code is not
public) it is K_U; the directions are reproduced.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tolerant.experiments.harness.experiment import Chart, Experiment, Row, Verdict
from tolerant.experiments.workloads.rectangle_sets import mean_of, prices, rising, series, sets
from tolerant.merging import merge

PRICES = ("channel", "transfer", "waste")


def grid(quick: bool) -> list[Row]:
    """Return the parameter sets: each price at a quarter to four times its base value."""
    factors = (0.25, 1.0, 4.0) if quick else (0.25, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0)
    samples = 40 if quick else 1000
    return [{"price": price, "factor": f, "n": 100, "samples": samples} for price in PRICES for f in factors]


def measure(parameters: Mapping[str, float | int | str]) -> list[Row]:
    """Measure the mean number of groups."""
    costs = prices(**{str(parameters["price"]): float(parameters["factor"])})
    groups = mean_of([len(merge(rectangles, costs).groups) for rectangles in sets(parameters)])
    return [{**parameters, "groups": groups}]


def judge(rows: Sequence[Row]) -> Verdict:
    """Judge the claim: directions, and which price moves the number most."""
    groups = {price: series(rows, "factor", "groups", price=price) for price in PRICES}
    falls = rising(groups["channel"][::-1]) and rising(groups["transfer"][::-1]) and rising(groups["waste"])
    spans = {price: max(values) - min(values) for price, values in groups.items()}
    most = max(spans, key=lambda price: spans[price])
    summary = ", ".join(f"{price} {values[0]:.1f} to {values[-1]:.1f}" for price, values in groups.items())
    direction = "all directions are [CBGM]'s" if falls else "a direction is not [CBGM]'s"
    finding = (
        f"{direction}; groups from the lowest price to the highest: {summary}; "
        f"the most sensitive is {most}, [CBGM] says channel"
    )
    return Verdict(falls and most == "channel", finding)


EXPERIMENT = Experiment(
    figure="[CBGM], Figure 9",
    claim="the number of channels falls with K_M, falls with K_T, rises with K_U, and K_M moves it most",
    grid=grid,
    measure=measure,
    judge=judge,
    chart=Chart(x="factor", y="groups", series="price", x_label="times the base price", y_label="channels", log_x=True),
)
