"""Builds the experiments of [DISS], Figures 3.10 to 3.13: results by memory, one workload each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tolerant.experiments.harness.experiment import Chart, Experiment, Row, Verdict
from tolerant.experiments.workloads.moving_streams import compared, means

MEMORIES = (1, 2, 3, 5, 10, 20, 30, 50)


def by_memory(figure: str, workload: str) -> Experiment:
    """Return the experiment for one workload."""

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
        claim=f"{workload}: with more memory every policy finds more{catches_up}; HEEB is the best online policy",
        grid=grid,
        measure=_measured,
        judge=judge,
        chart=Chart(x="memory", y="results", series="policy", x_label="memory, rows"),
    )


def _measured(parameters: Mapping[str, float | int | str]) -> list[Row]:
    return compared(parameters, planning=False)


def _judged(workload: str, rows: Sequence[Row]) -> Verdict:
    results = means(rows, "policy", "memory")
    memories = sorted({int(memory) for _, memory in results})
    names = list(dict.fromkeys(str(policy) for policy, _ in results))
    share = {m: results["heeb", m] / max(results["optimal", m], 1.0) for m in memories}
    rules = [name for name in names if name not in ("heeb", "optimal")]
    first = [m for m in memories if all(results["heeb", m] >= results[rule, m] for rule in rules)]
    # The warm-up grows with the memory: the count shrinks a little where every result is found already.
    grows = all(results[name, memories[-1]] > results[name, memories[0]] for name in names)
    catches_up = workload == "WALK" or share[memories[-1]] >= 0.97
    summary = ", ".join(f"{m}: {share[m]:.2f}" for m in memories)
    behind = [m for m in memories if m not in first]
    finding = f"HEEB's share of the optimum by memory: {summary}"
    if behind:
        finding += f"; behind a rule at {', '.join(map(str, behind))}"
    return Verdict(grows and catches_up and not behind, finding)
