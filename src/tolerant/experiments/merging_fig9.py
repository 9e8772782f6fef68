"""Seed 002, Figure 9: how many channels pairs makes, as each price is scaled.

The seed calls K_M the most sensitive of the three. With the generator as its prose describes it (its own code is not to
be had) it is K_U; the directions come out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tolerant.experiments.harness.experiment import Chart, Experiment, Row, Verdict
from tolerant.experiments.workloads.subscriptions import mean_of, prices, rising, series, sets
from tolerant.merging import merge

PRICES = ("channel", "transfer", "waste")


def grid(quick: bool) -> list[Row]:
    """Each price at a quarter to four times its base value."""
    factors = (0.25, 1.0, 4.0) if quick else (0.25, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0)
    samples = 40 if quick else 1000
    return [{"price": price, "factor": f, "n": 100, "samples": samples} for price in PRICES for f in factors]


def measure(parameters: Mapping[str, float | int | str]) -> list[Row]:
    """The mean number of groups."""
    costs = prices(**{str(parameters["price"]): float(parameters["factor"])})
    groups = mean_of([len(merge(rectangles, costs).groups) for rectangles in sets(parameters)])
    return [{**parameters, "groups": groups}]


def judge(rows: Sequence[Row]) -> Verdict:
    """Directions, and which price moves the number most."""
    found = {price: series(rows, "factor", "groups", price=price) for price in PRICES}
    falls = rising(found["channel"][::-1]) and rising(found["transfer"][::-1]) and rising(found["waste"])
    spans = {price: max(values) - min(values) for price, values in found.items()}
    most = max(spans, key=lambda price: spans[price])
    told = ", ".join(f"{price} {values[0]:.1f} to {values[-1]:.1f}" for price, values in found.items())
    direction = "all directions are the seed's" if falls else "a direction is not the seed's"
    finding = (
        f"{direction}; groups from the lowest price to the highest: {told}; "
        f"the most sensitive is {most}, the seed says channel"
    )
    return Verdict(falls and most == "channel", finding)


EXPERIMENT = Experiment(
    figure="seed 002, Figure 9",
    claim="the number of channels falls with K_M, falls with K_T, rises with K_U, and K_M moves it most",
    grid=grid,
    measure=measure,
    judge=judge,
    chart=Chart(x="factor", y="groups", series="price", x_label="times the base price", y_label="channels", log_x=True),
)
