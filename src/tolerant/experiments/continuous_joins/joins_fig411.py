"""[DISS], Figure 4.11: the cost of maintaining the groups of band joins.

The baseline keeps one sorted list of all bands (merge's); a query list needs no upkeep at all.
"""

from __future__ import annotations

import time
from bisect import bisect_left, insort
from collections.abc import Mapping, Sequence

import numpy as np

from tolerant.experiments.harness.experiment import Chart, Experiment, Row, Verdict
from tolerant.experiments.workloads.join_loads import updates
from tolerant.joins import StabbingPartition


def grid(quick: bool) -> list[Row]:
    """Return the parameter sets: ε, and as many updates as bands in 70 groups; half of them insert."""
    size = 100_000  # in the quick form too: a short list is too cheap to keep
    return [
        {"epsilon": epsilon, "queries": size, "updates": size // 2 if quick else size}
        for epsilon in ([3.0] if quick else [1.0, 3.0])
    ]


def measure(parameters: Mapping[str, float | int | str]) -> list[Row]:
    """Measure microseconds per update."""
    size, changes = int(parameters["queries"]), int(parameters["updates"])
    low, high, steps = updates(size, changes, groups=70)
    partition = StabbingPartition(float(parameters["epsilon"]))
    partition.add_many(np.arange(size), low[:size], high[:size])
    grouped = _keep_groups(partition, low, high, steps, size)
    whole = _keep_list(low, high, steps, size)
    base: Row = {**parameters, "rebuilds": partition.rebuilds, "groups": len(partition)}
    return [
        {**base, "method": method, "update_us": seconds / changes * 1e6}
        for method, seconds in (("ssi", grouped), ("merge", whole), ("queries", 0.0))
    ]


def _keep_groups(
    partition: StabbingPartition, low: list[float], high: list[float], steps: list[int], size: int
) -> float:
    """Return the seconds of maintaining two sorted lists per group, as the search needs them."""
    lows: dict[int, list[tuple[float, int]]] = {}
    highs: dict[int, list[tuple[float, int]]] = {}
    for group in {partition.group_of(band) for band in range(size)}:
        lows[group] = sorted((low[band], band) for band in partition.members(group))
        highs[group] = sorted((-high[band], band) for band in partition.members(group))
    start = time.process_time()
    for step in steps:
        if step >= 0:
            group = partition.add(step, low[step], high[step])
            insort(lows.setdefault(group, []), (low[step], step))
            insort(highs.setdefault(group, []), (-high[step], step))
        else:
            band = -1 - step
            group = partition.remove(band)
            del lows[group][bisect_left(lows[group], (low[band], band))]
            del highs[group][bisect_left(highs[group], (-high[band], band))]
    return time.process_time() - start


def _keep_list(low: list[float], high: list[float], steps: list[int], size: int) -> float:
    whole = sorted((low[band], high[band], band) for band in range(size))
    start = time.process_time()
    for step in steps:
        if step >= 0:
            insort(whole, (low[step], high[step], step))
        else:
            band = -1 - step
            del whole[bisect_left(whole, (low[band], high[band], band))]
    return time.process_time() - start


def judge(rows: Sequence[Row]) -> Verdict:
    """Judge the claim: upkeep at most 1.2 times merge's, rebuilds rare."""
    findings, holds = [], True
    for epsilon in sorted({float(row["epsilon"]) for row in rows}):
        spent = {row["method"]: float(row["update_us"]) for row in rows if row["epsilon"] == epsilon}
        rebuilds = next(int(row["rebuilds"]) for row in rows if row["epsilon"] == epsilon)
        ratio = spent["ssi"] / spent["merge"]
        holds &= ratio <= 1.2 and rebuilds <= 5
        findings.append(f"ε = {epsilon:g}: {ratio:.2f} × merge's upkeep, {rebuilds} rebuilds")
    return Verdict(holds, "; ".join(findings))


EXPERIMENT = Experiment(
    figure="[DISS], Figure 4.11",
    claim="keeping groups costs about 1.2 times what keeping one sorted list does, and rebuilds are rare",
    grid=grid,
    measure=measure,
    judge=judge,
    chart=Chart(x="epsilon", y="update_us", series="method", x_label="ε", y_label="µs per update"),
)
