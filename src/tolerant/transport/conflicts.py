"""Items that two sources claim: rows of the compacted topic `conflicts.<stream>`, one per item while it is disputed."""

from __future__ import annotations

import json
from collections.abc import Iterable
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
    return sorted(_readable((item, body) for item, _, body in records_of(log, conflicts_topic(stream))))


def read_conflicts(batch: pa.RecordBatch, other: str) -> list[Conflict]:
    """The conflicts in rows of the topic in which this source lost an item; what cannot be read is left out."""
    rows = zip(batch.column("key").to_pylist(), batch.column("body").to_pylist(), strict=True)
    return [conflict for conflict in _readable(rows) if conflict.other == other]


def _readable(rows: Iterable[tuple[str, bytes | None]]) -> list[Conflict]:
    """The conflicts in rows (item, body), without those that are over; one that cannot be read is left out, with a
    warning.
    """
    conflicts = []
    for item, body in rows:
        with skipping("a conflict", item):
            if body is not None:
                conflict = Conflict(**json.loads(body))
                if not all(isinstance(name, str) for name in conflict[:3]) or type(conflict.since) is not int:
                    raise ValueError("names must be texts, and the time an integer")
                conflicts.append(conflict)
    return conflicts
