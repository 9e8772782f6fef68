"""[DISS], Figure 3.9: all policies on all synthetic workloads, with room for ten rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tolerant.experiments.harness.experiment import Chart, Experiment, Row, Verdict
from tolerant.experiments.workloads.moving_streams import WORKLOADS, compared, means, policies

MEMORY = 10
RULES = ("rand", "prob", "life")
NEAR = 0.97
"""HEEB is as good as the best on TOWER if it finds at least this share."""


def grid(quick: bool) -> list[Row]:
    """Return the parameter sets: sets of few runs each, so that many tasks share the work."""
    size: Row = {"ticks": 600, "runs": 1} if quick else {"ticks": 5000, "runs": 2}
    seeds = range(0, 2 if quick else 50, int(size["runs"]))
    return [{"workload": name, "memory": MEMORY, "seed": seed, **size} for name in WORKLOADS for seed in seeds]


def measure(parameters: Mapping[str, float | int | str]) -> list[Row]:
    """Measure the results of each policy."""
    number = WORKLOADS.index(str(parameters["workload"]))
    return [{**row, "number": number} for row in compared(parameters, planning=True)]


def judge(rows: Sequence[Row]) -> Verdict:
    """Judge every sentence of the claim, on the means."""
    results = means(rows, "workload", "policy")
    of = {name: {policy: results[name, policy] for policy in policies(name)} for name in WORKLOADS}
    moving = [of[name] for name in WORKLOADS if name != "WALK"]
    sentences = {
        "the optimum is best": all(max(by_policy.values()) == by_policy["optimal"] for by_policy in of.values()),
        "heeb is above the rules": all(
            by_policy["heeb"] > max(by_policy.get(p, 0.0) for p in RULES) for by_policy in of.values()
        ),
        "heeb is at least flow-expect on most": sum(
            by_policy["heeb"] >= by_policy["flow-expect"] for by_policy in of.values()
        )
        >= 3,
        "prob is worst under a trend": all(min(by_policy.values()) == by_policy["prob"] for by_policy in moving),
        "rand beats prob and life": all(
            by_policy["rand"] > max(by_policy["prob"], by_policy["life"]) for by_policy in moving
        ),
        f"heeb finds {NEAR:.0%} of the optimum on TOWER": of["TOWER"]["heeb"] >= NEAR * of["TOWER"]["optimal"],
        "its lead over rand shrinks from TOWER to FLOOR": of["TOWER"]["heeb"] / of["TOWER"]["rand"]
        > of["FLOOR"]["heeb"] / of["FLOOR"]["rand"],
        "no policy is near the optimum on WALK": of["WALK"]["heeb"] < 0.6 * of["WALK"]["optimal"],
    }
    summary = "; ".join(
        f"{name}: " + " ".join(f"{p} {v:.0f}" for p, v in by_policy.items()) for name, by_policy in of.items()
    )
    failed = [sentence for sentence, holds in sentences.items() if not holds]
    return Verdict(not failed, (f"NOT: {', '.join(failed)}. " if failed else "") + summary)


EXPERIMENT = Experiment(
    figure="[DISS], Figure 3.9",
    claim="knowing how streams move, HEEB finds more than rules that do not, mostly more than FlowExpect; on TOWER as "
    "much as the optimum, less far ahead on FLOOR; on WALK no online policy is near the optimum",
    grid=grid,
    measure=measure,
    judge=judge,
    chart=Chart(x="number", y="results", series="policy", x_label="workload: " + ", ".join(WORKLOADS)),
)
