"""Merging: subscriptions that share channels.

Many people subscribe to overlapping ranges. `merge` decides who shares a channel, given what a channel, a row sent and
a row received in vain cost; `channels` makes of a plan what the server sends and the headers by which each client keeps
exactly its answer, `route` says which rows go where. `Merger` keeps a plan while subscriptions come and go.
"""

from tolerant.merging.changes import Changes
from tolerant.merging.channels import Channel, channels, extracted, regions_of
from tolerant.merging.clusters import clusters
from tolerant.merging.costs import Costs
from tolerant.merging.generate import generate
from tolerant.merging.merge import Merged, merge
from tolerant.merging.merger import Merger
from tolerant.merging.optimum import lower_bound
from tolerant.merging.physical import allocate, overhearing
from tolerant.merging.routing import route
from tolerant.merging.seen import RowsSeen
from tolerant.merging.sizes import RowCounts, area, rows
from tolerant.merging.totals import Bill, bill, distance, total_cost

__all__ = [
    "Bill",
    "Changes",
    "Channel",
    "Costs",
    "Merged",
    "Merger",
    "RowCounts",
    "RowsSeen",
    "allocate",
    "area",
    "bill",
    "channels",
    "clusters",
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
