"""Merging: decides which subscriptions share a channel.

Many people subscribe to overlapping ranges. `merge` groups subscriptions into channels, given the cost of a channel, of
a row sent and of a row received for nothing ([CBGM]); `channels` makes of a plan the regions that the server sends and
the headers by which each client keeps exactly its answer; `route` finds the channels of a row. `Merger` keeps a plan
while subscriptions are added and removed.

No pipeline uses what is in `tolerant.merging.offline`: `generate`, `cost_breakdown`, `distance`, `allocate` and
`overhearing`.
"""

from tolerant.merging.channel import Channel, channels, extracted, regions_of
from tolerant.merging.channel_changes import ChannelChanges
from tolerant.merging.clusters import clusters
from tolerant.merging.costs import Costs
from tolerant.merging.merge import Merged, merge
from tolerant.merging.merger import Merger
from tolerant.merging.offline.cost_breakdown import CostBreakdown, cost_breakdown, distance
from tolerant.merging.offline.generate import generate
from tolerant.merging.offline.physical_channels import allocate, overhearing
from tolerant.merging.optimum import lower_bound
from tolerant.merging.plan_costs import total_cost
from tolerant.merging.route import route
from tolerant.merging.row_rates import RowRates
from tolerant.merging.sizes import RowCounts, area, rows

__all__ = [
    "Channel",
    "ChannelChanges",
    "CostBreakdown",
    "Costs",
    "Merged",
    "Merger",
    "RowCounts",
    "RowRates",
    "allocate",
    "area",
    "channels",
    "clusters",
    "cost_breakdown",
    "distance",
    "extracted",
    "generate",
    "lower_bound",
    "merge",
    "overhearing",
    "regions_of",
    "route",
    "rows",
    "total_cost",
]
