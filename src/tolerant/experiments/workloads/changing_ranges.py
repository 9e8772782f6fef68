"""[DISS] Table 5.1: a table whose heights change, with spikes, and subscriptions to ranges of it.

[DISS]'s random walk, whose step depends on the current value, is not defined there. Redrawing the height uniformly is
such a chain and gives [DISS]'s numbers of messages; a walk of Gaussian steps, reflected, gives fewer, and can be
chosen.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
SIDE = 10_000.0
"""Both attributes lie in [0, SIDE]."""
_NEAR_ZERO = 1e-3


class ChangingTable(NamedTuple):
    """The initial rows of a table and its changes: ids, xs, ys of each, as `RangeMin` accepts them."""

    rows: tuple[NDArray[np.int64], Floats, Floats]
    changes: tuple[NDArray[np.int64], Floats, Floats]


def changing_rows(
    rows: int, events: int, *, spikes: float = 0.005, at_each: int = 1, walk: str | float = "redraw", seed: int = 0
) -> ChangingTable:
    """Draw `rows` rows, `at_each` of them at each x, and `events` changes of their heights.

    `spikes`: the share of events in which a height drops to almost 0; the next event restores it. `walk`: "redraw", or
    the standard deviation of a step. With m rows at each x a redraw is ignorable with probability 1 − 2/(m + 1).

    >>> table = changing_rows(100, 1_000, spikes=0.1)
    >>> bool(0.05 < np.mean(table.changes[2] < 0.001) < 0.15)
    True
    """
    if walk != "redraw" and isinstance(walk, str):
        raise ValueError(f"walk must be 'redraw' or a number, got {walk!r}")
    rng = np.random.default_rng((seed, rows, at_each))
    places: Floats = (rng.permutation(rows) // at_each * (SIDE * at_each / rows)).astype(np.float64)
    heights = rng.uniform(0, SIDE, rows)
    ids, drawn = rng.integers(0, rows, events), rng.uniform(0, SIDE, events)
    steps = rng.normal(0, 1, events) * (0.0 if isinstance(walk, str) else walk)
    spike, depth = (rng.random(events) < spikes).tolist(), _NEAR_ZERO * rng.random(events)
    current, new = heights.copy(), np.empty(events)
    restore = -1
    for n in range(events):
        if restore >= 0:
            ids[n], new[n], restore = restore, current[restore], -1
        elif spike[n]:
            new[n], restore = depth[n], int(ids[n])
        else:
            new[n] = drawn[n] if walk == "redraw" else _reflected(current[ids[n]] + steps[n])
            current[ids[n]] = new[n]
    return ChangingTable((np.arange(rows, dtype=np.int64), places, heights), (ids, places[ids], new))


def watched_ranges(count: int, *, seed: int = 0) -> tuple[Floats, Floats]:
    """Draw ranges with a midpoint N(5000, 1500) and a length |N(1000, 1000)|: x1s, x2s."""
    rng = np.random.default_rng((seed, count))
    middle, length = rng.normal(5000, 1500, count), np.abs(rng.normal(1000, 1000, count))
    return middle - length / 2, middle + length / 2


def narrow_ranges(count: int, *, seed: int = 0) -> tuple[Floats, Floats]:
    """Draw the ranges of Figure 5.8: a midpoint N(5000, 10000) kept inside the domain, a length N(50, 10)."""
    rng = np.random.default_rng((seed, count, 1))
    middle = np.zeros(0)
    while len(middle) < count:
        more = rng.normal(5000, 10_000, 2 * count)
        middle = np.append(middle, more[(more >= 0) & (more <= SIDE)])
    length = np.abs(rng.normal(50, 10, count))
    return middle[:count] - length / 2, middle[:count] + length / 2


def stocks(events: int, *, count: int = 3053, seed: int = 0) -> ChangingTable:
    """Draw a stand-in for [DISS]'s recorded stocks: x the mean recommendation in [1, 5], y a price/earnings ratio.

    Recommendations are N(2.5, 0.6) rounded to 0.01, so that many stocks share one; ratios are lognormal(2.8, 0.7) and
    walk in steps of 2 %.
    """
    rng = np.random.default_rng((seed, count, 2))
    places: Floats = np.round(np.clip(rng.normal(2.5, 0.6, count), 1, 5), 2).astype(np.float64)
    heights = rng.lognormal(2.8, 0.7, count)
    ids, steps = rng.integers(0, count, events), np.exp(0.02 * rng.normal(0, 1, events))
    current, new = heights.copy(), np.empty(events)
    for n in range(events):
        current[ids[n]] *= steps[n]
        new[n] = current[ids[n]]
    return ChangingTable((np.arange(count, dtype=np.int64), places, heights), (ids, places[ids], new))


def watched_stocks(count: int, *, seed: int = 0) -> tuple[Floats, Floats]:
    """Draw ranges of recommendations, placed and sized over [1, 5] as Table 5.1's are over their domain."""
    low, high = watched_ranges(count, seed=seed)
    return 1 + 4 * low / SIDE, 1 + 4 * high / SIDE


def _reflected(value: float) -> float:
    value = abs(value) % (2 * SIDE)
    return min(value, 2 * SIDE - value)
