"""Items that two sources claim: rows of the compacted topic `conflicts.<stream>`, one per item while it is disputed."""

from __future__ import annotations

import json
from typing import NamedTuple

import pyarrow as pa

from tolerant.transport.log import Log
from tolerant.transport.records import records_of, skipping
from tolerant.transport.topics import conflicts_topic


class Conflict(NamedTuple):
    """The source `owner` said hello with an item at `since` (event time, microseconds), though `other` had it and was
    heard.
    """

    item: str
    owner: str
    other: str
    since: int


def conflict_body(conflict: Conflict) -> bytes:
    """The body of a conflict's row; its key is the item."""
    return json.dumps(conflict._asdict(), separators=(",", ":"), ensure_ascii=False).encode()


def open_conflicts(log: Log, stream: str) -> list[Conflict]:
    """The items of a stream that two sources claim now, in the order of their keys."""
    conflicts = []
    for item, _, body in records_of(log, conflicts_topic(stream)):
        with skipping("a conflict", item):
            conflicts += [] if body is None else [Conflict(**json.loads(body))]
    return sorted(conflicts)


def read_conflicts(batch: pa.RecordBatch, other: str) -> list[Conflict]:
    """The conflicts in rows of the topic in which this source lost an item; what cannot be read is left out."""
    conflicts = []
    for body in batch.column("body").to_pylist():
        try:
            conflict = Conflict(**json.loads(body))
        except (ValueError, TypeError):
            continue
        if conflict.other == other:
            conflicts.append(conflict)
    return conflicts
