"""[DISS], Table 5.2: messages per update against the number of rows, 500,000 subscriptions.

The last column of [DISS]'s table is misprinted 10K; it is 100K. [DISS]'s S-CN: 2.10 2.15 2.18 2.20 2.22 for
20,000 to 100,000 rows; unicast: 726 671 678 655 654. Spikes make up over nine tenths of the unicasts, so short runs
are noisy.
"""

from __future__ import annotations

from collections.abc import Sequence

from tolerant.experiments.harness.experiment import Chart, Experiment, Row, Verdict
from tolerant.experiments.workloads.changing_ranges import changing_rows, watched_ranges
from tolerant.experiments.workloads.delivery_rows import Parameters, delivered, listed, series

APPROACHES = ("s-cn", "s-un", "s-cn-active", "packed")


def grid(quick: bool) -> list[Row]:
    """Return the parameter sets: the numbers of rows."""
    rows = [20_000, 100_000] if quick else [20_000, 40_000, 60_000, 80_000, 100_000]
    size: Row = {"subscriptions": 100_000, "events": 20_000} if quick else {"subscriptions": 500_000, "events": 200_000}
    return [{"rows": number, **size} for number in rows]


def measure(parameters: Parameters) -> list[Row]:
    """Measure messages per update of the server's messages, of unicast, and of two ways to send fewer."""
    table = changing_rows(int(parameters["rows"]), int(parameters["events"]))
    return delivered(parameters, table, watched_ranges(int(parameters["subscriptions"])), APPROACHES)


def judge(rows: Sequence[Row]) -> Verdict:
    """Judge the claim: S-CN in [2.0, 2.3] and hardly growing; unicast in the hundreds (by 500,000 subscriptions),
    without growth.
    """
    content, unicast = (series(rows, "rows", "messages", approach) for approach in ("s-cn", "s-un"))
    each = [value * 500_000 / float(rows[0]["subscriptions"]) for value in unicast]
    flat = max(content) - min(content) <= 0.15
    holds = min(content) >= 2.0 and max(content) <= 2.3 and flat and min(each) >= 100 and max(each) <= 2 * min(each)
    finding = (
        f"S-CN {listed(content, 3)} messages per update ([DISS]: 2.10 to 2.22; ours grow less with the rows), unicast "
        f"{listed(unicast, 0)} ([DISS]: 726 to 654); with the active check "
        f"{listed(series(rows, 'rows', 'messages', 's-cn-active'))}, packed "
        f"{listed(series(rows, 'rows', 'messages', 'packed'))}"
    )
    return Verdict(holds, finding)


EXPERIMENT = Experiment(
    figure="[DISS], Table 5.2",
    claim="S-CN sends 2.0 to 2.3 messages per update whatever the rows, unicast hundreds",
    grid=grid,
    measure=measure,
    judge=judge,
    chart=Chart(x="rows", y="messages", series="approach", x_label="rows", y_label="messages per update", log_y=True),
)
