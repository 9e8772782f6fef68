"""Generates the kinds of data on which policies are compared (`docs/design/filters.md` §5)."""

from __future__ import annotations

import numpy as np

from tolerant.experiments.workloads.packet_traffic import bursty_traffic
from tolerant.queries import Aggregate
from tolerant.traces import Trace

KINDS = ("walk", "lognormal", "season", "noisy", "bursty", "traffic")
"""walk: steps of ±s, s uniform. lognormal: Gaussian steps of very different sizes. season: sinusoids with a little
noise and drift. noisy: white noise on a slow walk. bursty: a walk whose steps are 60 times as long in bursts. traffic:
on/off heavy tails seen through a moving average."""


def generated(kind: str, items: int, ticks: int, seed: int = 0) -> Trace:
    """Generate a trace of one of the kinds.

    >>> generated("season", items=3, ticks=50).values.shape
    (50, 3)
    """
    if kind not in KINDS:
        raise ValueError(f"kind must be one of {', '.join(KINDS)}, got {kind!r}")
    rng = np.random.default_rng((seed, KINDS.index(kind)))
    noise = rng.normal(size=(ticks, items))
    at = np.arange(ticks)[:, None]
    if kind == "walk":
        values = (rng.choice([-1.0, 1.0], (ticks, items)) * rng.uniform(0, 1, items)).cumsum(axis=0)
    elif kind == "lognormal":
        values = (noise * rng.lognormal(0, 1.5, items)).cumsum(axis=0)
    elif kind == "season":
        size, length = 10 * rng.lognormal(0, 1, items), rng.uniform(200, 1000, items)
        wave = np.sin(2 * np.pi * (at / length + rng.uniform(0, 1, items)))
        values = size * (wave + 0.01 * noise + 0.001 * at * rng.normal(size=items))
    elif kind == "noisy":
        values = rng.lognormal(0, 1, items) * (noise + 0.01 * rng.normal(size=(ticks, items)).cumsum(axis=0))
    elif kind == "bursty":
        steps = rng.uniform(0.1, 1, items) * np.column_stack([_bursts(rng, ticks) for _ in range(items)])
        values = (noise * steps).cumsum(axis=0)
    else:
        values = bursty_traffic([150.0 * rank**-1.5 for rank in range(1, items + 1)], ticks, on=30, off=270, seed=seed)
    return Trace(tuple(f"item{k}" for k in range(items)), values)


def _bursts(rng: np.random.Generator, ticks: int) -> np.ndarray:
    """Return 1, and 60 in bursts of about 200 ticks that begin about every 600."""
    out = np.ones(ticks)
    at = int(rng.exponential(400))
    while at < ticks:
        length = int(rng.exponential(200)) + 1
        out[at : at + length] = 60.0
        at += length + int(rng.exponential(400)) + 1
    return out


def step_of(trace: Trace) -> float:
    """Return the mean over the items of their r.m.s. change per tick, the unit of tolerances here."""
    return float(np.sqrt((np.diff(trace.filled(), axis=0) ** 2).mean(axis=0)).mean())


def one_average(trace: Trace, delta: float) -> list[Aggregate]:
    """Return an average over all items, `delta` mean steps wide."""
    return [Aggregate.over("mean", "avg", trace.items, delta * step_of(trace) / 2)]


def averages(
    trace: Trace, delta: float, queries: int, sizes: tuple[int, int], widths: tuple[float, float], seed: int = 0
) -> list[Aggregate]:
    """Draw averages over random items: how many, of how many items each (both ends included), of what shares of
    `delta`.
    """
    rng = np.random.default_rng((seed, 99))
    within = delta * step_of(trace) / 2
    return [
        Aggregate.over(
            f"q{number}",
            "avg",
            [str(item) for item in rng.choice(trace.items, rng.integers(sizes[0], sizes[1] + 1), replace=False)],
            within * rng.uniform(*widths),
        )
        for number in range(queries)
    ]
