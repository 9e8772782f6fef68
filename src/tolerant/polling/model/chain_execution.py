"""Executes the chain from tick to tick: one random path, whose spread causes the pulls (`docs/design/polling.md`
§2.3).
"""

from __future__ import annotations

import numpy as np

from tolerant.kernels.compiled import compiled_no_refcount, inlined_no_refcount
from tolerant.kernels.random import bits_at
from tolerant.polling.model.chain import next_state, propagate
from tolerant.polling.poller_arrays import Chains, Floats, Record, Records


@inlined_no_refcount
def restart(item: Record, spread: Floats, i: int) -> None:
    """Reset the chain to its state at the last pull. spread: empty, or the distributions of all items."""
    item.running = item.learned
    item.drift = 0.0
    item.stepped = item.last
    if spread.size > 0:
        spread[i] = 0.0
        spread[i, item.learned] = 1.0


@inlined_no_refcount
def execute(item: Record, counts: Floats, sums: Floats, spread: Floats, i: int, tick: int) -> None:
    """Advance the chain to `tick`; its draws depend on item and tick alone. The arrays are those of `Chains`."""
    if spread.size > 0:
        _propagate_to(item, counts, sums, spread, i, tick)
        return
    half = sums.shape[1] // 2
    for t in range(item.stepped + 1, tick + 1):
        state = item.running
        if sums[i, state] > 0.0:
            uniform = (bits_at(item.key, np.uint64(t)) >> np.uint64(11)) * 2.0**-53
            state = next_state(counts, i, state, uniform * sums[i, state])
            item.running = state
        item.drift += item.spacing * (state - half)
    item.stepped = max(item.stepped, tick)


@compiled_no_refcount
def _propagate_to(item: Record, counts: Floats, sums: Floats, spread: Floats, i: int, tick: int) -> None:
    for _ in range(item.stepped + 1, tick + 1):
        item.drift += item.spacing * propagate(counts[i], sums[i], spread[i])
    item.stepped = max(item.stepped, tick)


@compiled_no_refcount
def advance(items: Records, chains: Chains, tick: int) -> None:
    """Advance every chain to `tick` and predict every change (8)."""
    counts, sums, spread = chains.counts, chains.sums, chains.spread
    for i in range(len(items)):
        item = items[i]
        item.predicted = 0.0
        if 0 <= item.last < tick:
            execute(item, counts, sums, spread, i, tick)
            item.predicted = item.drift + (tick - item.last) * item.bias
