"""Seed 004, Figure 7: one AVG over the packet rates of 200 hosts, adaptive filters against uniform ones.

The seed replays two hours of a recorded wide-area trace; here the traffic is generated like it (host means falling
with rank, heavy-tailed bursts, most hosts idle at any time, one-minute windows). A second regime, every host active
all the time, shows where the seed's policy loses: one item grows a boundary, and a query's width can be kept by a
few dozen items at most.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tolerant.experiments.harness.experiment import Chart, Experiment, Row, Verdict
from tolerant.experiments.workloads import bursty_traffic
from tolerant.filters import simulate
from tolerant.queries import Aggregate
from tolerant.traces import Trace

POLICIES = ("exact", "uniform", "adaptive")
BURSTY, BUSY = "most hosts idle", "all hosts active"
MODERATE = (0.05, 2.0)
"""The precision constraints, in packets a second, that the claim is about."""
AT_MOST = 0.85
"""Adaptive must send at most this share of uniform's messages: the bar of `specs/1-filters.md` §7."""


def grid(quick: bool) -> list[Row]:
    """δ, the width of the answer (twice the tolerance), in both regimes."""
    widths = [0.05, 0.5, 2.0] if quick else [0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0]
    size: Row = {"hosts": 80, "ticks": 2000, "warmup": 500} if quick else {"hosts": 200, "ticks": 7200, "warmup": 1000}
    return [{"regime": regime, "delta": width, **size} for regime in (BURSTY, BUSY) for width in widths]


def measure(parameters: Mapping[str, float | int | str]) -> list[Row]:
    """Messages a second of each policy, and how often a promise was broken (never)."""
    hosts, ticks, warmup = (int(parameters[name]) for name in ("hosts", "ticks", "warmup"))
    means = [150.0 * rank**-1.5 for rank in range(1, hosts + 1)]
    off = 270.0 if parameters["regime"] == BURSTY else 0.0
    items = tuple(f"host-{rank}" for rank in range(1, hosts + 1))
    trace = Trace(items, bursty_traffic(means, ticks, off=off, seed=7))
    query = Aggregate.over("volume", "avg", items, within=float(parameters["delta"]) / 2)
    rows: list[Row] = []
    for policy in POLICIES:
        run = simulate(trace, [query], policy, warmup=warmup)
        rate = (run.updates + run.grants) / (ticks - warmup)
        rows.append({**parameters, "policy": policy, "messages_per_second": rate, "violations": int(run.violations)})
    return rows


def judge(rows: Sequence[Row]) -> Verdict:
    """The claim is about moderate precision on bursty traffic; the other regime is told, not judged."""
    ratios = {
        regime: [ratio for width, ratio in _ratios(rows, regime) if MODERATE[0] <= width <= MODERATE[1]]
        for regime in (BURSTY, BUSY)
    }
    broken = sum(int(row["violations"]) for row in rows)
    bursty, busy = ratios[BURSTY], ratios[BUSY]
    finding = (
        f"adaptive sends {min(bursty):.2f}–{max(bursty):.2f} of uniform's messages "
        f"for δ {MODERATE[0]:g}–{MODERATE[1]:g}, "
        f"{broken} violations; with all hosts active {min(busy):.2f}–{max(busy):.2f}"
    )
    return Verdict(max(bursty) <= AT_MOST and broken == 0, finding)


def _ratios(rows: Sequence[Row], regime: str) -> list[tuple[float, float]]:
    rates = {
        (float(row["delta"]), row["policy"]): float(row["messages_per_second"])
        for row in rows
        if row["regime"] == regime
    }
    widths = sorted({width for width, _ in rates})
    return [(width, rates[width, "adaptive"] / max(rates[width, "uniform"], 1e-12)) for width in widths]


EXPERIMENT = Experiment(
    figure="seed 004, Figure 7",
    claim="adaptive filters send well below uniform ones at small and middle precision constraints",
    grid=grid,
    measure=measure,
    judge=judge,
    chart=Chart(
        x="delta",
        y="messages_per_second",
        series="policy",
        panel="regime",
        x_label="δ, packets a second",
        y_label="messages a second",
        log_x=True,
        log_y=True,
    ),
)
