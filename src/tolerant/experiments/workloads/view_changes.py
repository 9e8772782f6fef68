"""Generates changes of a view's tables as in [DISS], chapter 2, and compares schedules on them."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from tolerant.views import Linear, audit, schedule

LINES = (Linear(0.25, 0.5), Linear(0.01, 7.0))
"""One cost that grows with the rows and one that hardly does, as in [DISS]'s Figure 2.4; seconds."""

Cost = Callable[[int], float]


def uniform_changes(ticks: int, tables: int = 2) -> NDArray[np.int64]:
    """Return one change per tick and table, int64[ticks, tables]."""
    return np.ones((ticks, tables), np.int64)


def uneven_changes(ticks: int, chance: float, sigma: float, tables: int = 2, seed: int = 0) -> NDArray[np.int64]:
    """Draw with the given chance Y | Y > 0 changes, Y = round(N(1, σ²)), otherwise none (Figure 2.7).

    >>> uneven_changes(10_000, 0.5, 1.0).mean().round(1)
    np.float64(0.8)
    """
    rng = np.random.default_rng((seed, 27))
    sizes = np.zeros((ticks, tables), np.int64)
    missing = sizes == 0
    while missing.any():
        drawn = np.rint(rng.normal(1.0, sigma, int(missing.sum()))).astype(np.int64)
        sizes[missing] = np.maximum(drawn, 0)
        missing = sizes == 0
    return np.where(rng.random((ticks, tables)) < chance, sizes, 0)


def random_problem(seed: int, loads: tuple[float, float]) -> tuple[list[Cost], NDArray[np.int64], float]:
    """Draw costs of 2 or 3 tables (straight lines or square roots), Poisson changes over 50 to 100 ticks, and a limit.

    The limit is the sum of the setups times a number drawn from `loads`.
    """
    rng = np.random.default_rng((seed, 5))
    n = int(rng.integers(2, 4))
    pairs = rng.uniform((0.05, 0.5), (1.0, 6.0), (n, 2)).tolist()
    costs: list[Cost] = [Linear(*pair) if seed % 2 else _root(*pair) for pair in pairs]
    arrivals = rng.poisson(rng.uniform(0.3, 2.0, n), (int(rng.integers(50, 101)), n))
    return costs, arrivals, float(rng.uniform(*loads) * sum(setup for _, setup in pairs))


def _root(scale: float, setup: float) -> Cost:
    return lambda rows: scale * math.sqrt(rows) + setup if rows else 0.0


def against_the_optimum(
    costs: Sequence[Cost],
    arrivals: NDArray[np.int64],
    limit: float,
    methods: Sequence[str],
    options: Mapping[str, int] | None = None,
) -> list[dict[str, float | int | str]]:
    """Return of each method its cost, its ratio to the optimum, its actions, and whether the limit was ever broken."""
    best = schedule(costs, arrivals, limit, "optimal")
    rows: list[dict[str, float | int | str]] = []
    for method in methods:
        plan = best if method == "optimal" else schedule(costs, arrivals, limit, method, **(options or {}))
        broken = int(not audit(costs, arrivals, limit, plan.actions).valid)
        rows.append(
            {
                "method": method,
                "cost": plan.cost,
                "ratio": plan.cost / best.cost if best.cost else 1.0,
                "actions": len(plan.actions),
                "broken": broken,
                "proved": int(best.proved),
            }
        )
    return rows
