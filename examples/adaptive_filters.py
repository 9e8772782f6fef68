"""Compares what the filter policies send for one average over a hundred hosts: `python adaptive_filters.py`."""

from __future__ import annotations

from tolerant.filters import simulate
from tolerant.queries import Aggregate
from tolerant.traces import random_walk


def main(items: int = 100, ticks: int = 2_000) -> dict[str, float]:
    """Print and return the messages of each policy."""
    steps = [5.0 if n % 10 == 0 else 0.2 for n in range(items)]  # one host in ten is busy
    trace = random_walk([f"host-{n}" for n in range(items)], ticks, steps, seed=1)
    load = Aggregate.over("load", "avg", trace.items, within=2)
    sent = {}
    for policy in ("exact", "uniform", "adaptive", "predictive"):
        result = simulate(trace, [load], policy)
        sent[policy] = result.cost
        print(f"{policy:<12}{result.cost:>10,.0f} messages")
    return sent


if __name__ == "__main__":
    main()
