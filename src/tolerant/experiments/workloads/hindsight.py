"""Computes what was possible with the trace known: the best fixed widths, and the fewest constant pieces
(`docs/design/filters.md` §5).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from tolerant.filters.constraints import Terms, constraints_of
from tolerant.filters.ladder import RUNGS
from tolerant.filters.prices import find_targets_at, initial_rates, price_workspace
from tolerant.kernels.compiled import compiled
from tolerant.queries import Aggregate
from tolerant.traces import Trace


def static_cost(trace: Trace, queries: Sequence[Aggregate], warmup: int = 0) -> int:
    """Count the updates of the best fixed widths, chosen from what each width would have sent."""
    return _cost(trace, queries, warmup, clairvoyant=False)


def clairvoyant_cost(trace: Trace, queries: Sequence[Aggregate], warmup: int = 0) -> int:
    """Count the updates of sources that know the future and cut it into the fewest pieces of constant answer."""
    return _cost(trace, queries, warmup, clairvoyant=True)


def _cost(trace: Trace, queries: Sequence[Aggregate], warmup: int, clairvoyant: bool) -> int:
    values = trace.filled()
    n, ticks = len(trace.items), float(max(trace.ticks - warmup, 1))
    place = {item: k for k, item in enumerate(trace.items)}
    rows = constraints_of(
        [
            Terms(q.fn, np.array([place[i] for i in q.weights]), np.array(list(q.weights.values()), float), q.within)
            for q in queries
        ],
        n,
    )
    units = np.where(rows.unqueried, 0.0, rows.uniform)
    known, space = initial_rates(rows.uniform, np.ones(n)), price_workspace(n)
    rates = space.rates[:, ::2]
    for rung in range(RUNGS):
        widths = units * (2.0 ** ((rung - 9) / 2) if rung else 0.0)
        sent = count_sent(values, widths, warmup, clairvoyant)
        # A wider filter never counts as more updates, and never as none: curves are interpolated by ratios of rungs.
        rate = np.maximum(sent, 1e-3) / ticks
        rates[:, rung] = rate if rung == 0 else np.minimum(rate, rates[:, rung - 1])
    find_targets_at(rows.arrays, known, rows.uniform, rows.adaptable, space)
    best = np.where(rows.adaptable, space.target, rows.caps)
    # Between rungs a curve is only an estimate; where it misled, equal widths are better.
    return int(min(count_sent(values, widths, warmup, clairvoyant).sum() for widths in (best, rows.uniform)))


@compiled
def count_sent(
    values: NDArray[np.float64], widths: NDArray[np.float64], warmup: int, clairvoyant: bool
) -> NDArray[np.float64]:
    """Count the updates of every item from the tick `warmup` on, in a filter of fixed width; int as float64[items].

    clairvoyant: a new piece begins when the values since the last no longer fit the width.
    """
    ticks, n = values.shape
    sent = np.zeros(n)
    low, high = values[0].copy(), values[0].copy()
    for tick in range(1, ticks):
        for item in range(n):
            value = values[tick, item]
            if np.isnan(low[item]):
                low[item] = high[item] = value
            if clairvoyant:
                low[item], high[item] = min(low[item], value), max(high[item], value)
                left = high[item] - low[item] > widths[item]
            else:
                left = abs(value - low[item]) > widths[item] / 2
            if left:
                low[item] = high[item] = value
                sent[item] += tick >= warmup
    return sent
