"""What a source has to know before it starts: its stream's or table's definition, and its own name."""

from __future__ import annotations

import socket
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TypeVar

from tolerant.sql import Catalogue, CreateTable
from tolerant.sql.refusals import no_such
from tolerant.sql.wire import statements_in
from tolerant.streams import Stream
from tolerant.transport import Log
from tolerant.transport.log import QUERIES, START

_LOOK_AGAIN = 0.1  # seconds
_Definition = TypeVar("_Definition")


def find_stream(log: Log, name: str, timeout: float = 10.0) -> Stream:
    """The definition of a stream, as the statements in the log give it; waits up to `timeout` seconds for it.

    Raises:
        LookupError: there is no such stream.
    """
    return _find(log, "stream", name, timeout, lambda catalogue: catalogue.streams)


def find_table(log: Log, name: str, timeout: float = 10.0) -> CreateTable:
    """The definition of a table, as the statements in the log give it; waits up to `timeout` seconds for it.

    Raises:
        LookupError: there is no such table.
    """
    return _find(log, "table", name, timeout, lambda catalogue: catalogue.tables)


def _find(
    log: Log, what: str, name: str, timeout: float, held: Callable[[Catalogue], Mapping[str, _Definition]]
) -> _Definition:
    deadline = time.monotonic() + timeout
    catalogue, position = Catalogue(), START
    while True:
        for entry in log.read(QUERIES, position):
            _fold(catalogue, entry.payload)
            position = entry.position
        if name in held(catalogue):
            return held(catalogue)[name]
        if time.monotonic() >= deadline:
            raise LookupError(
                f"{no_such(what, name, held(catalogue))}. "
                f"Has its CREATE {what.upper()} been run, and is {log.uri} the right log?"
            )
        time.sleep(_LOOK_AGAIN)


def _fold(catalogue: Catalogue, payload: bytes) -> None:
    for statement in statements_in(payload):
        catalogue.apply(statement)


def default_name() -> str:
    """The name of a source that was given none: `host/program`, the same after each restart.

    The pipeline tells the rows of a source's starts apart by epochs that are counted by name. A name that changes
    with every start (a process id, say) would leave the items of the start before stale for ever.
    """
    program = Path(sys.argv[0]) if sys.argv else Path("python")
    stem = program.parent.name if program.stem == "__main__" else program.stem
    return f"{socket.gethostname()}/{stem if stem not in ('', '-c', '-') else 'python'}"
