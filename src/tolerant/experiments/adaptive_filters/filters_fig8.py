"""[OJW03], Figure 8: five AVG queries with predicates over the traffic of ten hosts, tolerances a hundred times apart.

Every host counts its packets by which of five predicates they meet: 31 groups, the non-empty subsets. Query q averages
the groups whose subset has predicate q; Q2 and Q5 may be wrong by δ/2, Q1, Q3 and Q4 by a hundredth of it. Volumes are
a hundred to one apart. Uniform filters waste width on what is dead, and give each item the narrowest of its queries'
shares. How much of it was dead, and how steady the rest, [OJW03] does not say, and the outcome depends on it: with
ten of the 310 pairs of host and group alive and steady the claim is reproduced; with bursts, which are wider than any
filter here, or ten groups alive on every host, it is not. The first is judged, the others are reported.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from tolerant.experiments.harness.experiment import Chart, Experiment, Row, Verdict
from tolerant.experiments.workloads.packet_traffic import bursty_traffic
from tolerant.filters import simulate
from tolerant.queries import Aggregate
from tolerant.traces import Trace

HOSTS, PREDICATES, LIVE = 10, 5, 10
REGIMES = ("ten pairs, steady", "ten pairs, bursts", "ten groups, steady")
POLICIES = ("uniform", "adaptive", "predictive")
WIDE, AT_MOST = 0.8, 0.5
"""From this δ on adaptive may send at most this share of uniform's messages (`docs/design/filters.md` §7)."""


def grid(quick: bool) -> list[Row]:
    """Return the parameter sets: δ of Q2 and Q5."""
    widths = [0.05, 0.8, 1.6] if quick else [0.05, 0.1, 0.2, 0.4, 0.8, 1.6, 4.0]
    size: Row = {"ticks": 2000, "warmup": 500} if quick else {"ticks": 10_000, "warmup": 1000}
    return [{"regime": regime, "delta": width, **size} for regime in REGIMES for width in widths]


def traffic(ticks: int, regime: str = REGIMES[0]) -> Trace:
    """Generate one-minute averages of every host's groups; most of them are always 0."""
    groups = range(1, 2**PREDICATES)
    items = tuple(f"host{host}-{group:05b}" for host in range(HOSTS) for group in groups)
    volumes = 100.0 ** (1 - np.arange(LIVE) / (LIVE - 1))
    means = np.zeros((HOSTS, len(groups)))
    rng = np.random.default_rng(8)
    if regime == REGIMES[2]:
        means[:, rng.permutation(len(groups))[:LIVE]] = volumes
    else:
        means.flat[rng.permutation(means.size)[:LIVE]] = volumes
    off = 270 if regime == REGIMES[1] else 0
    return Trace(items, bursty_traffic(means.ravel().tolist(), ticks, on=30, off=off, seed=8))


def queries_of(items: Sequence[str], delta: float) -> list[Aggregate]:
    """Return Q1 to Q5, each over the groups in which its predicate is met."""
    return [
        Aggregate.over(
            f"Q{number + 1}",
            "avg",
            [item for item in items if item[-1 - number] == "1"],
            within=delta / 2 if number in (1, 4) else delta / 200,
        )
        for number in range(PREDICATES)
    ]


def measure(parameters: Mapping[str, float | int | str]) -> list[Row]:
    """Measure messages per second of each policy."""
    ticks, warmup = int(parameters["ticks"]), int(parameters["warmup"])
    trace = traffic(ticks, str(parameters["regime"]))
    queries = queries_of(trace.items, float(parameters["delta"]))
    rows: list[Row] = []
    for policy in POLICIES:
        run = simulate(trace, queries, policy, warmup=warmup)
        rate = (run.updates + run.grants) / (ticks - warmup)
        rows.append({**parameters, "policy": policy, "messages_per_second": rate, "violations": int(run.violations)})
    return rows


def judge(rows: Sequence[Row]) -> Verdict:
    """Judge the claim: at most half of uniform's messages from δ = 0.8 on, in the first regime; the others are
    reported.
    """
    findings, holds = [], True
    for regime in dict.fromkeys(str(row["regime"]) for row in rows):
        rates = {
            (float(row["delta"]), row["policy"]): float(row["messages_per_second"])
            for row in rows
            if row["regime"] == regime
        }
        for policy in POLICIES[1:]:
            ratios = {d: rate / max(rates[d, "uniform"], 1e-12) for (d, name), rate in rates.items() if name == policy}
            findings.append(f"{regime}, {policy} {', '.join(f'{ratio:.2f} at {d:g}' for d, ratio in ratios.items())}")
            if policy == "adaptive" and regime == REGIMES[0]:
                holds = all(ratio <= AT_MOST for d, ratio in ratios.items() if d >= WIDE)
    broken = sum(int(row["violations"]) for row in rows)
    return Verdict(holds and broken == 0, f"messages over uniform's by δ: {'; '.join(findings)}; {broken} violations")


EXPERIMENT = Experiment(
    figure="[OJW03], Figure 8",
    claim="with overlapping queries of very different tolerances, adaptive filters send far less than uniform ones",
    grid=grid,
    measure=measure,
    judge=judge,
    chart=Chart(
        x="delta",
        y="messages_per_second",
        series="policy",
        panel="regime",
        x_label="δ of Q2 and Q5, packets per second",
        y_label="messages per second",
        log_x=True,
        log_y=True,
    ),
)
