"""Seed 004, Figure 8: five AVG queries with predicates over the traffic of ten hosts, tolerances a hundred times apart.

Every host counts its packets by which of five predicates they meet: 31 groups, the non-empty subsets. Query q averages
the groups whose subset has predicate q; Q2 and Q5 may be wrong by δ/2, Q1, Q3 and Q4 by a hundredth of that. Ten groups
ever carry traffic, with volumes a hundred to one apart. Uniform filters waste width on the dead groups, and give each
item the narrowest of its queries' shares.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from tolerant.experiments.harness.experiment import Chart, Experiment, Row, Verdict
from tolerant.experiments.workloads.traffic import bursty_traffic
from tolerant.filters import simulate
from tolerant.queries import Aggregate
from tolerant.traces import Trace

HOSTS, PREDICATES, LIVE = 10, 5, 10
POLICIES = ("uniform", "adaptive", "predictive")
WIDE, AT_MOST = 0.8, 0.5
"""From this δ on adaptive may send at most this share of uniform's messages (`specs/1-filters.md` §7)."""


def grid(quick: bool) -> list[Row]:
    """δ of Q2 and Q5."""
    widths = [0.05, 0.8, 1.6] if quick else [0.05, 0.1, 0.2, 0.4, 0.8, 1.6, 4.0]
    size: Row = {"ticks": 2000, "warmup": 500} if quick else {"ticks": 10_000, "warmup": 1000}
    return [{"delta": width, **size} for width in widths]


def traffic(ticks: int) -> Trace:
    """One-minute averages of every host's groups; most of them are always 0."""
    groups = range(1, 2**PREDICATES)
    rng = np.random.default_rng(8)
    volume = dict.fromkeys(groups, 0.0)
    for rank, group in enumerate(rng.permutation(groups)[:LIVE]):
        volume[int(group)] = 100.0 ** (1 - rank / (LIVE - 1))
    items = tuple(f"host{host}-{group:05b}" for host in range(HOSTS) for group in groups)
    means = [volume[group] for _ in range(HOSTS) for group in groups]
    return Trace(items, bursty_traffic(means, ticks, on=30, off=270, seed=8))


def queries_of(items: Sequence[str], delta: float) -> list[Aggregate]:
    """Q1 to Q5, each over the groups in which its predicate is met."""
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
    """Messages a second of each policy."""
    ticks, warmup = int(parameters["ticks"]), int(parameters["warmup"])
    trace = traffic(ticks)
    queries = queries_of(trace.items, float(parameters["delta"]))
    rows: list[Row] = []
    for policy in POLICIES:
        run = simulate(trace, queries, policy, warmup=warmup)
        rate = (run.updates + run.grants) / (ticks - warmup)
        rows.append({**parameters, "policy": policy, "messages_per_second": rate, "violations": int(run.violations)})
    return rows


def judge(rows: Sequence[Row]) -> Verdict:
    """At most half of uniform's messages from δ = 0.8 on."""
    rates = {(float(row["delta"]), row["policy"]): float(row["messages_per_second"]) for row in rows}
    widths = sorted({width for width, _ in rates})
    ratios = {
        policy: {width: rates[width, policy] / max(rates[width, "uniform"], 1e-12) for width in widths}
        for policy in POLICIES[1:]
    }
    broken = sum(int(row["violations"]) for row in rows)
    told = "; ".join(
        f"{policy} {', '.join(f'{ratio:.2f} at {width:g}' for width, ratio in found.items())}"
        for policy, found in ratios.items()
    )
    held = all(ratio <= AT_MOST for width, ratio in ratios["adaptive"].items() if width >= WIDE)
    return Verdict(held and broken == 0, f"messages over uniform's by δ: {told}; {broken} violations")


EXPERIMENT = Experiment(
    figure="seed 004, Figure 8",
    claim="with overlapping queries of very different tolerances, adaptive filters send far less than uniform ones",
    grid=grid,
    measure=measure,
    judge=judge,
    chart=Chart(
        x="delta",
        y="messages_per_second",
        series="policy",
        x_label="δ of Q2 and Q5, packets a second",
        y_label="messages a second",
        log_x=True,
        log_y=True,
    ),
)
