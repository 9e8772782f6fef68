"""Chains brought to another spacing of their states (`docs/design/polling.md` §5.6)."""

from __future__ import annotations

import numpy as np

from tolerant.polling.poller_arrays import Chains, Floats, Integers, Records


def rescale(items: Records, chains: Chains, before: Floats, which: Integers) -> None:
    """Map every state of the chains `which`, whose spacing was `before`, to the nearest one of their new spacing."""
    size = chains.sums.shape[1]
    half = size // 2
    steps = np.arange(size) - half
    for spacing, i in zip(before.tolist(), which.tolist(), strict=True):
        after = float(items["spacing"][i])
        if spacing == after:
            continue
        ratio = spacing / after if after > 0 else 0.0
        place = np.clip(np.floor(steps * ratio + 0.5), -half, half).astype(np.int64) + half
        counts = np.zeros((size, size))
        np.add.at(counts, (place[:, None], place[None, :]), chains.counts[i])
        chains.counts[i], chains.sums[i] = counts, counts.sum(axis=1)
        items["learned"][i], items["running"][i] = place[items["learned"][i]], place[items["running"][i]]
        if chains.spread.size:
            moved = np.zeros(size)
            np.add.at(moved, place, chains.spread[i])
            chains.spread[i] = moved
