"""Makes docs/merging.png: a hundred subscriptions, the channels that they share, and what each method's plan costs."""

from __future__ import annotations

from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
from matplotlib.patches import Rectangle

from tolerant.merging import Costs, channels, cost_breakdown, distance, generate, lower_bound, merge

BASE = Costs(365, 3.25, 0.16)
SEED = 2


def main() -> None:
    """Draw the plan on the left, the bills of the methods on the right."""
    rectangles = generate(100, seed=SEED)
    plans = {method: merge(rectangles, BASE, method) for method in ("none", "clusters", "pairs", "directed")}
    bound = lower_bound(rectangles, BASE)
    figure, (left, right) = plt.subplots(1, 2, figsize=(9.5, 4.6), width_ratios=[1, 1])
    best = plans["directed"]
    shared = [group for group in best.groups if len(group) > 1]
    for k, channel in enumerate(channels(rectangles, best.groups)):
        if len(best.groups[k]) > 1:
            x1, y1, x2, y2 = channel.regions[0]
            left.add_patch(Rectangle((x1, y1), x2 - x1, y2 - y1, facecolor=f"C{k % 10}", alpha=0.25, linewidth=0))
    for x1, y1, x2, y2 in rectangles:
        left.add_patch(Rectangle((x1, y1), x2 - x1, y2 - y1, fill=False, linewidth=0.6, edgecolor="black"))
    alone = len(best.groups) - len(shared)
    left.set(xlim=(0, 400), ylim=(0, 400), aspect="equal")
    left.set_title(f"{len(shared)} shared channels (coloured), {alone} of one subscription", fontsize=9)
    bottom = dict.fromkeys(plans, 0.0)
    for part in ("channels", "transfer", "waste"):
        heights = [getattr(cost_breakdown(rectangles, plan.groups, BASE), part) / 1000 for plan in plans.values()]
        right.bar(list(plans), heights, bottom=list(bottom.values()), label=part)
        bottom = {method: bottom[method] + height for method, height in zip(plans, heights, strict=True)}
    right.axhline(bound / 1000, color="black", linewidth=0.8, linestyle="--", label="no plan is cheaper")
    none = plans["none"].cost
    for method, plan in plans.items():
        off = distance(plan.cost, bound, none)
        print(f"{method:<9} {plan.cost:10.0f}  {len(plan.groups):3} channels  Distance {off:6.2f} %")
        right.annotate(f"{off:.2f} %", (method, bottom[method]), ha="center", va="bottom", fontsize=8)
    right.set_title("cost (thousands); above: Distance to the optimum", fontsize=9)
    right.set_ylim(0, 1.1 * max(bottom.values()))
    right.legend(fontsize=8, loc="center", framealpha=0.9)
    figure.tight_layout()
    figure.savefig(Path(__file__).parents[1] / "merging.png", dpi=110)


if __name__ == "__main__":
    main()
