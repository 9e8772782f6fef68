"""One reader for all that a client listens to: each topic is read once, and what it says handed to who wants it."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import pyarrow as pa

from tolerant.client.positions import Position
from tolerant.transport import Deleted, Log, rows
from tolerant.transport.log import START, Entry
from tolerant.transport.records import OUTPUT_LIMITS, skipping

_ENTRIES = 100  # that are read at a time


@dataclass(frozen=True)
class Found:
    """Something that a topic says: in which row of its entry, its time or step, and what it is."""

    row: int
    mark: int
    what: Any


class Extractor(Protocol):
    """How those who listen to one query find what is theirs in its topic, each kind of query in its own way.

    A topic may speak to one listener (`answers.<query>` of an aggregate) or to many at once (notices and shared
    channels): `extract` sees a whole batch and all listeners, so that what they share is worked out once.
    """

    @property
    def topic(self) -> str | tuple[str, ...]:
        """The topic that is read, or the topics, in the order of the log."""
        ...

    def extract(self, batch: pa.RecordBatch, listeners: Mapping[int, Listener]) -> Iterator[tuple[Listener, Found]]:
        """What the rows of an entry say to the listeners (by subscription), in the order of the rows."""
        ...


class Listener:
    """One that listens: what it has not been given yet, and where it stands."""

    def __init__(self, position: Position) -> None:
        self.position = position
        self.waiting: deque[tuple[Any, Position]] = deque()

    def offer(self, entry: int, found: Found) -> bool:
        """Take what an entry says, unless it stands before the position, or has been said before; whether it was
        taken.
        """
        held = self.position
        if (entry, found.row) < (held.entry, held.rows) or not self.is_news(found):
            return False
        self.position = Position(entry, found.row + 1, max(found.mark, held.mark))
        self.waiting.append((found.what, self.position))
        return True

    def is_news(self, found: Found) -> bool:
        """Whether it has not been said before: a pipeline that starts anew says everything again."""
        return found.mark > self.position.mark


class Feed:
    """A topic, read once for all its listeners."""

    def __init__(self, log: Log, extractor: Extractor) -> None:
        self._log, self._extractor = log, extractor
        self._position: int | None = None
        self._listeners: dict[int, Listener] = {}
        self._stirred: dict[Listener, None] = {}

    def join(self, subscription: int, listener: Listener) -> None:
        """Let a listener hear what stands after its position. Those that were there first hear nothing twice.

        Raises:
            Deleted: some of it is gone.
        """
        self.join_many({subscription: listener})

    def join_many(self, listeners: Mapping[int, Listener]) -> None:
        """`join` for many, each from its own position, in one pass over the log.

        A listener is handed entries from its own on, as if it had joined alone: what it makes of an entry may depend on
        those that it has seen.

        Raises:
            Deleted: some of what one of them has not heard is gone; none has joined.
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
        """The entries after a position, up to another."""
        while position < end:
            entries = self._log.read(self._extractor.topic, position, limit=_ENTRIES)
            yield from (entry for entry in entries if entry.position <= end)
            position = entries[-1].position if entries else end

    def _refuse_deleted(self, listeners: Iterable[Listener]) -> None:
        topic = self._extractor.topic
        gone = self._log.trimmed([topic] if isinstance(topic, str) else list(topic))
        for listener in listeners:
            if START < listener.position.entry < gone:
                raise Deleted(
                    f"position {listener.position} of {topic} is too old: retention has deleted entries up"
                    f" to {gone}; begin again without a position, with the current answer"
                )

    def leave(self, subscription: int) -> None:
        """A listener has heard enough."""
        self._listeners.pop(subscription, None)

    def poll(self) -> bool:
        """Look once whether there is more; whether there was."""
        entries = self._log.read(self._extractor.topic, self._position or 0, limit=_ENTRIES)
        for entry in entries:
            self._hand_out(entry, self._listeners)
            self._position = entry.position
        return bool(entries)

    def stirred(self) -> list[Listener]:
        """The listeners that have heard something since this was last asked."""
        found, self._stirred = list(self._stirred), {}
        return found

    def _hand_out(self, entry: Entry, listeners: Mapping[int, Listener]) -> None:
        extracted: list[tuple[Listener, Found]] = []
        with skipping(f"an entry of {entry.topic}"):
            extracted = list(self._extractor.extract(rows.unpack(entry.payload, OUTPUT_LIMITS), listeners))
        for listener, found in extracted:
            if listener.offer(entry.position, found):
                self._stirred[listener] = None
