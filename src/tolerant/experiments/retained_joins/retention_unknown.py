"""Beyond [DISS]: HEEB that learns its model from the references, against caches in common use."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tolerant.experiments.harness.experiment import Chart, Experiment, Row, Verdict
from tolerant.experiments.workloads.cache_baselines import arc_hits, s3_fifo_hits, shifting_zipf
from tolerant.retention import cache

SHIFTS = (0, 100, 20)
"""References between two moves of the hot set; 0: it stays."""
AT_LEAST = 0.95
"""The part of the best cache's hits that learning must reach."""


def grid(quick: bool) -> list[Row]:
    """Return the parameter sets: two skews, three speeds."""
    size: Row = {"references": 10_000, "values": 2000, "memory": 100} if quick else {
        "references": 30_000, "values": 5000, "memory": 250,
    }  # fmt: skip
    return [
        {"skew": skew, "every": every, "seed": seed, **size}
        for skew in (0.7, 1.0)
        for every in SHIFTS
        for seed in range(1 if quick else 5)
    ]


def measure(parameters: Mapping[str, float | int | str]) -> list[Row]:
    """Measure hits of every cache."""
    memory, every = int(parameters["memory"]), int(parameters["every"])
    n, references, seed = (int(parameters[name]) for name in ("values", "references", "seed"))
    values = shifting_zipf(float(parameters["skew"]), n, references, every, seed)
    hits = {policy: cache(values, memory, policy).hits for policy in ("lru", "lfu")}
    hits["arc"] = arc_hits(values.tolist(), memory)
    hits["s3-fifo"] = s3_fifo_hits(values.tolist(), memory)
    hits["heeb, learned"] = cache(values, memory).hits
    base: Row = {**parameters, "panel": f"Zipf {parameters['skew']}", "speed": 1.0 / every if every else 0.0}
    return [{**base, "cache": name, "hits": count} for name, count in hits.items()]


def judge(rows: Sequence[Row]) -> Verdict:
    """Judge the claim: learning against the best of the others, case by case."""
    findings, least = [], 2.0
    for skew, every in dict.fromkeys((row["skew"], row["every"]) for row in rows):
        hits: dict[str, float] = {}
        for row in rows:
            if (row["skew"], row["every"]) == (skew, every):
                hits[str(row["cache"])] = hits.get(str(row["cache"]), 0.0) + float(row["hits"])
        ours = hits.pop("heeb, learned")
        best = max(hits, key=lambda name: hits[name])
        least = min(least, ours / hits[best])
        findings.append(
            f"Zipf {skew}, {f'moving every {every}' if every else 'still'}: {ours / hits[best]:.3f} of {best}"
        )
    return Verdict(least >= AT_LEAST, f"hits over the best other (asked: {AT_LEAST}): " + "; ".join(findings))


EXPERIMENT = Experiment(
    figure="beyond [DISS]: no model",
    claim="a model learned during the run keeps up with the best of LRU, LFU, ARC and S3-FIFO, whichever it is",
    grid=grid,
    measure=measure,
    judge=judge,
    chart=Chart(x="speed", y="hits", series="cache", panel="panel", x_label="moves of the hot set per reference"),
)
