"""Moves rows between processes: a log of topics, opened by its URI, with one contract (`Log`) whatever it is made of.

`sqlite:///path/to/log.db` is the embedded default: one machine, no server, survives restarts. `memory:` lives and
dies with the process, for tests. `rows` says what the rows of each topic look like.
"""

from tolerant.transport.log import Damaged, Deleted, Entry, Fence, Fenced, Log, LogError, PipelineLog, Record, Replaced
from tolerant.transport.memory import MemoryLog
from tolerant.transport.opening import open_log
from tolerant.transport.sqlite import SqliteLog
from tolerant.transport.topics import is_compacted

__all__ = [
    "Damaged",
    "Deleted",
    "Entry",
    "Fence",
    "Fenced",
    "Log",
    "LogError",
    "MemoryLog",
    "PipelineLog",
    "Record",
    "Replaced",
    "SqliteLog",
    "is_compacted",
    "open_log",
]
