"""[DISS], Table 5.3: messages per update against the number of subscriptions, 10,000 rows.

[DISS]: S-CN 2.08 throughout; unicast 303 616 909 1218 1441 for 200,000 to 1,000,000 subscriptions.
"""

from __future__ import annotations

from collections.abc import Sequence

from tolerant.experiments.harness.experiment import Chart, Experiment, Row, Verdict
from tolerant.experiments.workloads.changing_ranges import changing_rows, watched_ranges
from tolerant.experiments.workloads.delivery_rows import Parameters, delivered, listed, series

APPROACHES = ("s-cn", "s-un", "s-cn-active")


def grid(quick: bool) -> list[Row]:
    """Return the parameter sets: the numbers of subscriptions."""
    counts = [50_000, 200_000] if quick else [200_000, 400_000, 600_000, 800_000, 1_000_000]
    return [{"subscriptions": count, "rows": 10_000, "events": 20_000 if quick else 200_000} for count in counts]


def measure(parameters: Parameters) -> list[Row]:
    """Measure messages per update."""
    table = changing_rows(int(parameters["rows"]), int(parameters["events"]))
    return delivered(parameters, table, watched_ranges(int(parameters["subscriptions"])), APPROACHES)


def judge(rows: Sequence[Row]) -> Verdict:
    """Judge the claim: S-CN the same to the last digit; unicast linear within 10 %."""
    content, unicast = (series(rows, "subscriptions", "messages", approach) for approach in ("s-cn", "s-un"))
    counts = sorted({float(row["subscriptions"]) for row in rows})
    slopes = [value / count for value, count in zip(unicast, counts, strict=True)]
    holds = max(content) == min(content) and 2.0 <= content[0] <= 2.3 and max(slopes) <= 1.1 * min(slopes)
    finding = (
        f"S-CN {listed(content, 3)} messages per update ([DISS]: 2.08 throughout), unicast {listed(unicast, 0)} "
        f"([DISS]: "
        f"303 to 1441), with the active check {listed(series(rows, 'subscriptions', 'messages', 's-cn-active'))}"
    )
    return Verdict(holds, finding)


EXPERIMENT = Experiment(
    figure="[DISS], Table 5.3",
    claim="S-CN's messages do not depend on the subscriptions, unicast's grow with them",
    grid=grid,
    measure=measure,
    judge=judge,
    chart=Chart(
        x="subscriptions",
        y="messages",
        series="approach",
        x_label="subscriptions",
        y_label="messages per update",
        log_y=True,
    ),
)
