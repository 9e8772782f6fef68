"""Puts overlapping subscriptions on shared channels: `python subscription_merging.py`."""

from __future__ import annotations

import numpy as np

from tolerant.merging import Costs, merge


def main(subscribers: int = 200) -> tuple[float, float]:
    """Print and return the cost of shared channels, and of a channel for each subscriber."""
    rng = np.random.default_rng(3)
    centres = rng.normal(rng.choice([20.0, 50.0, 80.0], (subscribers, 2)), 3.0)
    rectangles = np.hstack([centres - 4, centres + 4])
    costs = Costs(channel=20, transfer=1, waste=0.01)
    shared, alone = merge(rectangles, costs), merge(rectangles, costs, "none")
    print(
        f"{subscribers} subscriptions on {len(shared.groups)} channels: {shared.cost:,.0f} instead of {alone.cost:,.0f}"
    )
    return shared.cost, alone.cost


if __name__ == "__main__":
    main()
