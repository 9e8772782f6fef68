"""What the fault simulators for tables and for pairs of tables share: feeders, people, pipelines and their faults.

A kind of simulation says which statements there are, what rows look like, who listens, and what had to be said.
"""

from __future__ import annotations

import random
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa

from tolerant.client import StatementClient
from tolerant.kernels.versions import version
from tolerant.pipeline.hosting import Hosted
from tolerant.sql import CreateQuery, CreateTable, Statement, Subscribe, Unsubscribe
from tolerant.sql.subscriptions import subscription_row
from tolerant.streams import SECOND, StreamOptions
from tolerant.testing.shard_history import ShardHistory
from tolerant.transport.changes import ARROW, changes_batch, clock_row
from tolerant.transport.log import START
from tolerant.transport.memory import MemoryLog
from tolerant.transport.topics import QUERIES, changes_topic, subscriptions_topic

OPTIONS = StreamOptions()


@dataclass
class Feeder:
    """Says rows of a table under its own clock; what waits to be sent is lost when it dies."""

    name: str
    table: CreateTable
    skew: int
    epoch: int = 1
    counter: int = 0
    at: int = 0
    waiting: list[pa.RecordBatch] = field(default_factory=list)

    def say(self, changes: Sequence[tuple[str, str, tuple[Any, ...] | None]]) -> None:
        """One transaction: (kind, key, row) each; a deletion has no row."""
        kinds, keys, rows = zip(*changes, strict=True)
        n, columns = len(kinds), self.table.columns
        first = version(self.epoch, self.counter + 1)
        self.counter += n
        values = {
            column.name: pa.array([row[index] if row else None for row in rows], ARROW[column.type])
            for index, column in enumerate(columns)
        }
        batch = changes_batch(
            columns,
            kinds=list(kinds),
            keys=pa.array(keys, pa.string()),
            at=np.full(n, self.at),
            source=self.name,
            sequence=np.arange(first, first + n),
            through=np.full(n, self.at),
            values=values,
        )
        self.waiting.append(batch)

    def crash(self) -> None:
        """As after a crash."""
        self.waiting, self.epoch, self.counter = [], self.epoch + 1, 0


class Pipeline:
    """A checkpoint, and the shard that runs on it."""

    def __init__(self, name: str, make: Callable[[], Hosted]) -> None:
        self.name, self._make, self.shard = name, make, make()
        self.position, self.batch = START, 0
        self.history = ShardHistory()

    def restart(self) -> None:
        """As after a crash."""
        self.shard = self._make()
        self.history.restore(self.shard)


