"""Makes docs/views.png: what each method costs, by the tick of the refresh ([DISS], Figure 2.6)."""

from __future__ import annotations

from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt

from tolerant.experiments.views.views_fig26 import METHODS, measure


def main() -> None:
    """Draw costs, and ratios to the optimum."""
    rows = [row for last in range(100, 1001, 50) for row in measure({"last": last})]
    figure, panels = plt.subplots(1, 2, figsize=(9, 3.6))
    for panel, column, label in zip(panels, ("cost", "ratio"), ("cost, seconds", "cost / optimum"), strict=True):
        for method in METHODS:
            points = [(row["last"], row[column]) for row in rows if row["method"] == method]
            panel.plot(*zip(*points, strict=True), marker="o", markersize=3, label=method)
        panel.set(xlabel="tick of the refresh", ylabel=label)
        panel.grid(alpha=0.3)
    panels[0].legend()
    figure.tight_layout()
    figure.savefig(Path(__file__).parents[1] / "views.png", dpi=110)


if __name__ == "__main__":
    main()
