"""Runs beside the data: sources that send a value only when the promise needs it, the host agent, the replayer.

`Source` is the door for applications. Inside, `SourceCore` is the protocol as a pure state machine, `FilterBank` its
filters as arrays; both can be read and tested without a log. `run_agent` and `replay` are sources ready made.
"""

from tolerant.edge.agent import HostMetrics, run_agent
from tolerant.edge.bank import FilterBank, FilterState
from tolerant.edge.core import SourceCore
from tolerant.edge.definition import default_name, find_stream
from tolerant.edge.keys import ItemKey
from tolerant.edge.replay import Replayed, replay
from tolerant.edge.source import Source, SourceError

__all__ = [
    "FilterBank",
    "FilterState",
    "HostMetrics",
    "ItemKey",
    "Replayed",
    "Source",
    "SourceCore",
    "SourceError",
    "default_name",
    "find_stream",
    "replay",
    "run_agent",
]
