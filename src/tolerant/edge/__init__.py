"""Runs beside the data: sources that send a value only when the promise needs it, tables, the host agent, the replayer.

Applications feed items with `Source` and rows with `Table`. Inside, `SourceCore` is the protocol as a pure state
machine and `FilterArray` its filters as arrays; both can be read and tested without a log. `run_agent` and `replay` are
ready-made sources, `load_table` fills a table from a file.
"""

from typing import TYPE_CHECKING

from tolerant.lazy_names import lazy_names

if TYPE_CHECKING:
    from tolerant.edge.background_sender import ConflictWarning, SourceConflict, SourceError
    from tolerant.edge.definition import default_name, find_stream, find_table
    from tolerant.edge.filter_array import FilterArray, FilterState
    from tolerant.edge.host_agent import HostMetrics, run_agent
    from tolerant.edge.keys import ItemKey
    from tolerant.edge.source import Source
    from tolerant.edge.source_core import SourceCore
    from tolerant.edge.table import Table
    from tolerant.edge.table_files import Loaded, load_lookup, load_table
    from tolerant.edge.trace_replay import ReplaySummary, replay

__all__ = [
    "ConflictWarning",
    "FilterArray",
    "FilterState",
    "HostMetrics",
    "ItemKey",
    "Loaded",
    "ReplaySummary",
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

__getattr__ = lazy_names(
    __name__,
    {
        "tolerant.edge.background_sender": ["ConflictWarning", "SourceConflict", "SourceError"],
        "tolerant.edge.definition": ["default_name", "find_stream", "find_table"],
        "tolerant.edge.filter_array": ["FilterArray", "FilterState"],
        "tolerant.edge.host_agent": ["HostMetrics", "run_agent"],
        "tolerant.edge.keys": ["ItemKey"],
        "tolerant.edge.source": ["Source"],
        "tolerant.edge.source_core": ["SourceCore"],
        "tolerant.edge.table": ["Table"],
        "tolerant.edge.table_files": ["Loaded", "load_lookup", "load_table"],
        "tolerant.edge.trace_replay": ["ReplaySummary", "replay"],
    },
)
