"""[DISS], Figure 3.20: how far FlowExpect should look ahead; FLOOR, room for 20 rows, 500 ticks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from tolerant.experiments.harness.experiment import Chart, Experiment, Row, Verdict
from tolerant.experiments.workloads.moving_streams import means, streams
from tolerant.retention import join

MEMORY, TICKS = 20, 500


def grid(quick: bool) -> list[Row]:
    """Return the parameter sets: distances, one seed per set."""
    distances = (1, 5, 8) if quick else (1, 2, 3, 5, 8, 12)
    return [{"lookahead": distance, "seed": seed} for seed in range(2 if quick else 50) for distance in distances]


def measure(parameters: Mapping[str, float | int | str]) -> list[Row]:
    """Measure results of FlowExpect, and beside it of HEEB and the optimum."""
    r, s, models = streams("FLOOR", TICKS, int(parameters["seed"]))
    rows: list[Row] = []
    for policy in ("flow-expect", "heeb", "optimal"):
        run = join(
            r, s, MEMORY, policy, models=None if policy == "optimal" else models, warmup=4 * MEMORY,
            lookahead=int(parameters["lookahead"]),
        )  # fmt: skip
        rows.append({**parameters, "policy": policy, "results": run.results})
    return rows


def judge(rows: Sequence[Row]) -> Verdict:
    """Judge the claim: gains up to 5, none after: both by more than two standard errors of the paired differences."""
    planned = [row for row in rows if row["policy"] == "flow-expect"]
    results = means(planned, "lookahead")
    distances = sorted(int(distance) for (distance,) in results)
    gain = _difference(planned, 1, 5)
    beyond = [_difference(planned, 5, distance) for distance in distances if distance > 5]
    holds = gain[0] > 2 * gain[1] and all(more[0] <= 2 * more[1] for more in beyond)
    summary = ", ".join(f"{distance}: {results[distance,]:.1f}" for distance in distances)
    rest = means(rows, "policy")
    return Verdict(
        holds,
        f"results by distance {summary} (heeb {rest['heeb',]:.1f}, optimum {rest['optimal',]:.1f}); "
        f"from 1 to 5 they change by {gain[0]:+.1f} ± {gain[1]:.1f}",
    )


def _difference(rows: Sequence[Row], short: int, long: int) -> tuple[float, float]:
    """Return what looking farther adds, as a mean over the seeds, and its standard error."""
    results = {(int(row["lookahead"]), int(row["seed"])): float(row["results"]) for row in rows}
    seeds = sorted({seed for _, seed in results})
    gains = np.array([results[long, seed] - results[short, seed] for seed in seeds])
    return float(gains.mean()), float(gains.std() / max(np.sqrt(len(gains) - 1), 1.0))


EXPERIMENT = Experiment(
    figure="[DISS], Figure 3.20",
    claim="FlowExpect gains from looking ahead up to about 5 ticks, and nothing beyond",
    grid=grid,
    measure=measure,
    judge=judge,
    chart=Chart(x="lookahead", y="results", series="policy", x_label="ticks ahead"),
)