class RowsSimulation(ABC):
    """One history over tables. `home` names the pipeline, `make` makes its shard."""

    KEYS: ClassVar[int]
    """Rows have so many different keys."""

    SIZES: ClassVar[Sequence[int]]
    """How many rows a transaction may change, each as likely as the others."""

    def __init__(
        self,
        seed: int,
        statements: Sequence[Statement],
        home: str,
        make: Callable[[], Hosted],
        feeders: Sequence[tuple[str, CreateTable]],
    ) -> None:
        self._seed, self._random = seed, random.Random(seed)
        self._log, self._now = MemoryLog(), 1_000_000 * SECOND
        for statement in statements:
            StatementClient(self._log).send(statement)
        self._tables = tuple(statement for statement in statements if isinstance(statement, CreateTable))
        self._queries = {statement.name: statement for statement in statements if isinstance(statement, CreateQuery)}
        self._subscriptions = subscriptions_topic(home)
        self._topics = (QUERIES, *(changes_topic(table.name) for table in self._tables), self._subscriptions)
        self._feeders = [Feeder(name, table, self._random.randint(-200_000, 200_000)) for name, table in feeders]
        self._make = make
        self._pipelines = [Pipeline("p0", make)]
        self._restarts = 0

    def play(self, steps: int) -> None:
        """Plays `steps` random events, then stops the faults: everything is sent, read and delivered."""
        for _ in range(steps):
            self._now += self._random.randint(10_000, 400_000)
            likely = self._likely()
            self._random.choices(list(likely), list(likely.values()))[0]()
        for feeder in self._feeders:
            self._send(feeder, len(feeder.waiting))
        self._now += 2 * OPTIONS.lease
        for table in self._tables:
            self._tick(table)
        self._read(whole=True)
        self._listen(whole=True)

    # -- what a kind of simulation says ------------------------------------------------------------------------------

    @abstractmethod
    def _row(self, key: int) -> tuple[Any, ...]:
        """A row with this key, drawn at random."""

    @abstractmethod
    def _statement(self) -> Subscribe | Unsubscribe:
        """What somebody asks for, drawn at random."""

    @abstractmethod
    def _listen(self, whole: bool = False) -> None:
        """Clients come up with what they kept, hear what there is, and die."""

    def _likely(self) -> dict[Callable[[], None], int]:
        """What can happen, and how likely it is."""
        return {
            self._change: 35, self._post: 25, self._repeat: 4, self._clock: 20, self._read: 15, self._people: 8,
            self._die: 5, self._listen: 6,
        }  # fmt: skip

    def _moment(self, feeder: Feeder) -> int:
        """What a feeder's clock shows."""
        return self._now + feeder.skew

    # -- what can happen ---------------------------------------------------------------------------------------------

    def _change(self) -> None:
        """A transaction of one feeder: some rows come, go or change."""
        feeder, chance = self._random.choice(self._feeders), self._random
        feeder.at = max(self._moment(feeder), feeder.at + 1)
        changes: list[tuple[str, str, tuple[Any, ...] | None]] = []
        for key in chance.sample(range(self.KEYS), chance.choice(self.SIZES)):
            row = self._row(key)
            if chance.random() >= 0.5:
                changes.append(("delete", str(key), None))
            changes.append(("delete", str(key), None) if chance.random() < 0.3 else ("insert", str(key), row))
        feeder.say(changes)

    def _post(self) -> None:
        self._send(self._random.choice(self._feeders), 1)

    def _send(self, feeder: Feeder, count: int) -> None:
        for batch in feeder.waiting[:count]:
            self._log.append(changes_topic(feeder.table.name), batch)
        del feeder.waiting[:count]

    def _repeat(self) -> None:
        """An append that was not sure to have succeeded is made again; or somebody writes nonsense."""
        topic = changes_topic(self._random.choice(self._tables).name)
        entries = self._log.read(topic)
        payload = b"nobody can read this"
        if entries and self._random.random() < 0.8:
            payload = self._random.choice(entries[-5:]).payload
        self._log.append_packed([(topic, payload)])

    def _clock(self) -> None:
        self._tick(self._random.choice(self._tables))

    def _tick(self, table: CreateTable) -> None:
        clock = clock_row(table.columns, self._now, 1, self._pipelines[-1].name)
        self._log.append(changes_topic(table.name), clock)

    def _people(self) -> None:
        """Somebody subscribes or unsubscribes."""
        self._ask(self._statement())

    def _ask(self, statement: Subscribe | Unsubscribe) -> None:
        self._log.append(self._subscriptions, subscription_row(statement, self._queries[statement.name], self._tables))
        StatementClient(self._log).send(statement)

    def _die(self) -> None:
        """Crashes a feeder or the pipeline, or starts a pipeline with an empty checkpoint."""
        choice = self._random.random()
        if choice < 0.4:
            self._random.choice(self._feeders).crash()
            return
        self._restarts += 1
        if choice < 0.55:
            self._pipelines.append(Pipeline(f"p{len(self._pipelines)}", self._make))
        else:
            self._pipelines[-1].restart()

    def _read(self, whole: bool = False) -> None:
        """A batch of the newest pipeline: applied, written once, committed; it may die before the last."""
        pipeline, chance = self._pipelines[-1], self._random
        entries = self._log.read(self._topics, pipeline.position)
        if not whole and entries:
            entries = entries[: chance.randint(1, len(entries))]
        if not entries:
            return
        runs = 1 if whole or chance.random() >= 0.1 else 2  # the second: written, but not committed
        for run in range(runs):
            if run:
                pipeline.restart()
            outputs = pipeline.shard.apply(entries)
            self._log.append_once(pipeline.name, pipeline.batch, [(o.topic, o.payload) for o in outputs])
        pipeline.position, pipeline.batch = entries[-1].position, pipeline.batch + 1
        pipeline.history.add(entries)
        if chance.random() < 0.2:
            pipeline.history.fold(pipeline.shard.snapshot())
