"""Makes docs/planning.png: messages by tolerance for each way to plan, and who answers what in one plan."""

from __future__ import annotations

from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt

from tolerant.experiments.workloads.aggregator_networks import halves, portfolios, random_network, trace_of
from tolerant.planning import Dynamics, plan, simulate

HEURISTICS = ("naive", "optimal-bounds", "random", "min-cost", "max-gain", "exact")
TOLERANCES = (0.3, 0.5, 0.8, 1.2, 2.0)


def main() -> None:
    """Draw both panels from random walks, which everyone can make."""
    trace = trace_of("walk")
    learn, run = halves(trace)
    network, dynamics = random_network(trace.items, 0.00025, 0.001), Dynamics.of(learn)
    figure, (left, right) = plt.subplots(1, 2, figsize=(10, 3.8), width_ratios=(1, 1.2))
    for heuristic in HEURISTICS:
        means = []
        for within in TOLERANCES:
            queries = portfolios(trace.items, 60, within, sizes=(3, 10))
            means.append(sum(simulate(plan(q, network, dynamics, heuristic), run).refreshes for q in queries) / 60)
        left.loglog(TOLERANCES, means, marker="o", markersize=3, label=heuristic)
    left.set(title="60 queries of 3 to 10 items, 25 aggregators", xlabel="WITHIN", ylabel="messages per query")
    left.set_xticks(TOLERANCES, [f"{within:g}" for within in TOLERANCES])
    left.minorticks_off()
    left.grid(alpha=0.3)
    left.legend(fontsize=8)
    _one_plan(right, plan(portfolios(trace.items, 1, 0.8, sizes=(8, 8), seed=4)[0], network, dynamics, "exact"))
    figure.tight_layout()
    figure.savefig(Path(__file__).parents[1] / "planning.png", dpi=110)


def _one_plan(panel: plt.Axes, made: object) -> None:
    """A bar a part: its bound, of which the floor is what its copies alone may put it off."""
    told = made.explain(tick=60.0)
    names = [f"{one.aggregator}: {', '.join(item.removeprefix('item') for item in one.items)}" for one in told]
    panel.barh(names, [one.bound for one in told], color="#9ecae1", label="bound C")
    panel.barh(names, [one.floor for one in told], color="#3182bd", label="floor X")
    for row, one in enumerate(told):
        panel.text(
            one.bound, row, f" {one.refreshes:.2g} an hour, {one.cancelled:.0%} cancels", va="center", fontsize=8
        )
    panel.set(title="one exact plan: who answers which items", xlim=(0, 1.9 * max(one.bound for one in told)))
    panel.invert_yaxis()
    panel.legend(loc="lower right", fontsize=8)


if __name__ == "__main__":
    main()
