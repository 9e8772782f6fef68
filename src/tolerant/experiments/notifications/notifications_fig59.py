"""[DISS], Figure 5.9: bytes per event against affected subscriptions (by the share of spikes), 50,000 rows.

[DISS]: S-UN linear, CN flat, S-CN rises slightly, near ten times below CN. Gateways are chosen by content; with
gateways at random, which is measured too, content-based routing is worth little.
"""

from __future__ import annotations

from collections.abc import Sequence

from tolerant.experiments.harness.experiment import Chart, Experiment, Row, Verdict
from tolerant.experiments.workloads.changing_ranges import changing_rows, watched_ranges
from tolerant.experiments.workloads.delivery_rows import Parameters, delivered, listed, series

APPROACHES = ("s-un", "s-un-aggregated", "cn", "s-cn", "s-cn-active", "packed")


def grid(quick: bool) -> list[Row]:
    """Return the parameter sets: shares of spikes, for both ways to choose gateways."""
    spikes = [0.0, 0.02] if quick else [0.0, 0.005, 0.01, 0.02, 0.05]
    size: Row = {"subscriptions": 200_000, "events": 5_000} if quick else {"subscriptions": 500_000, "events": 20_000}
    return [
        {"gateways": gateways, "spikes": share, "rows": 50_000, **size}
        for gateways in ("content", "random")
        for share in spikes
    ]


def measure(parameters: Parameters) -> list[Row]:
    """Measure bytes per event of each approach; at random gateways of S-CN and of unicast by gateway only."""
    table = changing_rows(int(parameters["rows"]), int(parameters["events"]), spikes=float(parameters["spikes"]))
    gateways = str(parameters["gateways"])
    approaches = APPROACHES if gateways == "content" else ("s-un-aggregated", "s-cn")
    watched = watched_ranges(int(parameters["subscriptions"]))
    return delivered(parameters, table, watched, approaches, gateways=gateways)


def judge(rows: Sequence[Row]) -> Verdict:
    """Judge the claim: by content: CN flat, S-UN grows with the affected, S-CN far below CN and rising slowly."""
    near = [row for row in rows if row["gateways"] == "content"]
    unicast, raw, content = (series(near, "affected", "bytes", approach) for approach in ("s-un", "cn", "s-cn"))
    affected = series(near, "affected", "affected", "s-cn")
    linear = all(abs(size / 56 / count - 1) < 0.01 for size, count in zip(unicast, affected, strict=True) if count)
    holds = linear and max(raw) <= 1.1 * min(raw) and content[0] <= raw[0] / 4 and max(content) <= max(raw)
    active, packed = (series(near, "affected", "bytes", approach) for approach in ("s-cn-active", "packed"))
    elsewhere = series([row for row in rows if row["gateways"] == "random"], "affected", "bytes", "s-cn")
    finding = (
        f"at {listed(affected, 0)} affected: S-UN {listed(unicast, 0)}, CN {listed(raw, 0)}, S-CN "
        f"{listed(content, 0)} bytes an "
        f"event, {listed([a / b for a, b in zip(raw, content, strict=True)], 1)} times below CN ([DISS]: near "
        f"10); with the active check {listed(active, 0)}, packed {listed(packed, 0)}; S-CN with gateways at random "
        f"{listed(elsewhere, 0)}"
    )
    return Verdict(holds, finding)


EXPERIMENT = Experiment(
    figure="[DISS], Figure 5.9",
    claim="S-UN grows with the affected subscriptions, CN is flat, S-CN rises slightly far below CN",
    grid=grid,
    measure=measure,
    judge=judge,
    chart=Chart(
        x="affected", y="bytes", series="approach", panel="gateways", x_label="affected subscriptions per event",
        y_label="bytes per event", log_y=True,
    ),
)  # fmt: skip
