"""[DISS], Figure 3.15: how HEEB divides the memory between the streams."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tolerant.experiments.harness.experiment import Chart, Experiment, Row, Verdict
from tolerant.experiments.workloads.moving_streams import means, trends
from tolerant.retention import NormalNoise, Trend, join

CASES: dict[str, tuple[int, float]] = {
    "equal": (0, 1.0),
    "r lags by 2": (2, 1.0),
    "r lags by 4": (4, 1.0),
    "σ of s × 2": (0, 2.0),
    "σ of s × 4": (0, 4.0),
}
"""Lag of r, and how many times as wide the noise of s is."""


def grid(quick: bool) -> list[Row]:
    """Return the parameter sets: every case, few runs each."""
    size: Row = {"ticks": 1000, "runs": 2} if quick else {"ticks": 5000, "runs": 10}
    seeds = range(0, 2 if quick else 50, int(size["runs"]))
    return [{"case": case, "memory": 10, "seed": seed, **size} for case in CASES for seed in seeds]


def measure(parameters: Mapping[str, float | int | str]) -> list[Row]:
    """Measure the share of the memory that rows of r take."""
    lag, factor = CASES[str(parameters["case"])]
    of_r, of_s = NormalNoise(1.0, 15), NormalNoise(factor, 15)
    models = (Trend(1.0, -float(lag), of_r), Trend(1.0, 0.0, of_s))
    memory, ticks = int(parameters["memory"]), int(parameters["ticks"])
    rows: list[Row] = []
    for seed in range(int(parameters["seed"]), int(parameters["seed"]) + int(parameters["runs"])):
        r, s = trends(of_r, of_s, ticks, seed, lag)
        share = join(r, s, memory, models=models, warmup=4 * memory).share_r
        number = list(CASES).index(str(parameters["case"]))
        rows.append({**parameters, "seed": seed, "number": number, "share_r": share, "stream": "r"})
    return rows


def judge(rows: Sequence[Row]) -> Verdict:
    """Judge the claim: the more r lags the less, the more s varies the more."""
    share = {str(case): value for (case,), value in means(rows, "case", of="share_r").items()}
    lags = share["equal"] > share["r lags by 2"] > share["r lags by 4"]
    varies = share["equal"] < share["σ of s × 2"] < share["σ of s × 4"]
    summary = ", ".join(f"{case} {value:.3f}" for case, value in share.items())
    return Verdict(lags and varies and abs(share["equal"] - 0.5) < 0.05, f"share of r: {summary}")


EXPERIMENT = Experiment(
    figure="[DISS], Figure 3.15",
    claim="HEEB gives less memory to the stream that lags behind, or varies more",
    grid=grid,
    measure=measure,
    judge=judge,
    chart=Chart(x="number", y="share_r", series="stream", x_label="case: " + ", ".join(CASES), y_label="share of r"),
)
