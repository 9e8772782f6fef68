"""[DISS], Figure 5.6: the server's time by update against the number of rows, 500,000 subscriptions.

[DISS]: S-CN +20 % from 10,000 to 100,000 rows; S-UN 3.5 times S-CN at 10,000, 2.5 times at 100,000. The S-UN of the
seed serialises its messages; ours lists the ids, so its distance to S-CN is smaller.
"""

from __future__ import annotations

from collections.abc import Sequence

from tolerant.experiments.harness.experiment import Chart, Experiment, Row, Verdict
from tolerant.experiments.workloads.delivery_rows import Parameters, listed, series
from tolerant.experiments.workloads.server_time import server_times


def grid(quick: bool) -> list[Row]:
    """Return the parameter sets: the numbers of rows."""
    rows = [10_000, 100_000] if quick else [10_000, 20_000, 40_000, 60_000, 80_000, 100_000]
    size: Row = {"subscriptions": 200_000, "events": 20_000} if quick else {"subscriptions": 500_000, "events": 50_000}
    return [{"rows": number, **size} for number in rows]


def measure(parameters: Parameters) -> list[Row]:
    """Measure µs per update of both."""
    return server_times(parameters)


def judge(rows: Sequence[Row]) -> Verdict:
    """Judge the claim: S-CN grows at most twofold; S-UN is above 1.5 times S-CN at the fewest rows, and comes nearer
    with more.
    """
    content, unicast = (series(rows, "rows", "microseconds", approach) for approach in ("s-cn", "s-un"))
    ratios = [both / alone for both, alone in zip(unicast, content, strict=True)]
    holds = content[-1] <= 2 * content[0] and ratios[0] > 1.5 and ratios[-1] < ratios[0]
    finding = (
        f"S-CN {listed(content)} µs per update, {content[-1] / content[0]:.2f} times from the fewest rows to the "
        f"most (the "
        f"seed: 1.2); S-UN over S-CN {listed(ratios)} ([DISS]: 3.5 falling to 2.5, with serialising)"
    )
    return Verdict(holds, finding)


EXPERIMENT = Experiment(
    figure="[DISS], Figure 5.6",
    claim="S-CN's time hardly grows with the rows; S-UN takes longer, by less the more rows there are",
    grid=grid,
    measure=measure,
    judge=judge,
    chart=Chart(x="rows", y="microseconds", series="approach", x_label="rows", y_label="µs per update"),
)
