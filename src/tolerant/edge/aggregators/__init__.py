"""Aggregators: processes at the edge that keep copies of items within bounds and answer parts of queries
(`docs/design/planning.md` §6). `Aggregator` runs one on a log; `AggregatorCore` is its logic, without threads, clocks
or I/O.
"""

from tolerant.edge.aggregators.aggregator import Aggregator
from tolerant.edge.aggregators.aggregator_core import AggregatorCore

__all__ = ["Aggregator", "AggregatorCore"]
