"""`open_log`: from a URI to a log."""

from __future__ import annotations

from functools import cache

from tolerant.transport.log import PipelineLog
from tolerant.transport.memory import MemoryLog
from tolerant.transport.sqlite import SqliteLog

_EXPECTED = "expected sqlite:///path/to/log.db (relative) or sqlite:////path/to/log.db (absolute)"


def open_log(uri: str, create: bool = False) -> PipelineLog:
    """The log at `uri`. create: make it if it is not there, as `tolerant run` does; everybody else only opens.

    | URI | log |
    |---|---|
    | `sqlite:///log.db` | the file `log.db` in the working directory |
    | `sqlite:////var/lib/log.db` | that file |
    | `memory:` | a new log in this process's memory |

    Raises:
        ValueError: the URI is malformed, or of a kind that is not available yet.
        LogError: there is no log, or none that can be used.
    """
    if uri == "memory:":
        return MemoryLog()
    if uri.startswith("kafka://"):
        raise ValueError(f"log {uri!r}: kafka is not available yet; {_EXPECTED}")
    prefix = "sqlite:///"
    path = uri.removeprefix(prefix)
    if not uri.startswith(prefix) or not path or path.endswith("/"):
        raise ValueError(f"log {uri!r} is not a URI of a log: {_EXPECTED}")
    return SqliteLog(path, create=create)


@cache
def shared_log(uri: str) -> PipelineLog:
    """The log at `uri`, opened once in this process: workers live through many batches."""
    return open_log(uri)
