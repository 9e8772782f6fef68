"""What sharing channels comes to, for `tolerant explain`: the bill of a channel table a period, channel by channel."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tolerant.kinds.ranges.sharing import Sharing
from tolerant.merging import Costs, RowCounts, lower_bound
from tolerant.merging.optimum import components
from tolerant.merging.pricing import Pricing
from tolerant.merging.units import collapsed

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

CHANNELS = 200
"""Channels that are listed, at most: those with most members."""

RECTANGLES = 1000
"""Subscriptions that are listed, at most, evenly over all: enough for a picture."""


PROVED = 200
"""Subscriptions, at most, for which a bound is worked out, each time that the status is said."""

TOGETHER = 12
"""Of their different ranges, those at most that may belong together: a few milliseconds."""


@dataclass(frozen=True, eq=False)
class Carried:
    """What a group's channels carry: disjoint `regions` float64[r, 2d], and for each the rows per period, float64[r],
    the channel, int64[r] (any numbers), and the number of subscribers that receive it, int64[r].
    """

    regions: Floats
    rows: Floats
    channels: Integers
    takers: Integers


def explanation(
    sharing: Sharing,
    size: RowCounts | None,
    rectangles: Floats,
    groups: Integers,
    carried: dict[int, Carried],
    columns: tuple[str, ...],
) -> dict[str, Any]:
    """Returns the costs per period of the channels of these subscriptions, in the currency of the prices.

    `rectangles` float64[n, 2d] with the group of each, int64[n] (below 0: on a channel of its own); `carried`: the
    channels of each of the others. Waste: rows that a subscriber receives and did not ask for.
    """
    costs = Costs(sharing.channel, sharing.transfer, sharing.waste)
    own = np.zeros(len(rectangles)) if size is None else size(rectangles)
    numbers, first, of = np.unique(groups, return_index=True, return_inverse=True)
    members = np.bincount(of, minlength=len(numbers))
    wanted = np.bincount(of, own, minlength=len(numbers))
    sent, received, channels, shared = wanted.copy(), wanted.copy(), np.ones(len(numbers)), 0
    for place in np.flatnonzero(numbers >= 0).tolist():
        carried_rows = carried[int(numbers[place])]
        taken = carried_rows.takers > 0
        rows = np.where(taken, carried_rows.rows, 0.0)
        sent[place], received[place] = rows.sum(), (rows * carried_rows.takers).sum()
        channels[place] = len(np.unique(carried_rows.channels[taken]))
        shared += len(np.unique(carried_rows.channels[carried_rows.takers > 1]))
    waste = np.maximum(received - wanted, 0.0)
    cost = costs.channel * channels + costs.transfer * sent + costs.waste * waste
    apart = costs.channel * members + costs.transfer * wanted
    listed = np.lexsort((numbers, -members))[:CHANNELS]
    chosen = np.unique(np.linspace(0, len(groups) - 1, min(len(groups), RECTANGLES)).astype(np.int64))
    return {
        "prices": asdict(sharing),
        "columns": list(columns),
        "subscriptions": len(groups),
        "channels": int(channels.sum()),
        "shared": shared,
        "rows_apart": float(wanted.sum()),
        "rows_sent": float(sent.sum()),
        "rows_in_vain": float(waste.sum()),
        "cost": float(cost.sum()),
        "cost_apart": float(apart.sum()),
        "lower_bound": None if size is None else bound(sharing, size, rectangles),
        "bill": {
            "channels": float(costs.channel * channels.sum()),
            "transfer": float(costs.transfer * sent.sum()),
            "waste": float(costs.waste * waste.sum()),
        },
        "largest": [
            {
                "channel": int(numbers[at]),
                "channels": int(channels[at]),
                "members": int(members[at]),
                "regions": _regions(carried, int(numbers[at]), rectangles[first[at]]),
                "rows": float(sent[at]),
                "in_vain": float(waste[at]),
                "saves": float(apart[at] - cost[at]),
            }
            for at in listed.tolist()
        ],
        "rectangles": [[int(groups[at]), *rectangles[at].tolist()] for at in chosen.tolist()],
    }


def _regions(carried: dict[int, Carried], group: int, own: Floats) -> Any:
    return carried[group].regions.tolist() if group >= 0 else [own.tolist()]


def bound(sharing: Sharing, size: RowCounts, rectangles: Floats) -> float | None:
    """What no grouping into boxes can cost less than, where that takes little time to find out."""
    if sharing.procedure != "box" or len(rectangles) > PROVED:
        return None
    costs = Costs(sharing.channel, sharing.transfer, sharing.waste)
    usable = rectangles[np.isfinite(rectangles).all(axis=1)]
    if max(map(len, components(Pricing(collapsed(usable), costs, size))), default=0) > TOGETHER:
        return None
    return lower_bound(usable, costs, size)
