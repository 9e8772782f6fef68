"""[DISS], Figure 2.7: changes that come unevenly, slow and fast, stable and unstable.

The limit is 20 s, the refresh at tick 1000; "estimated" follows, in its order, a plan for 500 ticks of uniform changes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import mean

from tolerant.experiments.harness.experiment import Chart, Experiment, Row, Verdict
from tolerant.experiments.workloads.view_changes import LINES, against_the_optimum, uneven_changes

METHODS = ("naive", "online", "estimated", "per-tick", "forecast", "optimal")
STREAMS = {
    "slow stable": (0.5, 1.0),
    "slow unstable": (0.5, 5.0),
    "fast stable": (0.9, 1.0),
    "fast unstable": (0.9, 5.0),
}
"""The chance of changes at a tick, and σ of how many."""
ROBUST, NEAR = 1.1, 1.05
"""What is robust costs at most this much of the optimum on every stream; what is near it, this much in the mean."""


def grid(quick: bool) -> list[Row]:
    """Return the parameter sets: four kinds of stream, several of each."""
    ticks, seeds = (401, 2) if quick else (1001, 8)
    return [{"stream": stream, "seed": seed, "ticks": ticks} for stream in STREAMS for seed in range(seeds)]


def measure(parameters: Mapping[str, float | int | str]) -> list[Row]:
    """Measure each method's cost, and its ratio to the optimum."""
    chance, sigma = STREAMS[str(parameters["stream"])]
    arrivals = uneven_changes(int(parameters["ticks"]), chance, sigma, seed=int(parameters["seed"]))
    rows = against_the_optimum(LINES, arrivals, 20.0, METHODS, {"estimate": 500})
    return [{**parameters, **row} for row in rows]


def judge(rows: Sequence[Row]) -> Verdict:
    """Judge the claim: each part of the claim by itself."""
    ratio = {
        (stream, method): [float(row["ratio"]) for row in rows if (row["stream"], row["method"]) == (stream, method)]
        for stream in STREAMS
        for method in METHODS
    }
    average = {key: mean(values) for key, values in ratio.items()}
    unstable = [stream for stream, (_, sigma) in STREAMS.items() if sigma > 1]
    parts = {
        "both beat naive everywhere": all(
            max(average[stream, "online"], average[stream, "estimated"]) < average[stream, "naive"]
            for stream in STREAMS
        ),
        f"estimated is robust (at most {ROBUST:g})": all(max(ratio[s, "estimated"]) <= ROBUST for s in STREAMS),
        f"online is near the optimum when stable (at most {NEAR:g})": all(
            average[s, "online"] <= NEAR for s in STREAMS if s not in unstable
        ),
        "online is behind estimated when unstable": all(
            average[s, "online"] > average[s, "estimated"] for s in unstable
        ),
    }
    summary = "; ".join(f"{'holds' if holds else 'does NOT hold'}: {part}" for part, holds in parts.items())
    numbers = "; ".join(
        f"{stream}: " + ", ".join(f"{method} {average[stream, method]:.3f}" for method in METHODS[:-1])
        for stream in STREAMS
    )
    holds = all(parts.values()) and not any(row["broken"] for row in rows)
    return Verdict(holds, f"{summary}. Mean cost over the optimum's: {numbers}")


EXPERIMENT = Experiment(
    figure="[DISS], Figure 2.7",
    claim="online and estimated beat naive on every stream; estimated is robust; online is near the optimum when "
    "stable, slightly behind estimated when unstable",
    grid=grid,
    measure=measure,
    judge=judge,
    chart=Chart(x="seed", y="ratio", series="method", panel="stream", x_label="stream", y_label="cost / optimum"),
)
