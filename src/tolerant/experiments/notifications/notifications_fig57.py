"""[DISS], Figure 5.7: the server's time by update against the number of subscriptions, 10,000 rows.

[DISS]: S-CN constant, S-UN linear.
"""

from __future__ import annotations

from collections.abc import Sequence

from tolerant.experiments.harness.experiment import Chart, Experiment, Row, Verdict
from tolerant.experiments.workloads.delivery_rows import Parameters, listed, series
from tolerant.experiments.workloads.server_time import server_times


def grid(quick: bool) -> list[Row]:
    """Return the parameter sets: the numbers of subscriptions."""
    counts = [50_000, 400_000] if quick else [200_000, 400_000, 600_000, 800_000, 1_000_000]
    return [{"subscriptions": count, "rows": 10_000, "events": 20_000 if quick else 50_000} for count in counts]


def measure(parameters: Parameters) -> list[Row]:
    """Measure µs per update of both."""
    return server_times(parameters)


def judge(rows: Sequence[Row]) -> Verdict:
    """Judge the claim: S-CN within 1.5 times (noise); what S-UN adds grows with the subscriptions, less the fixed cost
    of a search.
    """
    content, unicast = (series(rows, "subscriptions", "microseconds", approach) for approach in ("s-cn", "s-un"))
    added = [both - alone for both, alone in zip(unicast, content, strict=True)]
    counts = sorted({float(row["subscriptions"]) for row in rows})
    growth = (added[-1] / added[0]) / (counts[-1] / counts[0])
    holds = max(content) <= 1.5 * min(content) and 0.4 <= growth <= 1.7
    finding = (
        f"S-CN {listed(content)} µs per update ([DISS]: constant); S-UN {listed(unicast)} µs, its addition grows "
        f"{growth:.2f} "
        f"times as fast as the subscriptions ([DISS]: linear)"
    )
    return Verdict(holds, finding)


EXPERIMENT = Experiment(
    figure="[DISS], Figure 5.7",
    claim="S-CN's time does not depend on the subscriptions, S-UN's grows with them",
    grid=grid,
    measure=measure,
    judge=judge,
    chart=Chart(
        x="subscriptions", y="microseconds", series="approach", x_label="subscriptions", y_label="µs per update"
    ),
)
