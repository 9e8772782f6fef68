"""[OJW03], Figure 6: one AVG over the packet rates of ten busy hosts, adaptive filters against uniform ones.

[OJW03] measured its own network, one-minute averages of 100 to 800 packets per second; here they are generated. All
hosts are active and alike, so that there is little to gain: [OJW03]'s curves lie mildly apart. How steady its traffic
was is not known: steady and bursting hosts are both measured, and the claim must hold for both.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from tolerant.experiments.harness.experiment import Chart, Experiment, Row, Verdict
from tolerant.experiments.workloads.packet_traffic import bursty_traffic
from tolerant.filters import simulate
from tolerant.queries import Aggregate
from tolerant.traces import Trace

HOSTS = 10
REGIMES = {"steady": 0.0, "bursts": 60.0}
"""Mean ticks between two bursts of a host, which last as long; 0: it never rests."""
POLICIES = ("uniform", "adaptive", "predictive")


def grid(quick: bool) -> list[Row]:
    """Return the parameter sets: δ, twice the tolerance, packets per second."""
    widths = [1.0, 4.0, 10.0] if quick else [0.5, 1.0, 2.0, 3.0, 4.0, 6.0, 8.0, 10.0]
    size: Row = {"ticks": 4000, "warmup": 500} if quick else {"ticks": 40_000, "warmup": 2000}
    return [{"regime": regime, "delta": width, **size} for regime in REGIMES for width in widths]


def measure(parameters: Mapping[str, float | int | str]) -> list[Row]:
    """Measure messages per second of each policy."""
    ticks, warmup = int(parameters["ticks"]), int(parameters["warmup"])
    items = tuple(f"host-{k}" for k in range(HOSTS))
    rest = REGIMES[str(parameters["regime"])]
    trace = Trace(items, bursty_traffic(np.linspace(100, 800, HOSTS).tolist(), ticks, on=60, off=rest, seed=6))
    query = Aggregate.over("volume", "avg", items, within=float(parameters["delta"]) / 2)
    rows: list[Row] = []
    for policy in POLICIES:
        run = simulate(trace, [query], policy, warmup=warmup)
        rate = (run.updates + run.grants) / (ticks - warmup)
        rows.append({**parameters, "policy": policy, "messages_per_second": rate, "violations": int(run.violations)})
    return rows


def judge(rows: Sequence[Row]) -> Verdict:
    """Judge the claim: adaptive must send less than uniform in the mean over all δ, in every regime."""
    findings, holds = [], True
    for regime in dict.fromkeys(str(row["regime"]) for row in rows):
        rates = {
            (float(row["delta"]), row["policy"]): float(row["messages_per_second"])
            for row in rows
            if row["regime"] == regime
        }
        for policy in POLICIES[1:]:
            ratios = [rate / max(rates[d, "uniform"], 1e-12) for (d, name), rate in rates.items() if name == policy]
            mean = float(np.exp(np.mean(np.log(np.maximum(ratios, 1e-12)))))
            findings.append(f"{regime}, {policy} {min(ratios):.2f}–{max(ratios):.2f}, in the mean {mean:.2f}")
            holds = holds and (policy != "adaptive" or mean < 1)
    broken = sum(int(row["violations"]) for row in rows)
    return Verdict(holds and broken == 0, f"messages over uniform's: {'; '.join(findings)}; {broken} violations")


EXPERIMENT = Experiment(
    figure="[OJW03], Figure 6",
    claim="adaptive filters send mildly fewer messages than uniform ones on ten busy hosts",
    grid=grid,
    measure=measure,
    judge=judge,
    chart=Chart(
        x="delta",
        y="messages_per_second",
        series="policy",
        panel="regime",
        x_label="δ, packets per second",
        y_label="messages per second",
    ),
)
