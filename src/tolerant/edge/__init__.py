"""Runs beside the data: sources that send a value only when the promise needs it, tables, the host agent, the replayer.

`Source` is the door for applications with items, `Table` for those with rows. Inside, `SourceCore` is the protocol as a
pure state machine, `FilterBank` its filters as arrays; both can be read and tested without a log. `run_agent` and
`replay` are sources ready made, `load_table` fills a table from a file.
"""

from tolerant.edge.agent import HostMetrics, run_agent
from tolerant.edge.bank import FilterBank, FilterState
from tolerant.edge.carrier import ConflictWarning, SourceConflict, SourceError
from tolerant.edge.core import SourceCore
from tolerant.edge.definition import default_name, find_stream, find_table
from tolerant.edge.keys import ItemKey
from tolerant.edge.loading import Loaded, load_lookup, load_table
from tolerant.edge.replay import Replayed, replay
from tolerant.edge.source import Source
from tolerant.edge.table import Table

__all__ = [
    "ConflictWarning",
    "FilterBank",
    "FilterState",
    "HostMetrics",
    "ItemKey",
    "Loaded",
    "Replayed",
    "Source",
    "SourceConflict",
    "SourceCore",
    "SourceError",
    "Table",
    "default_name",
    "find_stream",
    "find_table",
    "load_lookup",
    "load_table",
    "replay",
    "run_agent",
]
