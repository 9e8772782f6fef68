"""Spreads band joins over shards by their subscriptions: `WITH (shards = n)`.

A group of bands that share a point is a contiguous range in the order of their low ends (`docs/design/joins.md` §2.2),
so a shard that has a range of that order has a range of the groups; fewer than n groups are split between shards. The
limits of the ranges are chosen again whenever the number of subscriptions has doubled. Existing subscriptions keep
their shard: all rows of a subscription come from one shard, in its order.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tolerant.kernels.snapshots import Fields, Restorable
from tolerant.pipeline.shard_range import Part

Floats = NDArray[np.float64]


class RangePartitioner(Restorable):
    """Which new bands are a shard's own; a function of all that have come before, so all shards know alike.

    >>> first, second = (RangePartitioner(Part(shard, 2)) for shard in range(2))
    >>> first.place(np.zeros(0), np.array([3.0, 1.0, 2.0, 4.0])).tolist()
    [False, True, True, False]
    >>> second.place(np.zeros(0), np.array([3.0, 1.0, 2.0, 4.0])).tolist()
    [True, False, False, True]
    """

    FIELDS = Fields("_cuts", "_drawn")

    def __init__(self, part: Part) -> None:
        self._part = part
        self._cuts: Floats = np.zeros(0)
        self._drawn = 0

    def place(self, existing: Floats, lows: Floats) -> NDArray[np.bool_]:
        """Which of the bands that come, with these low ends, are this shard's; `held`: the low ends that there are."""
        if len(existing) + len(lows) > 2 * self._drawn:
            self._draw(np.sort(np.concatenate([existing, lows])))
        return np.asarray(np.searchsorted(self._cuts, lows, side="right") == self._part.shard)

    def _draw(self, lows: Floats) -> None:
        shards = self._part.shards
        self._cuts, self._drawn = lows[np.arange(1, shards) * len(lows) // shards], len(lows)
