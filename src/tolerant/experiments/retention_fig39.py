"""Seed 003, Figure 3.9: all policies on all synthetic workloads, with room for ten rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tolerant.experiments.harness.experiment import Chart, Experiment, Row, Verdict
from tolerant.experiments.workloads.moving import WORKLOADS, compared, means, policies

MEMORY = 10
RULES = ("rand", "prob", "life")
NEAR = 0.97
"""HEEB is as good as the best on TOWER if it finds at least this share."""


def grid(quick: bool) -> list[Row]:
    """Sets of few runs each, so that many tasks share the work."""
    size: Row = {"ticks": 600, "runs": 1} if quick else {"ticks": 5000, "runs": 2}
    seeds = range(0, 2 if quick else 50, int(size["runs"]))
    return [{"workload": name, "memory": MEMORY, "seed": seed, **size} for name in WORKLOADS for seed in seeds]


def measure(parameters: Mapping[str, float | int | str]) -> list[Row]:
    """The results of each policy."""
    number = WORKLOADS.index(str(parameters["workload"]))
    return [{**row, "number": number} for row in compared(parameters, planning=True)]


def judge(rows: Sequence[Row]) -> Verdict:
    """Every sentence of the claim, on the means."""
    found = means(rows, "workload", "policy")
    of = {name: {policy: found[name, policy] for policy in policies(name)} for name in WORKLOADS}
    moving = [of[name] for name in WORKLOADS if name != "WALK"]
    sentences = {
        "the optimum is best": all(max(one.values()) == one["optimal"] for one in of.values()),
        "heeb is above the rules": all(one["heeb"] > max(one.get(p, 0.0) for p in RULES) for one in of.values()),
        "heeb is at least flow-expect on most": sum(one["heeb"] >= one["flow-expect"] for one in of.values()) >= 3,
        "prob is worst under a trend": all(min(one.values()) == one["prob"] for one in moving),
        "rand beats prob and life": all(one["rand"] > max(one["prob"], one["life"]) for one in moving),
        f"heeb finds {NEAR:.0%} of the optimum on TOWER": of["TOWER"]["heeb"] >= NEAR * of["TOWER"]["optimal"],
        "its lead over rand shrinks from TOWER to FLOOR": of["TOWER"]["heeb"] / of["TOWER"]["rand"]
        > of["FLOOR"]["heeb"] / of["FLOOR"]["rand"],
        "nobody is near the optimum on WALK": of["WALK"]["heeb"] < 0.6 * of["WALK"]["optimal"],
    }
    told = "; ".join(f"{name}: " + " ".join(f"{p} {v:.0f}" for p, v in one.items()) for name, one in of.items())
    failed = [sentence for sentence, holds in sentences.items() if not holds]
    return Verdict(not failed, (f"NOT: {', '.join(failed)}. " if failed else "") + told)


EXPERIMENT = Experiment(
    figure="seed 003, Figure 3.9",
    claim="knowing how streams move, HEEB finds more than rules that do not, mostly more than FlowExpect; on TOWER as "
    "much as the optimum, less far ahead on FLOOR; on WALK nobody on line is near the optimum",
    grid=grid,
    measure=measure,
    judge=judge,
    chart=Chart(x="number", y="results", series="policy", x_label="workload: " + ", ".join(WORKLOADS)),
)
