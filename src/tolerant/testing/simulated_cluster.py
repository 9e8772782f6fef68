"""The cluster of a simulation: a log, a clock, a queue of things to happen, one random generator for all of it."""

from __future__ import annotations

import heapq
import random
from collections.abc import Callable
from typing import Any, NamedTuple

import pyarrow as pa

from tolerant.sql import Statement, encode
from tolerant.streams import Stream
from tolerant.testing.faults import Faults
from tolerant.testing.truth import Truth
from tolerant.transport import MemoryLog
from tolerant.transport.rows import STATEMENTS, pack
from tolerant.transport.topics import QUERIES, updates_topic


class Appended(NamedTuple):
    """What stands at a position of the log: rows of `updates`, or a statement, or neither (nobody can read it)."""

    position: int
    rows: list[dict[str, Any]]
    statement: Statement | None


class SimulatedCluster:
    """Everything that actors share. Times are microseconds of the true clock, which no actor has."""

    def __init__(self, seed: int, stream: Stream, faults: Faults, start: int) -> None:
        self.random = random.Random(seed)
        self.stream = stream
        self.faults = faults
        self.now = start
        self.log = MemoryLog(now=lambda: self.now)
        self.truth = Truth()
        self.owners: dict[str, str] = {}
        """Which source has which item, or sum of items."""
        self.sums: dict[str, list[str]] = {}
        """Of which items each sum is that a source has filtered."""
        self.appended: list[Appended] = []
        self.journal: list[tuple[int, str]] = []
        self.counts: dict[str, int] = {}
        self.common_clock = False
        """Whether clock rows are everybody's, as a replay writes them, and not each pipeline's own."""
        self.poison: set[int] = set()
        """The positions of entries at which every shard fails."""
        # Of their own, for faults that were added later: without these a seed keeps its history.
        self._added = {
            "poison": random.Random(~seed),
            "late_hello": random.Random(f"{seed}/late_hello"),
            "lost_snapshot": random.Random(f"{seed}/lost_snapshot"),
        }
        self._queue: list[tuple[int, int, Callable[[], None]]] = []
        self._tickets = 0

    @property
    def updates(self) -> str:
        """The topic of the stream's rows."""
        return updates_topic(self.stream.name)

    def after(self, delay: float, action: Callable[[], None]) -> None:
        """Let something happen `delay` microseconds from now."""
        self._tickets += 1
        heapq.heappush(self._queue, (self.now + max(1, int(delay)), self._tickets, action))

    def run(self, until: int) -> None:
        """Let everything happen that is due up to `until`."""
        while self._queue and self._queue[0][0] <= until:
            self.now, _, action = heapq.heappop(self._queue)
            action()
        self.now = max(self.now, until)

    def occurs(self, fault: str) -> bool:
        """Whether a fault of this kind happens now."""
        chance: float = getattr(self.faults, fault)
        # The generator is asked even when the answer is clear, so that a seed means the same with other faults.
        return self.random.random() < chance

    def occurs_too(self, fault: str) -> bool:
        """`occurs` for the faults that were added later."""
        chance: float = getattr(self.faults, fault)
        return self._added[fault].random() < chance

    def between(self, low: float, high: float) -> float:
        """A random number."""
        return self.random.uniform(low, high)

    def log_event(self, text: str) -> None:
        """Note what happened, for people who read a failing seed."""
        self.journal.append((self.now, text))

    def count(self, what: str, how_many: int = 1) -> None:
        """Count messages."""
        self.counts[what] = self.counts.get(what, 0) + how_many

    def append_rows(self, batch: pa.RecordBatch) -> None:
        """Append rows to the stream's topic."""
        position = self.log.append(self.updates, batch)
        # What a lost departure leaves behind is unsettled for good, which the audit of progress would not have.
        is_safe = not {"clock", "gone"} & set(batch.column("kind").to_pylist())
        if is_safe and self.occurs_too("poison"):
            self.poison.add(position)
            self.log_event(f"entry {position} is poison")
        self.appended.append(Appended(position, batch.to_pylist(), None))

    def append_garbage(self, payload: bytes) -> None:
        """Append what is no batch at all."""
        self.appended.append(Appended(self.log.append_packed([(self.updates, payload)]), [], None))

    def append_statement(self, statement: Statement, name: str) -> None:
        """Append a statement to the topic of queries."""
        row = {
            "kind": statement.kind,
            "key": name,
            "request": f"r{len(self.appended)}",
            "text": "",
            "body": encode(statement),
        }
        batch = pa.RecordBatch.from_pylist([row], STATEMENTS)
        position = self.log.append_packed([(QUERIES, pack(batch))])
        self.appended.append(Appended(position, [], statement))
