"""Beyond [DISS]: how long HEEB should expect rows to be kept.

[DISS] derives the mean life from the noise: the ticks in which a row is of use. With little memory a row is discarded
long before. Compared are α for [DISS]'s mean life, and for the lesser of that and the memory.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from tolerant.experiments.harness.experiment import Chart, Experiment, Row, Verdict
from tolerant.experiments.workloads.moving_streams import NOISES, means, streams
from tolerant.retention import join
from tolerant.retention.survival import of_mean_life

LOSES = 0.99
"""Never below this part of what [DISS]'s choice finds."""


def grid(quick: bool) -> list[Row]:
    """Return the parameter sets: small memories, where it matters."""
    size: Row = {"ticks": 1500, "runs": 2} if quick else {"ticks": 5000, "runs": 6}
    seeds = range(0, 4 if quick else 48, int(size["runs"]))
    memories = (2, 10) if quick else (1, 2, 3, 5, 10, 20)
    return [{"workload": w, "memory": m, "seed": seed, **size} for w in NOISES for m in memories for seed in seeds]


def measure(parameters: Mapping[str, float | int | str]) -> list[Row]:
    """Measure results with the default life over those with [DISS]'s."""
    workload, memory, ticks = str(parameters["workload"]), int(parameters["memory"]), int(parameters["ticks"])
    life = float(np.mean([noise.life for noise in NOISES[workload]]))
    rows: list[Row] = []
    for seed in range(int(parameters["seed"]), int(parameters["seed"]) + int(parameters["runs"])):
        r, s, models = streams(workload, ticks, seed)
        ours = join(r, s, memory, models=models, warmup=4 * memory).results
        seeds = join(r, s, memory, models=models, survival=of_mean_life(life), warmup=4 * memory).results
        rows.append({**parameters, "seed": seed, "ratio": ours / max(seeds, 1)})
    return rows


def judge(rows: Sequence[Row]) -> Verdict:
    """Judge the claim: no loss anywhere, a gain somewhere."""
    ratios = means(rows, "workload", "memory", of="ratio")
    summary = "; ".join(
        f"{name}: " + ", ".join(f"{m}: {r:.3f}" for (w, m), r in ratios.items() if w == name) for name in NOISES
    )
    holds = min(ratios.values()) >= LOSES and max(ratios.values()) > 1.02
    return Verdict(holds, f"results over those with [DISS]'s life, by memory — {summary}")


EXPERIMENT = Experiment(
    figure="beyond [DISS]: the mean life",
    claim="a mean life of no more than the memory never loses, and gains where memory is small",
    grid=grid,
    measure=measure,
    judge=judge,
    chart=Chart(x="memory", y="ratio", series="workload", x_label="memory, rows", y_label="times [DISS]'s results"),
)
