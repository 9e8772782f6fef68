"""The seeded fault simulator for tables: feeders, people, pipelines and clients in one process.

`simulate_table(seed)` plays one history and judges it: every subscription, to rows or to an aggregate, must have heard
exactly what brute force over the log says (`TableTruth`), once and in order, whatever was repeated, late, lost with a
crash or said again by a pipeline that started anew, and whichever channels it shared with whom by which version of the
channel table; and clients that die and resume must hold the rows of their range, and have heard each answer once.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from tolerant.client import Client, Position, send
from tolerant.kernels.versions import version
from tolerant.spark.kinds.tables import TableShard
from tolerant.sql import CreateQuery, CreateTable, Subscribe, Unsubscribe, parse
from tolerant.sql.statements import RangeAggregateSelect
from tolerant.sql.subscriptions import subscription_row
from tolerant.streams import SECOND, StreamOptions
from tolerant.testing.channel_hearing import ChannelHearing
from tolerant.testing.notice_hearing import answers_heard
from tolerant.testing.table_truth import Span, TableTruth, Told
from tolerant.transport.changes import ARROW, CLOCK, changes_batch, clock_row
from tolerant.transport.log import QUERIES, START
from tolerant.transport.memory import MemoryLog
from tolerant.transport.rows import unpack

_TABLE = parse("CREATE TABLE stock (id BIGINT, x DOUBLE, y INT) KEY (id)")
_QUERIES = {
    "area": parse(
        "CREATE QUERY area(low, high) AS SELECT * FROM stock WHERE x BETWEEN low AND high"
        " WITH (channel = 2, transfer = 1, waste = 0.5)"
    ),
    "box": parse(
        "CREATE QUERY box(low, top) AS SELECT * FROM stock WHERE x BETWEEN low AND 9 AND y BETWEEN 0 AND top"
        " WITH (channel = 4, transfer = 1, waste = 0.2, procedure = 'pieces')"
    ),
    "cheap": parse("CREATE QUERY cheap AS SELECT * FROM stock WHERE x BETWEEN 0 AND 5"),
    "least": parse("CREATE QUERY least(low, high) AS SELECT MIN(y) FROM stock WHERE x BETWEEN low AND high"),
    "kinds": parse("CREATE QUERY kinds(low, high) AS SELECT DISTINCT y FROM stock WHERE x BETWEEN low AND high"),
    "mean": parse("CREATE QUERY mean(low, high) AS SELECT AVG(y) FROM stock WHERE x BETWEEN low AND high"),
    "peak": parse("CREATE QUERY peak AS SELECT MAX(y) FROM stock WHERE x BETWEEN 0 AND 7"),
    "total": parse("CREATE QUERY total AS SELECT SUM(x) FROM stock WHERE x BETWEEN -1 AND 9"),
}
_TOPICS = (QUERIES, "changes.stock", "subscriptions.stock")
_OPTIONS = StreamOptions()


@dataclass(frozen=True)
class TableReport:
    """What a simulated history came to."""

    seed: int
    violations: list[str]
    deliveries: int
    restarts: int
    shared: int = 0
    """How often a subscription came to share a channel."""

    @property
    def ok(self) -> bool:
        """Whether everybody heard what they had to."""
        return not self.violations


@dataclass
class _Feeder:
    """Says rows under its own clock; what waits to be sent is lost when it dies."""

    name: str
    skew: int
    epoch: int = 1
    counter: int = 0
    at: int = 0
    waiting: list[pa.RecordBatch] = field(default_factory=list)


@dataclass
class _Watcher:
    """An application that watches an aggregate: what it has kept, answers by the step they were of, and its place."""

    query: str
    place: Position | None = None
    answers: list[tuple[int, Any]] = field(default_factory=list)


@dataclass
class _Holder:
    """An application that keeps the rows with x from 0 to 5: id → x, and its place."""

    query: str
    parameters: dict[str, float] = field(default_factory=dict)
    place: Position | None = None
    held: dict[int, float] = field(default_factory=dict)


@dataclass
class _Pipeline:
    """A checkpoint, and the shard that runs on it."""

    name: str
    position: int = START
    batch: int = 0
    snapshot: bytes | None = None
    deltas: list[bytes] = field(default_factory=list)
    shard: TableShard = field(default_factory=lambda: TableShard(_table()))


def simulate_table(seed: int, steps: int = 120) -> TableReport:
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
        send(self._log, _table())
        for query in _QUERIES.values():
            send(self._log, query)
        self._feeders = [_Feeder(f"f{n}", self._random.randint(-200_000, 200_000)) for n in range(2)]
        self._pipelines = [_Pipeline("p0")]
        self._holders = [_Holder("cheap"), _Holder("area", {"low": 0.0, "high": 5.0})]
        self._subscribe(Subscribe("area", (0.0, 5.0)))
        self._watchers = [_Watcher("peak"), _Watcher("total")]
        self._repeated: list[str] = []
        self._restarts = 0

    def step(self) -> None:
        """Something happens."""
        chance = self._random
        self._now += chance.randint(10_000, 400_000)
        likely = {
            self._change: 30, self._post: 25, self._repeat: 4, self._clock: 15, self._read: 15, self._people: 8,
            self._die: 5, self._listen: 6, self._wait: 3,
        }  # fmt: skip
        chance.choices(list(likely), list(likely.values()))[0]()

    def finish(self) -> None:
        """The weather turns calm: everything is sent, read and heard."""
        for feeder in self._feeders:
            self._send(feeder, len(feeder.waiting))
        self._now += 2 * _OPTIONS.lease
        self._clock()
        self._read(whole=True)
        self._listen()

    # -- what can happen ---------------------------------------------------------------------------------------------

    def _change(self) -> None:
        """A transaction of one feeder: some rows come, go or change."""
        feeder, chance = self._random.choice(self._feeders), self._random
        feeder.at = max(self._now + feeder.skew, feeder.at + 1)
        kinds, keys, rows = [], [], []
        for key in chance.sample(range(6), chance.choice([1, 1, 2, 3])):
            row = (key, chance.choice([-1.0, 0.0, 2.5, 5.0, 7.0, 9.0, 12.0]), chance.randint(-1, 3))
            said = [("delete", None)] if chance.random() < 0.3 else [("insert", row)]
            for kind, values in said if chance.random() < 0.5 else [("delete", None), *said]:
                kinds.append(kind)
                keys.append(str(key))
                rows.append(values)
        feeder.waiting.append(self._batch(feeder, kinds, keys, rows))

    def _batch(self, feeder: _Feeder, kinds: list[str], keys: list[str], rows: list[Any]) -> pa.RecordBatch:
        n, table = len(kinds), _table()
        first = version(feeder.epoch, feeder.counter + 1)
        feeder.counter += n
        values = {
            column.name: pa.array([row[index] if row else None for row in rows], ARROW[column.type])
            for index, column in enumerate(table.columns)
        }
        return changes_batch(
            table.columns,
            kinds=kinds,
            keys=pa.array(keys, pa.string()),
            at=np.full(n, feeder.at),
            source=feeder.name,
            sequence=np.arange(first, first + n),
            through=np.full(n, feeder.at),
            values=values,
        )

    def _post(self) -> None:
        self._send(self._random.choice(self._feeders), 1)

    def _send(self, feeder: _Feeder, count: int) -> None:
        for batch in feeder.waiting[:count]:
            self._log.append("changes.stock", batch)
        del feeder.waiting[:count]

    def _repeat(self) -> None:
        """An append that was not sure to have succeeded is made again; or somebody writes nonsense."""
        entries = self._log.read("changes.stock")
        if self._random.random() < 0.2 or not entries:
            self._log.append_packed([("changes.stock", b"nobody can read this")])
            return
        batch = unpack(self._random.choice(entries[-5:]).payload) if _readable(entries[-5:]) else None
        if batch is not None and CLOCK not in batch.column("kind").to_pylist():
            self._log.append("changes.stock", batch)

    def _wait(self) -> None:
        """A boundary or two pass."""
        self._now += self._random.randint(1, 20) * SECOND

    def _clock(self) -> None:
        newest = self._pipelines[-1].name
        self._log.append("changes.stock", clock_row(_table().columns, self._now, 1, newest))

    def _people(self) -> None:
        """Somebody subscribes or unsubscribes."""
        chance = self._random
        kind = Subscribe if chance.random() < 0.7 else Unsubscribe
        low = chance.choice([-1.0, 0.0, 2.5, 5.0])
        statement: Subscribe | Unsubscribe = kind("area", (low, low + chance.choice([0.0, 2.5, 10.0])))
        if chance.random() < 0.4:
            statement = kind("box", (low, chance.randint(0, 3)))
        elif chance.random() < 0.6:
            statement = kind(chance.choice(["least", "kinds", "mean"]), statement.values)
        self._subscribe(statement)

    def _subscribe(self, statement: Subscribe | Unsubscribe) -> None:
        query = _QUERIES[statement.name]
        assert isinstance(query, CreateQuery)
        self._log.append("subscriptions.stock", subscription_row(statement, query, _table()))
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
            return
        pipeline = self._pipelines[-1]
        pipeline.shard = TableShard(_table())
        pipeline.shard.restore(pipeline.snapshot, pipeline.deltas)

    def _read(self, whole: bool = False) -> None:
        """A batch of the newest pipeline: applied, written once, committed; it may die before the last."""
        pipeline, chance = self._pipelines[-1], self._random
        entries = self._log.read(_TOPICS, pipeline.position)
        if not whole and entries:
            entries = entries[: chance.randint(1, len(entries))]
        if not entries:
            return
        outputs, delta = pipeline.shard.apply(entries)
        said = [(output.topic, output.payload) for output in outputs]
        self._log.append_once(pipeline.name, pipeline.batch, said)
        if not whole and chance.random() < 0.1:
            # Written, but not committed: it is run again from the state before, with the same entries.
            pipeline.shard = TableShard(_table())
            pipeline.shard.restore(pipeline.snapshot, pipeline.deltas)
            outputs, delta = pipeline.shard.apply(entries)
            self._log.append_once(pipeline.name, pipeline.batch, [(o.topic, o.payload) for o in outputs])
        pipeline.position, pipeline.batch = entries[-1].position, pipeline.batch + 1
        pipeline.deltas.append(delta)
        if chance.random() < 0.2:
            pipeline.snapshot, pipeline.deltas = pipeline.shard.snapshot(), []

    def _listen(self) -> None:
        """Clients come up with what they kept, hear what there is, and die."""
        for watcher in self._watchers:
            self._watch(watcher)
        for holder in self._holders:
            self._hold(holder)

    def _hold(self, holder: _Holder) -> None:
        client = Client(self._log)
        if holder.place is None:
            holder.held = {}
            given = {name: [value] for name, value in holder.parameters.items()}
            subscription = client.subscriptions(holder.query, **given)[0]
        else:
            subscription = client.subscribe(holder.query, position=holder.place, **holder.parameters)
        ready = list(subscription.ready())
        while subscription.poll():
            ready += subscription.ready()
        for change in ready:
            if change.position and holder.place and change.position.mark <= holder.place.mark:
                self._repeated.append(f"a client hears {change} after {holder.place}")
            holder.place = change.position or holder.place
            if change.kind == "insert":
                holder.held[change.row["id"]] = change.row["x"]
            else:
                holder.held.pop(change.row["id"], None)

    def _watch(self, watcher: _Watcher) -> None:
        subscription = Client(self._log).subscribe(watcher.query, position=watcher.place)
        while subscription.poll():
            pass
        for change in subscription.ready():
            watcher.place = change.position
            watcher.answers.append((change.position.mark, change.value))

    # -- judgement ---------------------------------------------------------------------------------------------------

    def judge(self) -> TableReport:
        """Hold what was said against what had to be."""
        truth = TableTruth(_table(), _OPTIONS.latency, _OPTIONS.lease)
        truth.read(self._log.read(_TOPICS))
        violations, count = list(self._repeated), 0
        shared = 0
        for query in ("area", "box", "cheap"):
            hearing = self._hearing(query, truth)
            violations += [f"{query}: {fault}" for fault in hearing.faults]
            shared += self._shared(query)
            told = {number: [_as_told(row) for row in rows] for number, rows in hearing.told.items()}
            for number in sorted({*told, *(number for name, number in truth.told if name == query)}):
                expected, heard = truth.told.get((query, number), []), told.get(number, [])
                count += len(heard)
                if heard != expected:
                    violations.append(f"{query} {number} heard {heard}, not {expected}")
        for (query, number), spans in sorted(truth.spans.items()):
            select = _select(query)
            entries = self._log.read(f"notices.{query}")
            for span in spans:
                found = answers_heard(select, entries, span)
                count += len(found)
                if found != span.told:
                    violations.append(f"{query} {number} from {span.begin} heard {found}, not {span.told}")
        for watcher in self._watchers:
            violations += _misheard(watcher, truth.spans[watcher.query, 0][0])
        cheap = {int(key): row[1] for key, row in truth.rows.items() if 0 <= row[1] <= 5}
        violations += [
            f"a client of {holder.query} holds {holder.held}, not {cheap}"
            for holder in self._holders
            if holder.held != cheap
        ]
        return TableReport(self._seed, violations, count, self._restarts, shared)

    def _hearing(self, query: str, truth: TableTruth) -> ChannelHearing:
        """What the channels say, by their headers, to each subscription that there ever was."""
        given: dict[int, dict[str, Any]] = {0: {}}
        for entry in self._log.read("subscriptions.stock"):
            for row in unpack(entry.payload).to_pylist():
                if row["template"] == query:
                    given[row["id"]] = {name.removeprefix("parameter."): value for name, value in row.items()}

        def inside(number: int, row: dict[str, Any]) -> bool:
            return truth.inside(query, given[number], row)

        return ChannelHearing(inside).read(self._log.read((f"channels.{query}", f"answers.{query}")))

    def _shared(self, query: str) -> int:
        return sum(
            len(row["joined"])
            for entry in self._log.read(f"channels.{query}")
            for row in unpack(entry.payload).to_pylist()
            if row["channel"] >= 0
        )


def _as_told(row: dict[str, Any]) -> Told:
    values = tuple(row[f"row.{column.name}"] for column in _table().columns)
    return row["kind"], row["key"], row["at"], values


def _misheard(watcher: _Watcher, span: Span) -> list[str]:
    """What is wrong with the answers that a watcher was given: the first is current, the others are changes."""
    begin = watcher.answers[0][0]
    all_told = [(span.begin, span.first), *((step, value) for step, _, value in span.told)]
    expected = [(begin, [value for step, value in all_told if step <= begin][-1])]
    expected += [(step, value) for step, value in all_told if step > begin]
    return [] if watcher.answers == expected else [f"{watcher.query}: told {watcher.answers}, not {expected}"]


def _select(query: str) -> RangeAggregateSelect:
    statement = _QUERIES[query]
    assert isinstance(statement, CreateQuery)
    assert isinstance(statement.select, RangeAggregateSelect)
    return statement.select


def _table() -> CreateTable:
    assert isinstance(_TABLE, CreateTable)
    return _TABLE


def _readable(entries: list[Any]) -> bool:
    return all(not entry.payload.startswith(b"nobody") for entry in entries)
