"""The chain executed from tick to tick: one random path, whose spread is what makes pulls happen (§2.3)."""

from __future__ import annotations

import numpy as np

from tolerant.kernels.compiled import borrowing, inlined_borrowing
from tolerant.kernels.random import bits_at
from tolerant.polling.arrays import Chains, Floats, Record, Records
from tolerant.polling.chain import drawn, propagate


@inlined_borrowing
def restart(item: Record, spread: Floats, i: int) -> None:
    """Put the chain to where it was at the last pull. spread: empty, or the distributions of all items."""
    item.running = item.learned
    item.drift = 0.0
    item.stepped = item.last
    if spread.size > 0:
        spread[i] = 0.0
        spread[i, item.learned] = 1.0


@inlined_borrowing
def execute(item: Record, counts: Floats, sums: Floats, spread: Floats, i: int, tick: int) -> None:
    """Run the chain on to `tick`; its draws depend on item and tick alone. The arrays are those of `Chains`."""
    if spread.size > 0:
        _propagate_to(item, counts, sums, spread, i, tick)
        return
    half = sums.shape[1] // 2
    for t in range(item.stepped + 1, tick + 1):
        state = item.running
        if sums[i, state] > 0.0:
            uniform = (bits_at(item.key, np.uint64(t)) >> np.uint64(11)) * 2.0**-53
            state = drawn(counts, i, state, uniform * sums[i, state])
            item.running = state
        item.drift += item.spacing * (state - half)
    item.stepped = max(item.stepped, tick)


@borrowing
def _propagate_to(item: Record, counts: Floats, sums: Floats, spread: Floats, i: int, tick: int) -> None:
    for _ in range(item.stepped + 1, tick + 1):
        item.drift += item.spacing * propagate(counts[i], sums[i], spread[i])
    item.stepped = max(item.stepped, tick)


@borrowing
def advance(items: Records, chains: Chains, tick: int) -> None:
    """Bring every chain to `tick` and predict every change (8)."""
    counts, sums, spread = chains.counts, chains.sums, chains.spread
    for i in range(len(items)):
        item = items[i]
        item.predicted = 0.0
        if 0 <= item.last < tick:
            execute(item, counts, sums, spread, i, tick)
            item.predicted = item.drift + (tick - item.last) * item.bias
