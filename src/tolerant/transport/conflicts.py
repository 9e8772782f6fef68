"""Items that two sources claim: rows of the compacted topic `conflicts.<stream>`, one per item while it is disputed."""

from __future__ import annotations

import json
from typing import NamedTuple

import pyarrow as pa


class Conflict(NamedTuple):
    """The source `owner` said hello with an item at `since` (event time, microseconds), though `other` had it and was
    heard.
    """

    item: str
    owner: str
    other: str
    since: int


def conflicts_topic(stream: str) -> str:
    """The topic of a stream's conflicts."""
    return f"conflicts.{stream}"


def conflict_body(conflict: Conflict) -> bytes:
    """The body of a conflict's row; its key is the item."""
    return json.dumps(conflict._asdict(), separators=(",", ":"), ensure_ascii=False).encode()


def read_conflicts(batch: pa.RecordBatch, other: str) -> list[Conflict]:
    """The conflicts in rows of the topic in which this source lost an item; what cannot be read is left out."""
    found = []
    for body in batch.column("body").to_pylist():
        try:
            conflict = Conflict(**json.loads(body))
        except (ValueError, TypeError):
            continue
        if conflict.other == other:
            found.append(conflict)
    return found
