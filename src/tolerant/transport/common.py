"""What is alike in every log: rows of compacted topics, who has passed what, fences, limits."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Mapping, Sequence

import pyarrow as pa

from tolerant.kernels.versions import LAST_EPOCH
from tolerant.transport import rows
from tolerant.transport.log import Entry, Fence, Fenced, LogError, Record
from tolerant.transport.records import skipping
from tolerant.transport.topics import EPOCHS, SEVERAL, is_compacted

Row = tuple[str, int, bytes | None]
"""(key, version, body) of a compacted topic; no body: the key is forgotten."""

Change = tuple[str, str, int, bytes | None]
"""(topic, key, version, body) of a row of a compacted topic."""


def compacted_changes(topic: str, payload: bytes) -> list[Change] | None:
    """The rows in a payload for a compacted topic or for several; None: the topic is not compacted.

    Raises:
        ValueError: there can be no such topic, or the payload is not a packed batch of what belongs there.
    """
    if not is_compacted(check_topic(topic)) and topic != SEVERAL:
        return None
    schema = rows.SEVERAL if topic == SEVERAL else rows.COMPACTED
    batch = rows.unpack(payload, None)  # who appends it has it in memory
    if not batch.schema.equals(schema):
        raise ValueError(
            f"topic {topic!r} is compacted: its rows must have the columns {schema.names}, got {batch.schema.names}"
        )
    columns = [batch.column(name).to_pylist() for name in schema.names]
    if topic != SEVERAL:
        columns.insert(0, [topic] * len(batch))
    elif not all(name is not None and is_compacted(name) for name in set(columns[0])):
        raise ValueError(f"a row for several compacted topics names one that is not: {set(columns[0])}")
    if None in columns[1] or None in columns[2]:
        raise ValueError(f"a row for the compacted topic {topic!r} has no key or no version")
    changes: list[Change] = list(zip(*columns, strict=True))
    for name, key, version, _ in changes:
        if name == EPOCHS and not 1 <= version <= LAST_EPOCH:
            raise ValueError(f"epoch {version} of {key!r:.80} is not a number from 1 to {LAST_EPOCH:,}")
    return changes


def compacted_batch(changed: Iterable[Row]) -> pa.RecordBatch:
    """Rows of a compacted topic as a batch that `append` takes and `read` gives.

    >>> compacted_batch([("a", 1, b"x")]).to_pylist()
    [{'key': 'a', 'version': 1, 'body': b'x'}]
    """
    columns = list(zip(*changed, strict=True)) or [(), (), ()]
    return pa.record_batch(
        [pa.array(column, field.type) for column, field in zip(columns, rows.COMPACTED, strict=True)],
        schema=rows.COMPACTED,
    )


def compacted_entry(topic: str, position: int, changed: Iterable[Row]) -> Entry:
    """The rows that one append changed, as the entry that `read` gives."""
    return Entry(topic, 0, position, rows.pack(compacted_batch(changed)))


def registration(stream: str, topics: Sequence[str]) -> bytes:
    """The body of a checkpoint's row in `positions`."""
    return json.dumps({"stream": stream, "topics": sorted(topics)}).encode()


def passed_by_all(positions: Mapping[str, tuple[int, bytes]], topic: str) -> int | None:
    """The position that every registered checkpoint which reads `topic` has passed; None if nobody reads it.

    `positions`: checkpoint id → (position, body), without the forgotten ones.
    """
    passed = [position for position, body in positions.values() if topic in _registered(body)[1]]
    return min(passed, default=None)


def _registered(body: bytes) -> tuple[str, tuple[str, ...]]:
    """The stream and the topics of a registration; of one that cannot be read none, with a warning."""
    with skipping("a registered checkpoint"):
        fields = json.loads(body)
        return str(fields["stream"]), tuple(map(str, fields["topics"]))
    return "", ()


def abandoned(positions: Mapping[str, tuple[int, bytes]], owner: Callable[[str], str | None]) -> list[str]:
    """The checkpoints in `positions` (as in `passed_by_all`) whose pipeline belongs to another checkpoint now.

    `owner`: from `pipeline/<stream>` to the checkpoint that took its newest epoch.
    """
    owners = {key: owner(f"pipeline/{_registered(body)[0]}") for key, (_, body) in positions.items()}
    return [key for key, newest in owners.items() if newest not in (None, key)]


def check_topic(topic: str) -> str:
    """The topic itself, if it can be one.

    Raises:
        ValueError: it is empty or not text.
    """
    if not isinstance(topic, str) or not topic:
        raise ValueError(f"a topic is a name such as 'updates.traffic', got {topic!r}")
    return topic


def epoch_after(newest: Record | None, name: str) -> int:
    """The epoch that follows the newest one of `name`; None: there is none yet.

    Raises:
        LogError: there is no number left.
    """
    epoch = newest.version + 1 if newest else 1
    if not 1 <= epoch <= LAST_EPOCH:
        raise LogError(f"epoch {epoch - 1} of {name} is the last one that there can be: start under another name")
    return epoch


def owner_of(epoch: Record | None) -> str | None:
    """Who took an epoch; None: nobody did. Any bytes are a name, though perhaps nobody's."""
    return None if epoch is None else epoch.body.decode(errors="replace")


def check_fence(fence: Fence, newest: int) -> None:
    """Nothing, if no newer epoch than the fence's has been taken.

    Raises:
        Fenced: one has.
    """
    if newest > fence.epoch:
        raise Fenced(
            f"{fence.name} has been taken over: a newer epoch runs, {newest}; this process holds epoch {fence.epoch}"
            " and must stop"
        )


def check_reached(position: int, end: int, uri: str) -> None:
    """Nothing, if a reader of the log can have reached `position`.

    Raises:
        LogError: the log ends before it.
    """
    if position > end:
        raise LogError(
            f"the reader stands at position {position}, and the log {uri} ends at {end}: it is an older copy."
            " Start on an empty checkpoint directory"
        )


def furthest(following: Iterable[tuple[int, int]], position: int, entries: int, size: int) -> int:
    """Where a reader at `position` gets over (position, bytes) of what follows, by the limits of `Log.advance`."""
    for count, (reached, length) in enumerate(following):
        size -= length
        if count and (count >= entries or size < 0):
            break
        position = reached
    return position


def wall_clock() -> int:
    """The time now, microseconds since 1970."""
    return time.time_ns() // 1000
