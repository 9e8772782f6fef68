"""Records of compacted topics, read back by sources, pollers, aggregators, clients and commands.

No record may stop its reader: one that cannot be used is left out, with a warning, as if it had not been written.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pyarrow as pa

from tolerant.streams import Limits
from tolerant.transport.log import Log
from tolerant.transport.rows import COMPACTED, unpack

_UNREADABLE = (
    ValueError,
    TypeError,
    LookupError,
    AttributeError,
    ArithmeticError,
    AssertionError,
    RecursionError,
    pa.ArrowException,
)

OUTPUT_LIMITS = Limits(entry_bytes=1 << 30, entry_rows=1 << 26)
"""What an entry may hold that a pipeline wrote for clients."""

Record = tuple[str, int, bytes | None]
"""(key, version, body) of a compacted topic; no body: the key is forgotten."""


class BadRecord(UserWarning):
    """A record of the log was left out, because it cannot be read; the message says which, and why."""


@contextmanager
def skipping(what: str, key: str = "") -> Iterator[None]:
    """Leave out a record that cannot be read, with a warning: whatever its bytes make of the code that reads them."""
    try:
        yield
    except _UNREADABLE as error:
        of = f" {key!r:.80}" if key else ""
        warnings.warn(f"{what}{of} was left out, it cannot be read: {error!s:.200}", BadRecord, stacklevel=4)


def records(payload: bytes) -> list[Record]:
    """The records in an entry of a compacted topic; none, with a warning, if it is no such entry."""
    with skipping("an entry of a compacted topic"):
        batch = unpack(payload, None)  # the log packed it itself
        if not batch.schema.equals(COMPACTED):
            raise ValueError(f"columns must be {COMPACTED.names}, got {batch.schema.names}")
        columns = zip(*(column.to_pylist() for column in batch.columns), strict=True)
        return [(key, version, body) for key, version, body in columns if key is not None and version is not None]
    return []


def records_of(log: Log, topic: str) -> Iterator[Record]:
    """The records of a compacted topic, in the order in which they changed."""
    for entry in log.read(topic):
        yield from records(entry.payload)


def read_json(body: bytes | None, what: str, key: str = "") -> Any:
    """The value of a record's body; None, with a warning, if it is not JSON."""
    with skipping(what, key):
        return None if body is None else json.loads(body)
    return None
