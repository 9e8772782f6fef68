"""Looks up what a source needs before it starts: its stream's or table's definition, and its own name."""

from __future__ import annotations

import socket
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TypeVar

from tolerant.sql import Catalogue, CreateTable
from tolerant.sql.catalogue_reader import CatalogueReader
from tolerant.sql.refusals import no_such
from tolerant.streams import Stream
from tolerant.transport import Log

_LOOK_AGAIN = 0.1  # seconds
_Definition = TypeVar("_Definition")


def find_stream(log: Log, name: str, timeout: float = 10.0) -> Stream:
    """Return the definition of a stream from the statements in the log; wait up to `timeout` seconds for it.

    Raises:
        LookupError: there is no such stream.
    """
    return _find(log, "stream", name, timeout, lambda catalogue: catalogue.streams)


def find_table(log: Log, name: str, timeout: float = 10.0) -> CreateTable:
    """Return the definition of a table from the statements in the log; wait up to `timeout` seconds for it.

    Raises:
        LookupError: there is no such table.
    """
    return _find(log, "table", name, timeout, lambda catalogue: catalogue.tables)


def _find(
    log: Log, what: str, name: str, timeout: float, definitions: Callable[[Catalogue], Mapping[str, _Definition]]
) -> _Definition:
    deadline = time.monotonic() + timeout
    reader = CatalogueReader(log)
    while True:
        defined = definitions(reader.current())
        if name in defined:
            return defined[name]
        if time.monotonic() >= deadline:
            raise LookupError(
                f"{no_such(what, name, defined)}. Has its CREATE {what.upper()} been run, and is {log.uri} the right "
                "log?"
            )
        time.sleep(_LOOK_AGAIN)


def default_name() -> str:
    """Return the name of a source that was given none: `host/program`, the same after each restart.

    The pipeline tells the rows of a source's restarts apart by epochs, which are counted per name. A name that changes
    with every start (a process id, say) would leave the items of the previous start stale for ever.
    """
    program = Path(sys.argv[0]) if sys.argv else Path("python")
    stem = program.parent.name if program.stem == "__main__" else program.stem
    return f"{socket.gethostname()}/{stem if stem not in ('', '-c', '-') else 'python'}"
