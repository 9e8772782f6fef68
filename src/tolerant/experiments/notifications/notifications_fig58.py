"""[DISS], Figure 5.8 (the text says 5.5.3): bytes per event against the share of ignorable updates.

The share is set by m rows at each of 5,000 places: a redraw is ignorable with probability 1 − 2/(m + 1). Ranges are
narrow, there are no spikes. [DISS]: CN flat; S-UN poor, below CN at a high share; S-CN the lowest everywhere.
"""

from __future__ import annotations

from collections.abc import Sequence

from tolerant.experiments.harness.experiment import Chart, Experiment, Row, Verdict
from tolerant.experiments.workloads.changing_ranges import changing_rows, narrow_ranges
from tolerant.experiments.workloads.delivery_rows import Parameters, delivered, listed, series

APPROACHES = ("s-un", "cn", "s-cn", "s-cn-active", "packed")
PLACES = 5_000


def grid(quick: bool) -> list[Row]:
    """Return the parameter sets: how many rows share a place."""
    counts = [1, 5, 39] if quick else [1, 2, 3, 5, 10, 19, 39]
    size: Row = {"subscriptions": 200_000, "events": 5_000} if quick else {"subscriptions": 500_000, "events": 20_000}
    return [{"at_each": count, **size} for count in counts]


def measure(parameters: Parameters) -> list[Row]:
    """Measure bytes per event of each approach, over the share that was measured."""
    at_each = int(parameters["at_each"])
    table = changing_rows(PLACES * at_each, int(parameters["events"]), spikes=0.0, at_each=at_each)
    return delivered(parameters, table, narrow_ranges(int(parameters["subscriptions"])), APPROACHES)


def judge(rows: Sequence[Row]) -> Verdict:
    """Judge the claim: the order of the three curves, and CN's flatness."""
    unicast, raw, content = (series(rows, "ignorable", "bytes", approach) for approach in ("s-un", "cn", "s-cn"))
    shares = series(rows, "ignorable", "ignorable", "s-cn")
    lowest = all(a < min(b, c) for a, b, c in zip(content, unicast, raw, strict=True))
    holds = max(raw) <= 1.1 * min(raw) and lowest and unicast[0] > raw[0] and unicast[-1] < raw[-1]
    finding = (
        f"at shares {listed(shares)}: S-UN {listed(unicast, 0)}, CN {listed(raw, 0)}, S-CN {listed(content, 0)} bytes "
        f"an event; "
        f"packed {listed(series(rows, 'ignorable', 'bytes', 'packed'), 0)}"
    )
    return Verdict(holds, finding)


EXPERIMENT = Experiment(
    figure="[DISS], Figure 5.8",
    claim="CN is flat, S-UN falls below it when most updates are ignorable, S-CN is the lowest everywhere",
    grid=grid,
    measure=measure,
    judge=judge,
    chart=Chart(
        x="ignorable", y="bytes", series="approach", x_label="share of ignorable updates", y_label="bytes per event",
        log_y=True,
    ),
)  # fmt: skip
