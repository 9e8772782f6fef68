"""The seeded fault simulator for pairs of tables: feeders, people, pipelines and a client in one process.

`simulate_pair(seed)` plays one history and judges it: every subscription to a join must have been told exactly the
result rows that brute force over the log says (`PairTruth`), once and in order, whatever was repeated, late, lost with
a crash or said again by a pipeline that started anew; and a client that dies and resumes must hold its result rows.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from tolerant.client import Client, Position, send
from tolerant.kernels.versions import version
from tolerant.spark.kinds.pairs import PairShard
from tolerant.sql import CreateQuery, CreateTable, Pair, Subscribe, Unsubscribe, parse
from tolerant.sql.subscriptions import subscription_row
from tolerant.streams import SECOND, StreamOptions
from tolerant.testing.pair_truth import PairTruth, Told
from tolerant.transport.changes import ARROW, changes_batch, clock_row, topic_of
from tolerant.transport.log import QUERIES, START
from tolerant.transport.memory import MemoryLog
from tolerant.transport.rows import unpack

_STATEMENTS = [
    parse(text)
    for text in (
        "CREATE TABLE supply (id BIGINT, k STRING, x DOUBLE) KEY (id)",
        "CREATE TABLE demand (id BIGINT, k STRING, x DOUBLE) KEY (id)",
        "CREATE QUERY near(low, high) AS SELECT * FROM supply r JOIN demand s ON s.x - r.x BETWEEN low AND high",
        "CREATE QUERY same(low, high) AS SELECT * FROM demand s JOIN supply r ON r.k = s.k"
        " WHERE r.x BETWEEN low AND high AND s.x BETWEEN -9 AND high",
        "CREATE QUERY close AS SELECT * FROM supply r JOIN demand s ON s.x - r.x BETWEEN -1 AND 0.2",
    )
]
_TABLES = tuple(statement for statement in _STATEMENTS if isinstance(statement, CreateTable))
_QUERIES = {statement.name: statement for statement in _STATEMENTS if isinstance(statement, CreateQuery)}
_PAIR = Pair.of(*_TABLES)
_TOPICS = (QUERIES, *(topic_of(table.name) for table in _TABLES), f"subscriptions.{_PAIR.name}")
_OPTIONS = StreamOptions()


@dataclass(frozen=True)
class PairReport:
    """What a simulated history came to."""

    seed: int
    violations: list[str]
    results: int
    restarts: int

    @property
    def ok(self) -> bool:
        """Whether everybody was told what they had to be."""
        return not self.violations


@dataclass
class _Feeder:
    """Says rows of a table under its own clock; what waits to be sent is lost when it dies."""

    table: CreateTable
    skew: int
    epoch: int = 1
    counter: int = 0
    at: int = 0
    waiting: list[pa.RecordBatch] = field(default_factory=list)


@dataclass
class _Pipeline:
    """A checkpoint, and the shard that runs on it."""

    name: str
    position: int = START
    batch: int = 0
    snapshot: bytes | None = None
    deltas: list[bytes] = field(default_factory=list)
    shard: PairShard = field(default_factory=lambda: PairShard(_PAIR))

    def rise(self) -> None:
        """As after a crash."""
        self.shard = PairShard(_PAIR)
        self.shard.restore(self.snapshot, self.deltas)


def simulate_pair(seed: int, steps: int = 120) -> PairReport:
    """Play a history of so many steps, and judge it. The same seed plays the same."""
    simulation = _Simulation(seed)
    for _ in range(steps):
        simulation.step()
    simulation.finish()
    return simulation.judge()


class _Simulation:
    def __init__(self, seed: int) -> None:
        self._seed, self._random = seed, random.Random(seed)
        self._log, self._now = MemoryLog(), 1_000_000 * SECOND
        for statement in _STATEMENTS:
            send(self._log, statement)
        self._feeders = [_Feeder(table, self._random.randint(-200_000, 200_000)) for table in _TABLES]
        self._pipelines = [_Pipeline("p0")]
        self._held: set[tuple[str, str]] = set()  # what a client knows of the results of `close`
        self._place: Position | None = None
        self._misheard: list[str] = []
        self._restarts = 0

    def step(self) -> None:
        """Something happens."""
        chance = self._random
        self._now += chance.randint(10_000, 400_000)
        chance.choices(
            [self._change, self._post, self._repeat, self._clock, self._read, self._people, self._die, self._listen],
            [35, 25, 4, 20, 15, 8, 5, 6],
        )[0]()

    def finish(self) -> None:
        """The weather turns calm: everything is sent, read and heard."""
        for feeder in self._feeders:
            self._send(feeder, len(feeder.waiting))
        self._now += 2 * _OPTIONS.lease
        for table in _TABLES:
            self._tick(table)
        self._read(whole=True)
        self._listen(whole=True)

    # -- what can happen ---------------------------------------------------------------------------------------------

    def _change(self) -> None:
        """A transaction of one feeder; now and then it has the time of another's."""
        chance, feeder = self._random, self._random.choice(self._feeders)
        other = max(one.at for one in self._feeders)
        at = other if chance.random() < 0.3 else self._now + feeder.skew
        feeder.at = max(at, feeder.at + 1)
        kinds, keys, rows = [], [], []
        for key in chance.sample(range(4), chance.choice([1, 1, 2])):
            row = (key, chance.choice("pq"), chance.choice([-1.0, 0.0, 0.1, 0.3, 1.0, 2.5]))
            said = [("delete", None)] if chance.random() < 0.3 else [("insert", row)]
            for kind, values in said if chance.random() < 0.5 else [("delete", None), *said]:
                kinds.append(kind)
                keys.append(str(key))
                rows.append(values)
        feeder.waiting.append(_batch(feeder, kinds, keys, rows))

    def _post(self) -> None:
        self._send(self._random.choice(self._feeders), 1)

    def _send(self, feeder: _Feeder, count: int) -> None:
        for batch in feeder.waiting[:count]:
            self._log.append(topic_of(feeder.table.name), batch)
        del feeder.waiting[:count]

    def _repeat(self) -> None:
        """An append that was not sure to have succeeded is made again; or somebody writes nonsense."""
        topic = topic_of(self._random.choice(_TABLES).name)
        entries = self._log.read(topic)
        payload = b"nobody can read this"
        if entries and self._random.random() < 0.8:
            payload = self._random.choice(entries[-5:]).payload
        self._log.append_packed([(topic, payload)])

    def _clock(self) -> None:
        self._tick(self._random.choice(_TABLES))

    def _tick(self, table: CreateTable) -> None:
        clock = clock_row(table.columns, self._now, 1, self._pipelines[-1].name)
        self._log.append(topic_of(table.name), clock)

    def _people(self) -> None:
        """Somebody subscribes or unsubscribes."""
        chance = self._random
        kind = Subscribe if chance.random() < 0.7 else Unsubscribe
        low = chance.choice([-1.0, 0.0, 0.2])
        values = (low, low + chance.choice([0.0, 1.0, 2.5]))
        statement = kind(chance.choice(["near", "same"]), values)
        self._log.append(_TOPICS[-1], subscription_row(statement, _QUERIES[statement.name], _TABLES))
        send(self._log, statement)

    def _die(self) -> None:
        """A feeder or the pipeline crashes, or a pipeline starts anew on an empty checkpoint."""
        choice = self._random.random()
        if choice < 0.4:
            feeder = self._random.choice(self._feeders)
            feeder.waiting, feeder.epoch, feeder.counter = [], feeder.epoch + 1, 0
            return
        self._restarts += 1
        if choice < 0.55:
            self._pipelines.append(_Pipeline(f"p{len(self._pipelines)}"))
        else:
            self._pipelines[-1].rise()

    def _read(self, whole: bool = False) -> None:
        """A batch of the newest pipeline: applied, written once, committed; it may die before the last."""
        pipeline, chance = self._pipelines[-1], self._random
        entries = self._log.read(_TOPICS, pipeline.position)
        if not whole and entries:
            entries = entries[: chance.randint(1, len(entries))]
        if not entries:
            return
        runs = 1 if whole or chance.random() >= 0.1 else 2  # the second: written, but not committed
        for run in range(runs):
            if run:
                pipeline.rise()
            outputs, delta = pipeline.shard.apply(entries)
            self._log.append_once(pipeline.name, pipeline.batch, [(o.topic, o.payload) for o in outputs])
        pipeline.position, pipeline.batch = entries[-1].position, pipeline.batch + 1
        pipeline.deltas.append(delta)
        if chance.random() < 0.2:
            pipeline.snapshot, pipeline.deltas = pipeline.shard.snapshot(), []

    def _listen(self, whole: bool = False) -> None:
        """A client comes up with what it kept, hears what there is, deals with some of it, and dies."""
        subscription = Client(self._log).subscribe("close", position=self._place)
        if self._place is None:
            self._held = set()
        ready = list(subscription.ready())
        while subscription.poll():
            ready += subscription.ready()
        whole |= self._place is None or self._random.random() < 0.5
        for change in ready if whole else ready[: self._random.randint(0, len(ready))]:
            result = _texts(change.row, "close")
            if (result in self._held) == (change.kind == "insert"):
                self._misheard.append(f"a client hears {change}, and holds {sorted(self._held)}")
            (self._held.add if change.kind == "insert" else self._held.discard)(result)
            self._place = change.position or self._place

    # -- judgement ---------------------------------------------------------------------------------------------------

    def judge(self) -> PairReport:
        """Hold what was said against what had to be."""
        truth = PairTruth(_TABLES, _OPTIONS.latency, _OPTIONS.lease)
        truth.read(self._log.read(_TOPICS))
        violations, told = list(self._misheard), self._told()
        for who in sorted({*truth.told, *told}):
            expected, heard = sorted(truth.told.get(who, [])), sorted(told.get(who, []))
            if heard != expected:
                violations.append(f"{who} was told {heard}, not {expected}")
        if self._held != truth.results(("close", 0)):
            violations.append(f"a client holds {sorted(self._held)}, not {sorted(truth.results(('close', 0)))}")
        return PairReport(self._seed, violations, sum(map(len, told.values())), self._restarts)

    def _told(self) -> dict[tuple[str, int], list[Told]]:
        """(query, subscription) → what was said to it, repeated steps left out, as a client would."""
        found: dict[tuple[str, int], list[Told]] = {}
        for query in _QUERIES:
            newest = -1
            for entry in self._log.read(f"answers.{query}"):
                rows = [row for row in unpack(entry.payload).to_pylist() if row["step"] > newest]
                for row in rows:
                    result = {n.removeprefix("row."): value for n, value in row.items() if n.startswith("row.")}
                    said = (row["step"], row["kind"], row["at"], *_texts(result, query))
                    for number in row["subscriptions"]:
                        found.setdefault((query, number), []).append(said)
                newest = max([newest, *(row["step"] for row in rows)])
        return found


def _texts(result: dict[str, Any], query: str) -> tuple[str, str]:
    """The rows that a result row is of, as `PairTruth.results` writes them."""
    select: Any = _QUERIES[query].select
    left, right = (
        repr({n.removeprefix(f"{name}."): value for n, value in result.items() if n.startswith(f"{name}.")})
        for name in (select.left, select.right)
    )
    return left, right


def _batch(feeder: _Feeder, kinds: list[str], keys: list[str], rows: list[Any]) -> pa.RecordBatch:
    n, columns = len(kinds), feeder.table.columns
    first = version(feeder.epoch, feeder.counter + 1)
    feeder.counter += n
    values = {
        column.name: pa.array([row[index] if row else None for row in rows], ARROW[column.type])
        for index, column in enumerate(columns)
    }
    return changes_batch(
        columns,
        kinds=kinds,
        keys=pa.array(keys, pa.string()),
        at=np.full(n, feeder.at),
        source=f"feeder of {feeder.table.name}",
        sequence=np.arange(first, first + n),
        through=np.full(n, feeder.at),
        values=values,
    )
