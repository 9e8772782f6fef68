"""The seeded fault simulator for tables: feeders, people, pipelines and clients in one process.

`simulate_table(seed)` plays one history and checks it: every subscription, to rows or to an aggregate, must have
received exactly what brute force over the log yields (`TableTruth`), once and in order, whatever was repeated, late,
lost in a crash or published again by a pipeline that started from an empty checkpoint, and whichever channels it
shared with others in any version of the channel table; and clients that crash and resume must have the rows of their
range, and have received each answer once.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from tolerant.client import Client, Position
from tolerant.kinds.notices.select import RangeAggregateSelect
from tolerant.kinds.tables.shard import TableShard
from tolerant.sql import CreateQuery, CreateTable, Subscribe, Unsubscribe, parse
from tolerant.streams import SECOND
from tolerant.testing.channel_listener import ChannelListenerFactory
from tolerant.testing.notice_listener import answers_heard
from tolerant.testing.rows_simulation import OPTIONS, RowsSimulation
from tolerant.testing.table_truth import Span, TableTruth, Told
from tolerant.transport.rows import unpack
from tolerant.transport.topics import answers_topic, channels_topic, notices_topic, subscriptions_topic

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


def simulate_table(seed: int, steps: int = 120) -> TableReport:
    """Play a history of so many steps, and judge it. The same seed plays the same."""
    simulation = _Simulation(seed)
    simulation.play(steps)
    return simulation.judge()


class _Simulation(RowsSimulation):
    KEYS, SIZES = 6, (1, 1, 2, 3)

    def __init__(self, seed: int) -> None:
        feeders = [(f"f{n}", _table()) for n in range(2)]
        super().__init__(seed, [_TABLE, *_QUERIES.values()], "stock", lambda: TableShard(_table()), feeders)
        self._holders = [_Holder("cheap"), _Holder("area", {"low": 0.0, "high": 5.0})]
        self._ask(Subscribe("area", (0.0, 5.0)))
        self._watchers = [_Watcher("peak"), _Watcher("total")]
        self._repeated: list[str] = []

    def _likely(self) -> dict[Callable[[], None], int]:
        return super()._likely() | {self._change: 30, self._clock: 15, self._wait: 3}

    def _wait(self) -> None:
        """A boundary or two pass."""
        self._now += self._random.randint(1, 20) * SECOND

    def _row(self, key: int) -> tuple[Any, ...]:
        return key, self._random.choice([-1.0, 0.0, 2.5, 5.0, 7.0, 9.0, 12.0]), self._random.randint(-1, 3)

    def _statement(self) -> Subscribe | Unsubscribe:
        chance = self._random
        kind = Subscribe if chance.random() < 0.7 else Unsubscribe
        low = chance.choice([-1.0, 0.0, 2.5, 5.0])
        statement: Subscribe | Unsubscribe = kind("area", (low, low + chance.choice([0.0, 2.5, 10.0])))
        if chance.random() < 0.4:
            return kind("box", (low, chance.randint(0, 3)))
        if chance.random() < 0.6:
            return kind(chance.choice(["least", "kinds", "mean"]), statement.values)
        return statement

    def _listen(self, whole: bool = False) -> None:
        """Clients come up with what they kept, hear what there is, and die."""
        for watcher in self._watchers:
            self._watch(watcher)
        for holder in self._holders:
            self._hold(holder)

    def _hold(self, holder: _Holder) -> None:
        client = Client(self._log)
        if holder.place is None:
            holder.held = {}
            given: dict[str, Any] = {name: [value] for name, value in holder.parameters.items()}
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
        """Checks the published rows and answers against the truth."""
        truth = TableTruth(_table(), OPTIONS.latency, OPTIONS.lease)
        truth.read(self._log.read(self._topics))
        violations, count = list(self._repeated), 0
        shared = 0
        for query in ("area", "box", "cheap"):
            hearing = self._hearing(query, truth)
            violations += [f"{query}: {fault}" for fault in hearing.faults]
            shared += self._shared(query)
            received = {number: [_as_told(row) for row in rows] for number, rows in hearing.told.items()}
            for number in sorted({*received, *(number for name, number in truth.told if name == query)}):
                expected, actual = truth.told.get((query, number), []), received.get(number, [])
                count += len(actual)
                if actual != expected:
                    violations.append(f"{query} {number} heard {actual}, not {expected}")
        for (query, number), spans in sorted(truth.spans.items()):
            select = _select(query)
            entries = self._log.read(notices_topic(query))
            for span in spans:
                answers = answers_heard(select, entries, span)
                count += len(answers)
                if answers != span.told:
                    violations.append(f"{query} {number} from {span.begin} heard {answers}, not {span.told}")
        for watcher in self._watchers:
            violations += _misheard(watcher, truth.spans[watcher.query, 0][0])
        cheap = {int(key): row[1] for key, row in truth.rows.items() if 0 <= row[1] <= 5}
        violations += [
            f"a client of {holder.query} holds {holder.held}, not {cheap}"
            for holder in self._holders
            if holder.held != cheap
        ]
        return TableReport(self._seed, violations, count, self._restarts, shared)

    def _hearing(self, query: str, truth: TableTruth) -> ChannelListenerFactory:
        """What the channels say, by their headers, to each subscription that there ever was."""
        given: dict[int, dict[str, Any]] = {0: {}}
        for entry in self._log.read(subscriptions_topic("stock")):
            for row in unpack(entry.payload).to_pylist():
                if row["template"] == query:
                    given[row["id"]] = {name.removeprefix("parameter."): value for name, value in row.items()}

        def inside(number: int, row: dict[str, Any]) -> bool:
            return truth.inside(query, given[number], row)

        return ChannelListenerFactory(inside).read(self._log.read((channels_topic(query), answers_topic(query))))

    def _shared(self, query: str) -> int:
        return sum(
            len(row["joined"])
            for entry in self._log.read(channels_topic(query))
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
    return RangeAggregateSelect.of(statement)


def _table() -> CreateTable:
    assert isinstance(_TABLE, CreateTable)
    return _TABLE
