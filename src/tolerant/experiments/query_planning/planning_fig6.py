"""[GR07], Figure 6: the size of an item's part against how much the item moves.

Ten items, an aggregator for every pair, queries of three: one pair and one single, three plans in all, so that running
all three shows the best one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from tolerant.experiments.harness.experiment import Chart, Experiment, Row, Verdict
from tolerant.experiments.workloads.aggregator_networks import OTHERS, all_pairs, halves, portfolios, trace_of, traces
from tolerant.experiments.workloads.single_part_plans import rank_correlation
from tolerant.planning import Dynamics, Network, Plan, plan, simulate
from tolerant.queries import Aggregate
from tolerant.traces import Trace

CHOICES = ("best of all", "max-gain", "min-cost", "max-gain-relative")


def grid(quick: bool) -> list[Row]:
    """Return the parameter sets: walks whose sumdiffs are spread over more than ten times: that the trend needs.
    Recorded traces beside them.
    """
    seeds = (1,) if quick else (1, 2, 3, 4)
    size: Row = {"queries": 40 if quick else 100, "ticks": 6_000 if quick else 12_000}
    names = ["walk"] if quick else traces("walk", "minute prices", *OTHERS)
    return [{"trace": name, "seed": seed, **size} for name in names for seed in seeds]


def measure(parameters: Mapping[str, float | int | str]) -> list[Row]:
    """Measure the mean size of the part that each item is in, for the best plan and for each heuristic's."""
    trace = trace_of(str(parameters["trace"]), 10, int(parameters["ticks"]), spread=1.2)
    learn, run = halves(trace)
    dynamics, network = Dynamics.of(learn), all_pairs(trace.items, 0.0005)
    queries = portfolios(trace.items, int(parameters["queries"]), 1.0, sizes=(3, 3), seed=int(parameters["seed"]))
    sizes: dict[str, dict[str, list[int]]] = {choice: {item: [] for item in trace.items} for choice in CHOICES}
    for query in queries:
        plans = {choice: plan(query, network, dynamics, choice) for choice in CHOICES[1:]}
        plans["best of all"] = _best(query, dynamics, run)
        for choice, made in plans.items():
            for part in made.parts:
                for item in part.weights:
                    sizes[choice][item].append(len(part.weights))
    moved = dict(zip(dynamics.items, dynamics.sumdiff.tolist(), strict=True))
    return [
        {**parameters, "choice": choice, "item": item, "sumdiff": moved[item], "size": float(np.mean(part_sizes))}
        for choice, items in sizes.items()
        for item, part_sizes in items.items()
        if part_sizes
    ]


def _best(query: Aggregate, dynamics: Dynamics, run: Trace) -> Plan:
    """Of the three plans, each on a network that allows no other, the one with the fewest refreshes."""
    plans = []
    for single in query.weights:
        pair = {item: 0.0005 for item in query.weights if item != single}
        plans.append(plan(query, Network({"pair": pair, "single": {single: 0.0005}}), dynamics))
    return min(plans, key=lambda made: simulate(made, run).refreshes)


def judge(rows: Sequence[Row]) -> Verdict:
    """Judge the claim: sizes must rise with sumdiff for the best plan and max-gain, and fall for min-cost."""
    findings, holds = [], True
    for name in dict.fromkeys(str(row["trace"]) for row in rows):
        trends = {choice: _trend([row for row in rows if row["trace"] == name], choice) for choice in CHOICES}
        rises = trends["best of all"] > 0.5 and trends["max-gain"] > 0.5 and trends["min-cost"] < -0.3
        holds &= name != "walk" or rises
        listed = ", ".join(f"{choice} {value:+.2f}" for choice, value in trends.items())
        findings.append(f"{name}{'' if name == 'walk' else ' (not judged)'}: {listed}")
    return Verdict(
        holds, f"rank correlation of part size with sumdiff, eq. 16 being max-gain-relative: {'; '.join(findings)}"
    )


def _trend(rows: Sequence[Row], choice: str) -> float:
    """The mean over the runs of the rank correlation."""
    trends = []
    for seed in dict.fromkeys(row["seed"] for row in rows):
        some = [row for row in rows if row["choice"] == choice and row["seed"] == seed]
        trends.append(rank_correlation([float(r["sumdiff"]) for r in some], [float(r["size"]) for r in some]))
    return float(np.mean(trends))


EXPERIMENT = Experiment(
    figure="[GR07], Figure 6",
    claim="max-gain puts dynamic items into large parts, as the best plans do; min-cost does the opposite",
    grid=grid,
    measure=measure,
    judge=judge,
    chart=Chart(
        x="sumdiff", y="size", series="choice", panel="trace", y_label="mean size of the item's part", log_x=True
    ),
)
