"""Reads each topic once for all listeners of a client, and hands each listener its part."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import pyarrow as pa

from tolerant.transport import Deleted, Log, rows
from tolerant.transport.log import START, Entry
from tolerant.transport.positions import Position
from tolerant.transport.records import OUTPUT_LIMITS, skipping

_ENTRIES = 100  # that are read at a time


@dataclass(frozen=True)
class Extracted:
    """A part of an entry for one listener: its row in the entry, its time or step, and its content."""

    row: int
    mark: int
    content: Any


class Extractor(Protocol):
    """Finds the part of each listener in the topic of one query; one implementation per kind of query.

    A row may be for one listener (`answers.<query>` of an aggregate) or for many (notices and shared channels):
    `extract` gets a whole batch and all listeners, so that what they share is computed once.
    """

    @property
    def topic(self) -> str | tuple[str, ...]:
        """The topic, or the topics, which are read in the order of the log."""
        ...

    def extract(self, batch: pa.RecordBatch, listeners: Mapping[int, Listener]) -> Iterator[tuple[Listener, Extracted]]:
        """Yield the parts of an entry for the listeners (by subscription), in the order of the rows."""
        ...


class Listener:
    """The position of one reader of a topic, and the contents that it has not consumed yet."""

    def __init__(self, position: Position) -> None:
        self.position = position
        self.waiting: deque[tuple[Any, Position]] = deque()

    def offer(self, entry: int, extracted: Extracted) -> bool:
        """Accept a part of an entry, unless it is before the position or a repetition; return whether it was."""
        position = self.position
        if (entry, extracted.row) < (position.entry, position.rows) or not self.is_news(extracted):
            return False
        self.position = Position(entry, extracted.row + 1, max(extracted.mark, position.mark))
        self.waiting.append((extracted.content, self.position))
        return True

    def is_news(self, extracted: Extracted) -> bool:
        """Return whether it is no repetition: a pipeline on an empty checkpoint publishes everything again."""
        return extracted.mark > self.position.mark


class Feed:
    """Reads a topic once for all its listeners."""

    def __init__(self, log: Log, extractor: Extractor) -> None:
        self._log, self._extractor = log, extractor
        self._position: int | None = None
        self._listeners: dict[int, Listener] = {}
        self._active: dict[Listener, None] = {}

    def join(self, subscription: int, listener: Listener) -> None:
        """Add a listener, from its position on; earlier listeners get nothing twice.

        Raises:
            Deleted: some of it is trimmed.
        """
        self.join_many({subscription: listener})

    def join_many(self, listeners: Mapping[int, Listener]) -> None:
        """Add many listeners, each from its own position on, in one pass over the log.

        A listener gets the entries from its own position on, as if it had joined alone: how it extracts an entry may
        depend on earlier ones.

        Raises:
            Deleted: some of what one of them has not read is trimmed; none has joined.
        """
        if not listeners:
            return
        self._refuse_deleted(listeners.values())
        waiting = sorted(listeners.items(), key=lambda item: item[1].position.entry, reverse=True)
        # The entry of a position itself may have been read in part.
        first, last = waiting[-1][1].position.entry - 1, waiting[0][1].position.entry - 1
        self._position = last if self._position is None else self._position
        joined: dict[int, Listener] = {}
        for entry in self._entries(first, self._position):
            while waiting and waiting[-1][1].position.entry <= entry.position:
                number, listener = waiting.pop()
                joined[number] = listener
            self._hand_out(entry, joined)
        self._listeners.update(listeners)

    def _entries(self, position: int, end: int) -> Iterator[Entry]:
        """Yield the entries after a position, up to another."""
        while position < end:
            entries = self._log.read(self._extractor.topic, position, limit=_ENTRIES)
            yield from (entry for entry in entries if entry.position <= end)
            position = entries[-1].position if entries else end

    def _refuse_deleted(self, listeners: Iterable[Listener]) -> None:
        topic = self._extractor.topic
        trimmed = self._log.trimmed([topic] if isinstance(topic, str) else list(topic))
        for listener in listeners:
            if START < listener.position.entry < trimmed:
                raise Deleted(
                    f"position {listener.position} of {topic} is too old: retention has deleted entries up"
                    f" to {trimmed}; begin again without a position, with the current answer"
                )

    def leave(self, subscription: int) -> None:
        """Remove a listener."""
        self._listeners.pop(subscription, None)

    def poll(self) -> bool:
        """Read the topic once; return whether there were new entries."""
        entries = self._log.read(self._extractor.topic, self._position or 0, limit=_ENTRIES)
        for entry in entries:
            self._hand_out(entry, self._listeners)
            self._position = entry.position
        return bool(entries)

    def drain_active(self) -> list[Listener]:
        """Return the listeners that have accepted something since the last call."""
        active, self._active = list(self._active), {}
        return active

    def _hand_out(self, entry: Entry, listeners: Mapping[int, Listener]) -> None:
        extracted: list[tuple[Listener, Extracted]] = []
        with skipping(f"an entry of {entry.topic}"):
            extracted = list(self._extractor.extract(rows.unpack(entry.payload, OUTPUT_LIMITS), listeners))
        for listener, part in extracted:
            if listener.offer(entry.position, part):
                self._active[listener] = None
