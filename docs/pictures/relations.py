"""Makes docs/relations.png: the time to find who is concerned by a row, as subscriptions become many."""

from __future__ import annotations

import time
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
from numpy.typing import NDArray

from tolerant.relations import ColumnRange, RangeSelection

SIZES = [1_000, 10_000, 100_000, 1_000_000]
ROWS = 2_000
CONCERNED = 10  # subscriptions that a row concerns, on average


def main() -> None:
    """Draw ours beside a comparison of every row with every subscription."""
    ours, brute = [], []
    for size in SIZES:
        rng = np.random.default_rng(size)
        low = rng.uniform(0, 1, size)
        high = low + 2 * rng.uniform(0, CONCERNED / size, size)
        index = RangeSelection([ColumnRange("x", "DOUBLE", "low", "high")])
        index.add_many(np.arange(size), {"low": low, "high": high})
        x = rng.uniform(0, 1, ROWS)
        index.matching({"x": x[:10]})  # makes the trees, compiles the loops
        ours.append(seconds(lambda index=index, x=x: index.matching({"x": x})) / ROWS)
        some = x[: max(5, 2_000_000 // size)]
        brute.append(seconds(lambda low=low, high=high, some=some: compared(low, high, some)) / len(some))
        print(f"{size:>9,} subscriptions: {ours[-1] * 1e6:8.2f} µs a row, compared with all {brute[-1] * 1e6:10.2f} µs")
    figure, panel = plt.subplots(figsize=(6, 3.6))
    panel.loglog(SIZES, np.array(brute) * 1e6, marker="o", label="compared with every one (NumPy)")
    panel.loglog(SIZES, np.array(ours) * 1e6, marker="o", label="RangeSelection")
    panel.set(
        xlabel="subscriptions", ylabel="µs a row", title=f"Who is concerned by a row ({CONCERNED} are, on average)"
    )
    panel.grid(alpha=0.3)
    panel.legend()
    figure.tight_layout()
    figure.savefig(Path(__file__).parents[1] / "relations.png", dpi=110)


def compared(low: NDArray[np.float64], high: NDArray[np.float64], x: NDArray[np.float64]) -> int:
    """How many pairs there are, every row held against every subscription."""
    return sum(len(np.flatnonzero((low <= value) & (value <= high))) for value in x)


def seconds(work: object) -> float:
    """The best of three."""
    best = np.inf
    for _ in range(3):
        begun = time.perf_counter()
        work()
        best = min(best, time.perf_counter() - begun)
    return float(best)


if __name__ == "__main__":
    main()
