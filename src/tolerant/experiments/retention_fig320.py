"""Seed 003, Figure 3.20: how far FlowExpect should look ahead; FLOOR, room for 20 rows, 500 ticks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from tolerant.experiments.harness.experiment import Chart, Experiment, Row, Verdict
from tolerant.experiments.workloads.moving import means, streams
from tolerant.retention import join

MEMORY, TICKS = 20, 500


def grid(quick: bool) -> list[Row]:
    """Distances, a seed a set."""
    distances = (1, 5, 8) if quick else (1, 2, 3, 5, 8, 12)
    return [{"lookahead": one, "seed": seed} for seed in range(2 if quick else 50) for one in distances]


def measure(parameters: Mapping[str, float | int | str]) -> list[Row]:
    """Results of FlowExpect, and beside it of HEEB and the optimum."""
    r, s, models = streams("FLOOR", TICKS, int(parameters["seed"]))
    rows: list[Row] = []
    for policy in ("flow-expect", "heeb", "optimal"):
        found = join(
            r, s, MEMORY, policy, models=None if policy == "optimal" else models, warmup=4 * MEMORY,
            lookahead=int(parameters["lookahead"]),
        )  # fmt: skip
        rows.append({**parameters, "policy": policy, "results": found.results})
    return rows


def judge(rows: Sequence[Row]) -> Verdict:
    """Gains up to 5, none after: both by more than two standard errors of the paired differences."""
    planned = [row for row in rows if row["policy"] == "flow-expect"]
    found = means(planned, "lookahead")
    distances = sorted(int(one) for (one,) in found)
    gain = _difference(planned, 1, 5)
    beyond = [_difference(planned, 5, one) for one in distances if one > 5]
    held = gain[0] > 2 * gain[1] and all(more[0] <= 2 * more[1] for more in beyond)
    told = ", ".join(f"{one}: {found[one,]:.1f}" for one in distances)
    rest = means(rows, "policy")
    return Verdict(
        held,
        f"results by distance {told} (heeb {rest['heeb',]:.1f}, optimum {rest['optimal',]:.1f}); "
        f"from 1 to 5 they change by {gain[0]:+.1f} ± {gain[1]:.1f}",
    )


def _difference(rows: Sequence[Row], short: int, long: int) -> tuple[float, float]:
    """What looking farther adds in the mean over the seeds, and its standard error."""
    found = {(int(row["lookahead"]), int(row["seed"])): float(row["results"]) for row in rows}
    seeds = sorted({seed for _, seed in found})
    gains = np.array([found[long, seed] - found[short, seed] for seed in seeds])
    return float(gains.mean()), float(gains.std() / max(np.sqrt(len(gains) - 1), 1.0))


EXPERIMENT = Experiment(
    figure="seed 003, Figure 3.20",
    claim="FlowExpect gains from looking ahead up to about 5 ticks, and nothing beyond",
    grid=grid,
    measure=measure,
    judge=judge,
    chart=Chart(x="lookahead", y="results", series="policy", x_label="ticks ahead"),
)
