"""Entries that a shard must skip: the compacted topic `quarantine.<pipeline>`, key = shard and position of the entry.

The record stands in the log before any batch of the shard that skips the entry is committed, and a batch of it that
applied the entry never was: so every replay of that shard, also on an empty checkpoint, skips the same entries.
Readers pass an entry on under a marked topic, with the record in the place of its payload; nobody decodes the payload
again.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple

from tolerant.transport.log import Entry, Fence, Log, PipelineLog
from tolerant.transport.records import records_of, skipping
from tolerant.transport.rows import compacted, pack
from tolerant.transport.topics import quarantine_topic

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
    shard: int = 0

    @property
    def key(self) -> str:
        """Of the record."""
        return f"{self.shard}/{self.position}"

    @property
    def moves_time(self) -> bool:
        """Whether rows that waited may be why it failed: there is a clock row in it, or it cannot be read."""
        return self.rows is None or any(row.kind == "clock" for row in self.rows)

    def drops(self, row: WaitingRow) -> bool:
        """Whether a waiting row is dropped with it."""
        return self.moves_time and (self.waiting is None or row in self.waiting)


def record(log: PipelineLog, pipeline: str, skipped: Quarantined, fence: Fence) -> None:
    """Write down that a shard skips an entry, once.

    Raises:
        Fenced: another process has taken the pipeline over; nothing was written.
    """
    row = compacted([(skipped.key, 1, _body(replace(skipped, excerpt=skipped.excerpt[:_EXCERPT])))])
    once = f"quarantine/{pipeline}/{skipped.key}"
    log.append_once(once, 1, [(quarantine_topic(pipeline), pack(row))], fence)


def bodies(log: Log, pipeline: str, shard: int = 0) -> dict[int, bytes]:
    """The records of a shard by position, as bytes; one that cannot be read is left out, with a warning."""
    return {skipped.position: body for skipped, body in _records(log, pipeline) if skipped.shard == shard}


def quarantined(log: Log, pipeline: str) -> list[Quarantined]:
    """The entries that the shards of a pipeline skip, in the order of their positions."""
    records = [skipped for skipped, _ in _records(log, pipeline)]
    return sorted(records, key=lambda skipped: (skipped.position, skipped.shard))


def _records(log: Log, pipeline: str) -> list[tuple[Quarantined, bytes]]:
    records = []
    for key, _, body in records_of(log, quarantine_topic(pipeline)):
        with skipping("a record of an entry in quarantine", key):
            if body is not None and (skipped := _read(body)).key == key:
                records.append((skipped, body))
    return records


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
    fields = json.loads(body)
    rows, waiting = fields["rows"], fields["waiting"]
    return Quarantined(
        _text(fields["topic"]),
        _integer(fields["position"]),
        _text(fields["reason"]),
        _integer(fields["at"]),
        None if rows is None else tuple(map(_named_row, rows)),
        None if waiting is None else tuple(map(_waiting_row, waiting)),
        bytes.fromhex(fields["excerpt"]),
        _integer(fields["shard"]),
    )


def _named_row(values: list[object]) -> NamedRow:
    kind, key, source, sequence = values
    return NamedRow(_text(kind), _text(key), _text(source), _integer(sequence))


def _waiting_row(values: list[object]) -> WaitingRow:
    key, source, sequence = values
    return WaitingRow(_text(key), _text(source), _integer(sequence))


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError(f"expected a text, got {value!r:.80}")
    value.encode()  # a half of a character can be written nowhere
    return value


def _integer(value: object) -> int:
    if type(value) is not int or not -(2**63) <= value < 2**63:
        raise TypeError(f"expected a 64-bit integer, got {value!r:.80}")
    return value
