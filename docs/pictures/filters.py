"""Makes docs/filters.png: what each policy costs on bursty traffic, with few hosts active at a time and with many."""

from __future__ import annotations

from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np

from tolerant.experiments.workloads.packet_traffic import bursty_traffic
from tolerant.filters import simulate
from tolerant.queries import Aggregate
from tolerant.traces import Trace

HOSTS, TICKS = 100, 4_000
TOLERANCES = np.geomspace(0.02, 2, 8)


def main() -> None:
    """Draw both regimes side by side."""
    figure, panels = plt.subplots(1, 2, figsize=(9, 3.6), sharey=True)
    means = 150 * np.arange(1, HOSTS + 1) ** -1.5
    for panel, (title, on, off) in zip(panels, (("few hosts active", 60, 6_000), ("many", 30, 60)), strict=True):
        values = bursty_traffic(means, TICKS, on=on, off=off, seed=3)
        trace = Trace(tuple(f"host-{n}" for n in range(HOSTS)), values)
        for policy in ("exact", "uniform", "adaptive", "predictive"):
            queries = [Aggregate.over("load", "avg", trace.items, within) for within in TOLERANCES]
            costs = [simulate(trace, [query], policy, warmup=500).cost for query in queries]
            panel.loglog(TOLERANCES, np.maximum(costs, 1), marker="o", markersize=3, label=policy)
        panel.set(title=f"{HOSTS} hosts, {title} at a time", xlabel="WITHIN, packets a second")
        panel.grid(alpha=0.3)
    panels[0].set_ylabel("messages")
    panels[0].legend()
    figure.tight_layout()
    figure.savefig(Path(__file__).parents[1] / "filters.png", dpi=110)


if __name__ == "__main__":
    main()
