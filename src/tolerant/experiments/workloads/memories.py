"""What Figures 3.10 to 3.13 of seed 003 have in common: results by memory, one workload each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tolerant.experiments.harness.experiment import Chart, Experiment, Row, Verdict
from tolerant.experiments.workloads.moving import compared, means

MEMORIES = (1, 2, 3, 5, 10, 20, 30, 50)


def by_memory(figure: str, workload: str) -> Experiment:
    """The experiment for one workload."""

    def grid(quick: bool) -> list[Row]:
        size: Row = {"ticks": 1000, "runs": 2} if quick else {"ticks": 5000, "runs": 10}
        memories = (1, 5, 20, 50) if quick else MEMORIES
        seeds = range(0, 2 if quick else 50, int(size["runs"]))
        return [{"workload": workload, "memory": memory, "seed": seed, **size} for memory in memories for seed in seeds]

    def judge(rows: Sequence[Row]) -> Verdict:
        return _judged(workload, rows)

    catches_up = "" if workload == "WALK" else " and eventually all that the optimum finds"
    return Experiment(
        figure=figure,
        claim=f"{workload}: with more memory every policy finds more{catches_up}; HEEB is first among those on line",
        grid=grid,
        measure=_measured,
        judge=judge,
        chart=Chart(x="memory", y="results", series="policy", x_label="memory, rows"),
    )


def _measured(parameters: Mapping[str, float | int | str]) -> list[Row]:
    return compared(parameters, planning=False)


def _judged(workload: str, rows: Sequence[Row]) -> Verdict:
    found = means(rows, "policy", "memory")
    memories = sorted({int(memory) for _, memory in found})
    names = list(dict.fromkeys(str(policy) for policy, _ in found))
    share = {m: found["heeb", m] / max(found["optimal", m], 1.0) for m in memories}
    rules = [name for name in names if name not in ("heeb", "optimal")]
    first = [m for m in memories if all(found["heeb", m] >= found[rule, m] for rule in rules)]
    # The warm-up grows with the memory: what is counted shrinks a little where all is found already.
    grows = all(found[name, memories[-1]] > found[name, memories[0]] for name in names)
    catches_up = workload == "WALK" or share[memories[-1]] >= 0.97
    told = ", ".join(f"{m}: {share[m]:.2f}" for m in memories)
    behind = [m for m in memories if m not in first]
    finding = f"HEEB's share of the optimum by memory: {told}"
    if behind:
        finding += f"; behind a rule at {', '.join(map(str, behind))}"
    return Verdict(grows and catches_up and not behind, finding)
