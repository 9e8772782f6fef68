"""Networks of aggregators, portfolio queries and prices like those of [GR07]'s experiments (§5)."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from itertools import combinations

import numpy as np

from tolerant.experiments.workloads.recorded import recorded
from tolerant.planning import Network
from tolerant.queries import Aggregate
from tolerant.traces import Trace

STEP = 0.006
"""Median move of a price per minute, where prices start at 30: [GR07]'s bounds are in this unit."""

RECORDED = {"minute prices": "markets-minute", "weather data": "weather-hourly", "daily stocks": "stocks-daily"}

OTHERS = ("weather data", "daily stocks")
"""Traces unlike [GR07]'s: full runs report them, and its claims are not judged by them."""


def traces(*names: str) -> list[str]:
    """Return those of the named traces that are available; "walk" always is."""
    return [name for name in names if name == "walk" or recorded(RECORDED[name]) is not None]


@lru_cache(maxsize=8)
def trace_of(name: str, items: int = 25, ticks: int = 12_000, spread: float = 0.8) -> Trace:
    """Return a trace of at most so many items and ticks, in a unit in which the median item moves 0.006 per tick.

    "walk": normal steps whose sizes are log-normal. Recorded ones: prices are scaled to start at 30, others by their
    median move.
    """
    if name == "walk":
        rng = np.random.default_rng(17)
        sizes = STEP * np.sqrt(np.pi / 2) * rng.lognormal(0, spread, items)
        steps = rng.normal(size=(ticks, items)) * sizes
        return Trace(tuple(f"item{k}" for k in range(items)), 30 + np.cumsum(steps, axis=0))
    trace = recorded(RECORDED[name])
    if trace is None:
        raise ValueError(f"the recorded trace {RECORDED[name]!r} is not available; TOLERANT_DATA names its folder")
    values = trace.values[:ticks, :items]
    if name == "minute prices":
        values = 30 * values / values[0]
    else:
        values = values * (STEP / np.median(np.abs(np.diff(values, axis=0)).mean(axis=0)))
    return Trace(trace.items[:items], values)


def halves(trace: Trace) -> tuple[Trace, Trace]:
    """Return the first half, to learn from, and the second, to run on."""
    middle = trace.ticks // 2
    return Trace(trace.items, trace.values[:middle]), Trace(trace.items, trace.values[middle:])


def random_network(
    items: Sequence[str], low: float, high: float, *, aggregators: int = 25, most: int = 10, seed: int = 0
) -> Network:
    """Draw aggregators that serve 1 to `most` items each, within U(low, high); every item is served."""
    rng = np.random.default_rng((seed, 1))
    bounds: dict[str, dict[str, float]] = {}
    for number in range(aggregators):
        served = rng.choice(len(items), rng.integers(1, min(most, len(items)) + 1), replace=False)
        bounds[f"D{number}"] = {items[k]: float(rng.uniform(low, high)) for k in sorted(served.tolist())}
    for number, item in enumerate(items):
        if not any(item in served for served in bounds.values()):
            bounds[f"D{number % aggregators}"][item] = float(rng.uniform(low, high))
    return Network(bounds)


def all_pairs(items: Sequence[str], within: float) -> Network:
    """Return a network with an aggregator for every pair of items."""
    return Network({f"{first}+{second}": {first: within, second: within} for first, second in combinations(items, 2)})


def portfolios(
    items: Sequence[str],
    count: int,
    within: float,
    *,
    sizes: tuple[int, int] = (1, 10),
    weights: tuple[float, float] = (2.0, 10.0),
    seed: int = 0,
) -> list[Aggregate]:
    """Draw weighted sums of randomly chosen items, as many as `sizes` says, at weights U(weights)."""
    rng = np.random.default_rng((seed, 2))
    queries = []
    for number in range(count):
        chosen = rng.choice(len(items), rng.integers(sizes[0], sizes[1] + 1), replace=False)
        shares = {items[k]: float(rng.uniform(*weights)) for k in chosen.tolist()}
        queries.append(Aggregate(f"portfolio-{number}", "sum", shares, within))
    return queries
