"""Makes docs/joins.png: what a row costs as band joins grow in number, and as they scatter."""

from __future__ import annotations

from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np

from tolerant.experiments.workloads.join_loads import BAND_METHODS, band_joins
from tolerant.joins.offline.calibrate import timed

QUERIES = (100, 1_000, 10_000, 100_000)
GROUPS = (10, 100, 1_000, 10_000)
ROWS = 50_000


def main() -> None:
    """Draw both side by side."""
    probes = (np.random.default_rng(1).uniform(2000, 8000, 20),)
    figure, panels = plt.subplots(1, 2, figsize=(9, 3.6), sharey=True)
    loads = (
        [(queries, band_joins(queries, ROWS, groups=60, half=1e-6)) for queries in QUERIES],
        [(groups, band_joins(QUERIES[-1], ROWS, groups=groups, half=1e-6)) for groups in GROUPS],
    )
    labels = ("queries, in 60 groups", f"groups of {QUERIES[-1]:,} queries")
    for panel, load, label in zip(panels, loads, labels, strict=True):
        for method in (*BAND_METHODS, "auto"):
            some = (probes[0][:3],) if method in ("queries", "data") else probes
            panel.loglog(
                [x for x, _ in load],
                [timed(joins, some, method) for _, joins in load],
                marker="o",
                markersize=3,
                label=method,
                linestyle=":" if method == "auto" else "-",
                color="black" if method == "auto" else None,
            )
        panel.set(xlabel=label)
        panel.grid(alpha=0.3)
    panels[0].set_ylabel("search, µs a row")
    panels[1].legend(loc="lower right")
    figure.tight_layout()
    figure.savefig(Path(__file__).parents[1] / "joins.png", dpi=110)


if __name__ == "__main__":
    main()
