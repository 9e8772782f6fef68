"""What sharing channels comes to, for `tolerant explain`: the bill of a channel table a period, channel by channel."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tolerant.merging import Costs, RowCounts
from tolerant.sql.statements import Sharing

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

CHANNELS = 200
"""Channels that are listed, at most: those with most members."""

RECTANGLES = 1000
"""Subscriptions that are listed, at most, evenly over all: enough for a picture."""


def explanation(
    sharing: Sharing,
    size: RowCounts | None,
    rectangles: Floats,
    channels: Integers,
    regions: dict[int, Floats],
    columns: tuple[str, ...],
) -> dict[str, Any]:
    """The bill of the channels on which these subscriptions are, in the currency of the prices, a period.

    `rectangles` float64[n, 2d] with the channel of each, int64[n] (below 0: its own); `regions`: what each of the
    shared channels carries. Rows in vain: those that a subscriber is sent and does not want.
    """
    costs = Costs(sharing.channel, sharing.transfer, sharing.waste)
    own = np.zeros(len(rectangles)) if size is None else size(rectangles)
    numbers, of = np.unique(channels, return_inverse=True)
    members = np.bincount(of, minlength=len(numbers))
    wanted = np.bincount(of, own, minlength=len(numbers))
    carried, pieces = wanted.copy(), np.ones(len(numbers))
    for place in np.flatnonzero(numbers >= 0).tolist():
        held = regions[int(numbers[place])]
        carried[place] = 0.0 if size is None else float(size(held).sum())
        pieces[place] = len(held) if sharing.procedure == "pieces" else 1
    waste = np.zeros(len(numbers)) if sharing.procedure == "pieces" else np.maximum(members * carried - wanted, 0.0)
    waste[numbers < 0] = 0.0
    cost = costs.channel * pieces + costs.transfer * carried + costs.waste * waste
    apart = costs.channel * members + costs.transfer * wanted
    listed = np.lexsort((numbers, -members))[:CHANNELS]
    chosen = np.unique(np.linspace(0, len(channels) - 1, min(len(channels), RECTANGLES)).astype(np.int64))
    return {
        "prices": asdict(sharing),
        "columns": list(columns),
        "subscriptions": len(channels),
        "channels": len(numbers),
        "shared": int(np.count_nonzero(members > 1)),
        "rows_apart": float(wanted.sum()),
        "rows_sent": float(carried.sum()),
        "rows_in_vain": float(waste.sum()),
        "cost": float(cost.sum()),
        "cost_apart": float(apart.sum()),
        "largest": [
            {
                "channel": int(numbers[at]),
                "members": int(members[at]),
                "regions": regions[int(numbers[at])].tolist() if numbers[at] >= 0 else rectangles[of == at].tolist(),
                "rows": float(carried[at]),
                "in_vain": float(waste[at]),
                "saves": float(apart[at] - cost[at]),
            }
            for at in listed.tolist()
        ],
        "rectangles": [[int(channels[at]), *rectangles[at].tolist()] for at in chosen.tolist()],
    }
