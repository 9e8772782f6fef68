"""Generates the streams of [DISS], section 3.7: trends, random walks and temperatures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from tolerant.experiments.harness.experiment import Row
from tolerant.experiments.workloads.recorded import recorded
from tolerant.retention import AR1, NormalNoise, StreamModel, Trend, UniformNoise, Walk, join
from tolerant.retention.noise import Noise

Values = NDArray[np.int64]

NOISES: dict[str, tuple[Noise, Noise]] = {
    "TOWER": (NormalNoise(1.0, 10), NormalNoise(2.0, 15)),
    "ROOF": (NormalNoise(3.3, 10), NormalNoise(5.0, 15)),
    "FLOOR": (UniformNoise(10), UniformNoise(15)),
}
"""The noise that is added to the lines of r and of s."""

WORKLOADS = (*NOISES, "WALK")

WINDOW = 26
"""15 + 10 + lag: no row of a trend can match later."""

MELBOURNE = AR1(55.9, 0.72, 42.2)
"""[DISS]'s fit of the daily maxima, in tenths of a degree."""


def trends(noise_r: Noise, noise_s: Noise, ticks: int, seed: int, lag: int = 1) -> tuple[Values, Values]:
    """Draw two streams that rise by 1 per tick, r `lag` ticks behind s."""
    rng = np.random.default_rng(seed)
    line = np.arange(ticks)
    return line - lag + _drawn(noise_r, ticks, rng), line + _drawn(noise_s, ticks, rng)


def _drawn(noise: Noise, ticks: int, rng: np.random.Generator) -> Values:
    return rng.choice(np.arange(-noise.bound, noise.bound + 1), ticks, p=noise.weights())


def walks(ticks: int, seed: int) -> tuple[Values, Values]:
    """Draw two random walks from 0, steps N(0, 1) rounded."""
    steps = np.rint(np.random.default_rng(seed).normal(0.0, 1.0, (2, ticks))).astype(np.int64)
    r, s = np.cumsum(steps, axis=1)
    return r, s


def streams(workload: str, ticks: int, seed: int) -> tuple[Values, Values, tuple[StreamModel, StreamModel]]:
    """Return the streams of a workload, and their models."""
    if workload == "WALK":
        return *walks(ticks, seed), (Walk(0.0, 1.0), Walk(0.0, 1.0))
    noise_r, noise_s = NOISES[workload]
    models = (Trend(1.0, -1.0, noise_r), Trend(1.0, 0.0, noise_s))
    return *trends(noise_r, noise_s, ticks, seed), models


def results(workload: str, policy: str, memory: int, ticks: int, seed: int) -> int:
    """Count the results of a policy after a warm-up of four times the memory; the rules get the window,
    as in [DISS].
    """
    r, s, models = streams(workload, ticks, seed)
    window = WINDOW if policy in ("rand", "prob", "life") and workload != "WALK" else None
    given = models if policy in ("heeb", "flow-expect") else None
    return join(r, s, memory, policy, models=given, window=window, warmup=4 * memory, seed=seed).results


def policies(workload: str, *, planning: bool = True) -> list[str]:
    """Return the policies that are run on a workload."""
    names = ["rand", "prob", *(["life"] if workload != "WALK" else []), "heeb"]
    return [*names, *(["flow-expect"] if planning else []), "optimal"]


def compared(parameters: Mapping[str, float | int | str], *, planning: bool) -> list[Row]:
    """Return one row per policy, over `runs` runs that begin with `seed`: the mean results, and their
    standard error.
    """
    workload, memory, ticks = str(parameters["workload"]), int(parameters["memory"]), int(parameters["ticks"])
    seeds = range(int(parameters["seed"]), int(parameters["seed"]) + int(parameters["runs"]))
    rows: list[Row] = []
    for policy in policies(workload, planning=planning):
        counts = [results(workload, policy, memory, ticks, seed) for seed in seeds]
        rows.append({**parameters, "policy": policy, "results": float(np.mean(counts))})
    return rows


def means(rows: Sequence[Row], *names: str, of: str = "results") -> dict[tuple[float | int | str, ...], float]:
    """Return the mean of a column for each combination of the named ones."""
    groups: dict[tuple[float | int | str, ...], list[float]] = {}
    for row in rows:
        groups.setdefault(tuple(row[name] for name in names), []).append(float(row[of]))
    return {key: float(np.mean(values)) for key, values in groups.items()}


def temperatures() -> tuple[Values, bool]:
    """Return Melbourne's daily maxima, 1981–1990, in tenths of a degree; second: whether they are the recorded ones.

    Without the recording: a season and a stream that reverts to it, as long and as wide.
    """
    trace = recorded("melbourne-daily-max")
    if trace is not None:
        return np.rint(trace.values[:, 0] * 10).astype(np.int64), True
    rng = np.random.default_rng(1981)
    shocks, level, out = rng.normal(0.0, 38.0, 3650), 0.0, np.empty(3650)
    for day in range(3650):
        level = 0.55 * level + shocks[day]
        out[day] = 200 + 65 * np.cos(2 * np.pi * day / 365.25) + level
    return np.rint(out).astype(np.int64), False
