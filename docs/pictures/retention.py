"""Makes docs/retention.png: what policies find of the best possible, by memory."""

from __future__ import annotations

from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np

from tolerant.experiments.workloads.moving_streams import results

MEMORIES = [1, 2, 3, 5, 10, 20, 30, 50]
SEEDS = range(4)
TICKS = 3000
NAMES = {"rand": "at random", "prob": "most frequent", "heeb": "expected benefit"}


def main() -> None:
    """Draw the share of the optimum for each policy."""
    figure, panels = plt.subplots(1, 3, figsize=(10, 3.4), sharey=True)
    for panel, workload in zip(panels, ("TOWER", "ROOF", "FLOOR"), strict=True):
        best = mean(workload, "optimal")
        for policy, name in NAMES.items():
            panel.plot(MEMORIES, mean(workload, policy) / best, marker="o", markersize=3, label=name)
        panel.set(title=workload, xlabel="memory, rows", xscale="log", ylim=(0, 1.02))
        panel.grid(alpha=0.3)
    panels[0].set(ylabel="results, share of the best possible")
    panels[2].legend(loc="upper left", fontsize=8)
    figure.tight_layout()
    figure.savefig(Path(__file__).parents[1] / "retention.png", dpi=110)


def mean(workload: str, policy: str) -> np.ndarray:
    """Mean results at each memory."""
    found = [[results(workload, policy, memory, TICKS, seed) for seed in SEEDS] for memory in MEMORIES]
    means = np.mean(found, axis=1)
    print(workload, policy, means.round(1).tolist())
    return np.asarray(means)


if __name__ == "__main__":
    main()
