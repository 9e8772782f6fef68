"""[OJW03], Figure 2: time to solve for the rows' targets once per period, by number and overlap of queries."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence

import numpy as np

from tolerant.experiments.harness.experiment import Chart, Experiment, Row, Verdict
from tolerant.filters.constraints import constraints_of
from tolerant.filters.targets import solve

ITEMS, PERIOD = 200, 10.0
"""Sources, and seconds between two solves."""
AT_MOST = 0.01
"""Share of a processor that [OJW03] reports for 200 queries over a quarter of the items."""


def grid(quick: bool) -> list[Row]:
    """Return the parameter sets: queries over random 5 % or 25 % of the items."""
    counts = (20, 80, 200) if quick else (1, 10, 20, 40, 80, 120, 160, 200)
    return [{"queries": m, "share": share, "rounds": 5 if quick else 20} for share in (0.05, 0.25) for m in counts]


def measure(parameters: Mapping[str, float | int | str]) -> list[Row]:
    """Measure the best time of a solve that starts from the last period's targets, and of one from nothing, as shares
    of a period.
    """
    queries, rounds = int(parameters["queries"]), int(parameters["rounds"])
    each = round(float(parameters["share"]) * ITEMS)
    rng = np.random.default_rng(queries)
    rows = constraints_of(
        [("avg", rng.choice(ITEMS, each, replace=False), np.ones(each), 1.0) for _ in range(queries)], ITEMS
    )
    rates, widths = rng.uniform(1, 5, ITEMS), rng.uniform(0.5, 2, ITEMS)
    burdens = [rng.poisson(rates) / PERIOD / widths for _ in range(rounds + 1)]
    targets = solve(rows, burdens[0])
    warm, cold = [], []
    for burden in burdens[1:]:
        start = time.perf_counter()
        targets = solve(rows, burden, targets)
        middle = time.perf_counter()
        solve(rows, burden)
        warm.append(middle - start)
        cold.append(time.perf_counter() - middle)
    overlap = f"{float(parameters['share']):.0%} of the items"
    return [
        {**parameters, "start": f"{start}, {overlap}", "warm": int(start == "warm"), "cpu_share": min(times) / PERIOD}
        for start, times in (("warm", warm), ("cold", cold))
    ]


def judge(rows: Sequence[Row]) -> Verdict:
    """Judge the claim: the share must grow with the queries and with their overlap, and end at one per
    cent or below.
    """
    shares = {(float(row["share"]), int(row["queries"])): float(row["cpu_share"]) for row in rows if row["warm"]}
    most, least = (pick(queries for _, queries in shares) for pick in (max, min))
    wide, narrow = shares[0.25, most], shares[0.05, most]
    holds = wide <= AT_MOST and wide > narrow and wide > shares[0.25, least]
    return Verdict(
        holds,
        f"a solve each {PERIOD:g} s takes {wide:.4%} of a processor for {most} queries over 25 % of {ITEMS} items "
        f"({1e3 * PERIOD * wide:.2f} ms), {narrow:.4%} over 5 %, {shares[0.25, least]:.4%} for {least} over 25 %",
    )


EXPERIMENT = Experiment(
    figure="[OJW03], Figure 2",
    claim="the processor's share grows with the number of queries and their overlap, to about 1 % for 200 at 25 %",
    grid=grid,
    measure=measure,
    judge=judge,
    chart=Chart(
        x="queries",
        y="cpu_share",
        series="start",
        x_label="queries",
        y_label="share of a processor",
        log_y=True,
    ),
)
