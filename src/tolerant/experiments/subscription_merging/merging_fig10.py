"""[CBGM], Figure 10: how often directed search finds a cheaper plan than pairs, by the number of initial states.

[CBGM] reports about 20 % at 50 states; the share depends on the number of queries: 12 and 100 are shown.
States are random partitions of the whole set, as in [CBGM]; windows, which we use above 60 queries, are better still.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tolerant.experiments.harness.experiment import Chart, Experiment, Row, Verdict
from tolerant.experiments.workloads.rectangle_sets import prices, rising, series, sets, whole_directed
from tolerant.merging import merge

SIZES = (12, 100)


def grid(quick: bool) -> list[Row]:
    """Return the parameter sets: the number of states, for few and for many queries."""
    starts = (1, 5, 50) if quick else (1, 2, 5, 10, 20, 50)
    samples = {12: 100, 100: 10} if quick else {12: 2000, 100: 200}
    return [{"queries": f"{n} queries", "n": n, "starts": t, "samples": samples[n]} for n in SIZES for t in starts]


def measure(parameters: Mapping[str, float | int | str]) -> list[Row]:
    """Measure the share of sets, percent, where directed is better than pairs, and how often it is worse (never)."""
    costs, better, worse, samples = prices(), 0, 0, 0
    for rectangles in sets(parameters):
        pairs = merge(rectangles, costs).cost
        cost, _ = whole_directed(rectangles, costs, int(parameters["starts"]))
        samples += 1
        better += cost < pairs * (1 - 1e-9)
        worse += cost > pairs * (1 + 1e-9)
    return [{**parameters, "better": 100.0 * better / samples, "worse": worse}]


def judge(rows: Sequence[Row]) -> Verdict:
    """Judge the claim: it must rise with the states, and never be worse."""
    shares = {n: series(rows, "starts", "better", n=n) for n in SIZES}
    worse = sum(int(row["worse"]) for row in rows)
    holds = all(rising(values) and values[-1] > values[0] for values in shares.values()) and worse == 0
    summary = "; ".join(f"{n} queries: {', '.join(f'{v:.1f}' for v in values)} %" for n, values in shares.items())
    return Verdict(
        holds, f"better than pairs, from few states to 50: {summary} ([CBGM]: about 20 % at 50); worse: {worse} times"
    )


EXPERIMENT = Experiment(
    figure="[CBGM], Figure 10",
    claim="with more initial states directed search beats pairs more often, and it is never worse",
    grid=grid,
    measure=measure,
    judge=judge,
    chart=Chart(x="starts", y="better", series="queries", x_label="initial states", y_label="better than pairs, %"),
)
