"""Aggregators: processes at the edge that hold items within bounds and answer parts of queries (`specs/3-planning.md`
§6). `Aggregator` runs one on a log; `AggregatorCore` is what it does, without threads, clocks or I/O.
"""

from tolerant.edge.aggregating.aggregator import Aggregator
from tolerant.edge.aggregating.core import AggregatorCore

__all__ = ["Aggregator", "AggregatorCore"]
