"""Entries that a pipeline must skip: the compacted topic `quarantine.<pipeline>`, key = the entry's position.

The record stands in the log before any batch that skips the entry is committed, and a batch that applied the entry
never was: so every replay of that pipeline, also on an empty checkpoint, skips the same entries. Readers pass an entry
on under a marked topic, with the record in the place of its payload; nobody decodes the payload again.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple

from tolerant.transport.log import Entry, Fence, Log, PipelineLog
from tolerant.transport.rows import compacted, pack, unpack

_MARK = "quarantined:"
_EXCERPT = 4096  # bytes of the payload that the record keeps, for people


class NamedRow(NamedTuple):
    """What a row of an entry is about. Of a statement `source` is the request, of a clock row the checkpoint."""

    kind: str
    key: str
    source: str
    sequence: int


class WaitingRow(NamedTuple):
    """A row that an earlier entry brought and that still waits for its time."""

    key: str
    source: str
    sequence: int


@dataclass(frozen=True)
class Quarantined:
    """The record of a skipped entry. `at`: when it was written, by the wall clock, microseconds."""

    topic: str
    position: int
    reason: str
    at: int
    rows: tuple[NamedRow, ...] | None
    """What it is about; None: it could not be decoded."""
    waiting: tuple[WaitingRow, ...] | None = None
    """If it moves time: the rows dropped with it, because applying them is what failed; None: all that wait."""
    excerpt: bytes = b""

    @property
    def moves_time(self) -> bool:
        """Whether rows that waited may be why it failed: there is a clock row in it, or nobody knows."""
        return self.rows is None or any(row.kind == "clock" for row in self.rows)

    def drops(self, row: WaitingRow) -> bool:
        """Whether a waiting row is dropped with it."""
        return self.moves_time and (self.waiting is None or row in self.waiting)


def topic_of(pipeline: str) -> str:
    """The topic of the entries that a pipeline skips."""
    return f"quarantine.{pipeline}"


def record(log: PipelineLog, pipeline: str, skipped: Quarantined, fence: Fence) -> None:
    """Write down that a pipeline skips an entry, once.

    Raises:
        Fenced: another process has taken the pipeline over; nothing was written.
    """
    row = compacted([(str(skipped.position), 1, _body(replace(skipped, excerpt=skipped.excerpt[:_EXCERPT])))])
    once = f"quarantine/{pipeline}/{skipped.position}"
    log.append_once(once, 1, [(topic_of(pipeline), pack(row))], fence)


def bodies(log: Log, pipeline: str) -> dict[int, bytes]:
    """The records of a pipeline by position, as bytes."""
    batches = (unpack(entry.payload) for entry in log.read(topic_of(pipeline)))
    rows = (row for batch in batches for row in batch.to_pylist())
    return {int(row["key"]): row["body"] for row in rows if row["body"] is not None}


def quarantined(log: Log, pipeline: str) -> list[Quarantined]:
    """The entries that a pipeline skips, in the order of their positions."""
    return [_read(body) for _, body in sorted(bodies(log, pipeline).items())]


def marked(entries: Iterable[Entry], records: Mapping[int, bytes]) -> list[Entry]:
    """The entries, those that `records` has in their marked form."""
    if not records:
        return list(entries)
    return [
        Entry(_MARK + entry.topic, entry.partition, entry.position, records[entry.position])
        if entry.position in records
        else entry
        for entry in entries
    ]


def is_marked(topic: str) -> bool:
    """Whether an entry of this topic is one that must be skipped."""
    return topic.startswith(_MARK)


def read_marked(entry: Entry) -> Quarantined:
    """The record that a marked entry carries."""
    return _read(entry.payload)


def as_marked(skipped: Quarantined, entry: Entry) -> Entry:
    """An entry in its marked form."""
    return Entry(_MARK + entry.topic, entry.partition, entry.position, _body(skipped))


def _body(skipped: Quarantined) -> bytes:
    return json.dumps({**vars(skipped), "excerpt": skipped.excerpt.hex()}, separators=(",", ":")).encode()


def _read(body: bytes) -> Quarantined:
    held = json.loads(body)
    rows, waiting = held.pop("rows"), held.pop("waiting")
    return Quarantined(
        **{**held, "excerpt": bytes.fromhex(held["excerpt"])},
        rows=None if rows is None else tuple(NamedRow(*row) for row in rows),
        waiting=None if waiting is None else tuple(WaitingRow(*row) for row in waiting),
    )
