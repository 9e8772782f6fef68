"""Seed 004, Figure 6: one AVG over the packet rates of ten busy hosts, adaptive filters against uniform ones.

The seed measured its own network, one-minute averages of 100 to 800 packets a second; here they are generated. All
hosts are active and alike, so that there is little to gain: the seed's curves lie mildly apart.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from tolerant.experiments.harness.experiment import Chart, Experiment, Row, Verdict
from tolerant.experiments.workloads.traffic import bursty_traffic
from tolerant.filters import simulate
from tolerant.queries import Aggregate
from tolerant.traces import Trace

HOSTS = 10
POLICIES = ("uniform", "adaptive", "predictive")


def grid(quick: bool) -> list[Row]:
    """δ, twice the tolerance, packets a second."""
    widths = [1.0, 4.0, 10.0] if quick else [0.5, 1.0, 2.0, 3.0, 4.0, 6.0, 8.0, 10.0]
    size: Row = {"ticks": 4000, "warmup": 500} if quick else {"ticks": 40_000, "warmup": 2000}
    return [{"delta": width, **size} for width in widths]


def measure(parameters: Mapping[str, float | int | str]) -> list[Row]:
    """Messages a second of each policy."""
    ticks, warmup = int(parameters["ticks"]), int(parameters["warmup"])
    items = tuple(f"host-{k}" for k in range(HOSTS))
    trace = Trace(items, bursty_traffic(np.linspace(100, 800, HOSTS).tolist(), ticks, on=60, off=60, seed=6))
    query = Aggregate.over("volume", "avg", items, within=float(parameters["delta"]) / 2)
    rows: list[Row] = []
    for policy in POLICIES:
        run = simulate(trace, [query], policy, warmup=warmup)
        rate = (run.updates + run.grants) / (ticks - warmup)
        rows.append({**parameters, "policy": policy, "messages_per_second": rate, "violations": int(run.violations)})
    return rows


def judge(rows: Sequence[Row]) -> Verdict:
    """Adaptive must send less than uniform in the mean over all δ."""
    rates = {(float(row["delta"]), row["policy"]): float(row["messages_per_second"]) for row in rows}
    widths = sorted({width for width, _ in rates})
    told, means = [], {}
    for policy in POLICIES[1:]:
        found = [rates[width, policy] / max(rates[width, "uniform"], 1e-12) for width in widths]
        means[policy] = float(np.exp(np.mean(np.log(np.maximum(found, 1e-12)))))
        told.append(f"{policy} {min(found):.2f}–{max(found):.2f}, in the mean {means[policy]:.2f}")
    broken = sum(int(row["violations"]) for row in rows)
    finding = f"messages over uniform's for δ {widths[0]:g}–{widths[-1]:g}: {'; '.join(told)}; {broken} violations"
    return Verdict(means["adaptive"] < 1 and broken == 0, finding)


EXPERIMENT = Experiment(
    figure="seed 004, Figure 6",
    claim="adaptive filters send mildly fewer messages than uniform ones on ten busy hosts",
    grid=grid,
    measure=measure,
    judge=judge,
    chart=Chart(
        x="delta", y="messages_per_second", series="policy", x_label="δ, packets a second", y_label="messages a second"
    ),
)
