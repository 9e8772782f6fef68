"""Seed 003, Table 5.3: messages an update against the number of subscriptions, 10,000 rows.

The seed: S-CN 2.08 throughout; unicast 303 616 909 1218 1441 for 200,000 to 1,000,000 subscriptions.
"""

from __future__ import annotations

from collections.abc import Sequence

from tolerant.experiments.harness.experiment import Chart, Experiment, Row, Verdict
from tolerant.experiments.workloads.delivery import Parameters, delivered, series, told
from tolerant.experiments.workloads.ranges import changing_rows, watched_ranges

APPROACHES = ("s-cn", "s-un", "s-cn-active")


def grid(quick: bool) -> list[Row]:
    """The numbers of subscriptions."""
    counts = [50_000, 200_000] if quick else [200_000, 400_000, 600_000, 800_000, 1_000_000]
    return [{"subscriptions": count, "rows": 10_000, "events": 20_000 if quick else 200_000} for count in counts]


def measure(parameters: Parameters) -> list[Row]:
    """Messages an update."""
    table = changing_rows(int(parameters["rows"]), int(parameters["events"]))
    return delivered(parameters, table, watched_ranges(int(parameters["subscriptions"])), APPROACHES)


def judge(rows: Sequence[Row]) -> Verdict:
    """S-CN the same to the last digit; unicast linear within 10 %."""
    content, unicast = (series(rows, "subscriptions", "messages", approach) for approach in ("s-cn", "s-un"))
    counts = sorted({float(row["subscriptions"]) for row in rows})
    slopes = [value / count for value, count in zip(unicast, counts, strict=True)]
    held = max(content) == min(content) and 2.0 <= content[0] <= 2.3 and max(slopes) <= 1.1 * min(slopes)
    finding = (
        f"S-CN {told(content, 3)} messages an update (the seed: 2.08 throughout), unicast {told(unicast, 0)} "
        f"(the seed: "
        f"303 to 1441), with the active check {told(series(rows, 'subscriptions', 'messages', 's-cn-active'))}"
    )
    return Verdict(held, finding)


EXPERIMENT = Experiment(
    figure="seed 003, Table 5.3",
    claim="S-CN's messages do not depend on the subscriptions, unicast's grow with them",
    grid=grid,
    measure=measure,
    judge=judge,
    chart=Chart(
        x="subscriptions",
        y="messages",
        series="approach",
        x_label="subscriptions",
        y_label="messages an update",
        log_y=True,
    ),
)
