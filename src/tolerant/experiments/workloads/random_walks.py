"""Measures averages over random walks, the workload of [OJW03]'s Figures 3 and 4."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from tolerant.experiments.harness.experiment import Row, Verdict
from tolerant.filters import simulate
from tolerant.queries import Aggregate
from tolerant.traces import random_walk

ITEMS = 10
BUSY = 0.2
"""Updates per tick of the optimum from which on most periods see one."""
AT_MOST = 1.45
"""Adaptive's updates over the optimum's: the target of `docs/design/filters.md` §7."""


def against_optimal(
    parameters: Mapping[str, float | int | str], queries: int, costs: tuple[float, float] | None = None
) -> list[Row]:
    """Measure the cost of updates per tick of the best static widths and of adaptive ones, over several seeds."""
    ticks, warmup, delta = (int(parameters["ticks"]), int(parameters["warmup"]), float(parameters["delta"]))
    spent = {"optimal": 0.0, "adaptive": 0.0, "predictive": 0.0}
    violations = 0
    for seed in range(int(parameters["seeds"])):
        rng = np.random.default_rng((seed, queries))
        trace = random_walk(ITEMS, ticks, rng.uniform(0.1, 1, ITEMS), seed=seed)
        charge = rng.uniform(*costs, ITEMS) if costs else np.ones(ITEMS)
        asked = _queries(rng, trace.items, delta, queries)
        for policy in spent:
            run = simulate(trace, asked, policy, costs=charge, warmup=warmup, seed=seed)
            spent[policy] += float(charge @ run.updates_by_item)
            violations += run.violations
    per_tick = (ticks - warmup) * int(parameters["seeds"])
    return [
        {**parameters, "policy": policy, "updates_per_tick": total / per_tick, "violations": violations}
        for policy, total in spent.items()
    ]


def _queries(rng: np.random.Generator, items: Sequence[str], delta: float, queries: int) -> list[Aggregate]:
    if queries == 1:
        return [Aggregate.over("mean", "avg", items, delta / 2)]
    return [
        Aggregate.over(
            f"q{number}",
            "avg",
            [str(item) for item in rng.choice(items, rng.integers(2, 6), replace=False)],
            rng.uniform(0, delta) / 2,
        )
        for number in range(queries)
    ]


def judge_against_optimal(rows: Sequence[Row]) -> Verdict:
    """Require parity where the optimum is busy; elsewhere deviations are mostly 0 and growth is given at random."""
    groups = list(dict.fromkeys(str(row["costs"]) for row in rows))
    findings, holds = [], True
    for group in groups:
        rates = {
            (float(row["delta"]), row["policy"]): float(row["updates_per_tick"])
            for row in rows
            if row["costs"] == group
        }
        ratios: dict[bool, list[float]] = {True: [], False: []}
        for delta in sorted({delta for delta, _ in rates}):
            least = rates[delta, "optimal"]
            ratios[least >= BUSY].append(rates[delta, "adaptive"] / max(least, 1e-12))
        holds = holds and bool(ratios[True]) and max(ratios[True]) <= AT_MOST
        findings.append(
            f"{group}: {_span(ratios[True])} while the optimum is busy, {_span(ratios[False])} where it is not"
        )
    broken = sum(int(row["violations"]) for row in rows)
    measured = "; ".join(findings)
    finding = f"adaptive's updates over the optimum's (asked: at most {AT_MOST:g}), {measured}; {broken} violations"
    return Verdict(holds and broken == 0, finding)


def _span(ratios: Sequence[float]) -> str:
    return f"{min(ratios):.2f}–{max(ratios):.2f}" if ratios else "(not measured)"
