"""Makes docs/notifications.png: one change as rectangles over subscriptions, and what each way to deliver costs."""

from __future__ import annotations

from math import isinf
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.patches import Rectangle

from tolerant.experiments.workloads.changing_ranges import changing_rows, watched_ranges
from tolerant.notifications import RangeMin, simulate

ROWS, SUBSCRIPTIONS, EVENTS = 20_000, 100_000, 10_000
SPIKES = [0.0, 0.005, 0.01, 0.02, 0.05]
EDGE = 120


def rectangles(axes: Axes) -> None:
    """Figure 5.1 of [DISS]: t5 rises from 5 to 9; subscriptions are points."""
    ids = [f"t{n}" for n in range(1, 10)]
    table = RangeMin.of(ids, [20, 10, 30, 40, 50, 70, 85, 85, 100], [3, 6, 8, 12, 5, 6, 14, 7, 2])
    for number, message in enumerate(table.update("t5", 50, 9)):
        low = 0 if isinf(message.outer_low) else message.outer_low
        high = EDGE if isinf(message.outer_high) else message.outer_high
        corner, width, height = (low, message.inner_high), message.inner_low - low, high - message.inner_high
        axes.add_patch(Rectangle(corner, width, height, alpha=0.35, color=f"C{number}"))
        axes.annotate(f"→ {message.value:g}", (low + width / 2, message.inner_high + height / 2), ha="center")
    rng = np.random.default_rng(4)
    x1 = rng.uniform(0, EDGE, 250)
    x2 = x1 + rng.exponential(35, 250)
    axes.plot(x1, x2, ".", color="black", markersize=2)
    axes.plot([0, EDGE], [0, EDGE], color="grey", linewidth=0.8)
    axes.set(xlim=(0, EDGE), ylim=(0, EDGE), xlabel="x1", ylabel="x2", title="one change: three messages, 250 ranges")


def costs(axes: Axes) -> None:
    """Bytes per event by affected subscriptions, as in Figure 5.9."""
    watched = watched_ranges(SUBSCRIPTIONS)
    tables = [changing_rows(ROWS, EVENTS, spikes=share) for share in SPIKES]
    for approach in ("s-un", "cn", "s-cn", "packed", "s-cn-active"):
        runs = [simulate(table.rows, table.changes, watched, approach) for table in tables]
        affected = [run.affected / run.changes for run in runs]
        axes.loglog(affected, [run.bytes / run.changes for run in runs], marker="o", markersize=3, label=approach)
    axes.set(
        xlabel="affected subscriptions an event", title=f"bytes per event, {SUBSCRIPTIONS:,} ranges, {ROWS:,} rows"
    )
    axes.grid(alpha=0.3)
    axes.legend(loc="upper left", fontsize=8)


def main() -> None:
    """Draw both side by side."""
    figure, panels = plt.subplots(1, 2, figsize=(10, 4))
    rectangles(panels[0])
    costs(panels[1])
    figure.tight_layout()
    figure.savefig(Path(__file__).parents[1] / "notifications.png", dpi=110)


if __name__ == "__main__":
    main()
