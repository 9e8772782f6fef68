"""Seed 003, Table 5.2: messages an update against the number of rows, 500,000 subscriptions.

The last column of the seed's table is misprinted 10K; it is 100K. The seed's S-CN: 2.10 2.15 2.18 2.20 2.22 for
20,000 to 100,000 rows; unicast: 726 671 678 655 654. Spikes make up over nine tenths of the unicasts, so short runs
are noisy.
"""

from __future__ import annotations

from collections.abc import Sequence

from tolerant.experiments.harness.experiment import Chart, Experiment, Row, Verdict
from tolerant.experiments.workloads.delivery import Parameters, delivered, series, told
from tolerant.experiments.workloads.ranges import changing_rows, watched_ranges

APPROACHES = ("s-cn", "s-un", "s-cn-active", "packed")


def grid(quick: bool) -> list[Row]:
    """The numbers of rows."""
    rows = [20_000, 100_000] if quick else [20_000, 40_000, 60_000, 80_000, 100_000]
    size: Row = {"subscriptions": 100_000, "events": 20_000} if quick else {"subscriptions": 500_000, "events": 200_000}
    return [{"rows": number, **size} for number in rows]


def measure(parameters: Parameters) -> list[Row]:
    """Messages an update of the server's messages, of unicast, and of two ways to send fewer."""
    table = changing_rows(int(parameters["rows"]), int(parameters["events"]))
    return delivered(parameters, table, watched_ranges(int(parameters["subscriptions"])), APPROACHES)


def judge(rows: Sequence[Row]) -> Verdict:
    """S-CN in [2.0, 2.3] and hardly growing; unicast in the hundreds (by 500,000 subscriptions), without growth."""
    content, unicast = (series(rows, "rows", "messages", approach) for approach in ("s-cn", "s-un"))
    each = [value * 500_000 / float(rows[0]["subscriptions"]) for value in unicast]
    flat = max(content) - min(content) <= 0.15
    held = min(content) >= 2.0 and max(content) <= 2.3 and flat and min(each) >= 100 and max(each) <= 2 * min(each)
    finding = (
        f"S-CN {told(content, 3)} messages an update (the seed: 2.10 to 2.22; ours grow less with the rows), unicast "
        f"{told(unicast, 0)} (the seed: 726 to 654); with the active check "
        f"{told(series(rows, 'rows', 'messages', 's-cn-active'))}, packed "
        f"{told(series(rows, 'rows', 'messages', 'packed'))}"
    )
    return Verdict(held, finding)


EXPERIMENT = Experiment(
    figure="seed 003, Table 5.2",
    claim="S-CN sends 2.0 to 2.3 messages an update whatever the rows, unicast hundreds",
    grid=grid,
    measure=measure,
    judge=judge,
    chart=Chart(x="rows", y="messages", series="approach", x_label="rows", y_label="messages an update", log_y=True),
)
