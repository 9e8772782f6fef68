"""What the shards of tables and of pairs of tables share: rows that wait, time, statements, subscriptions, what is
said beside the queries' own, and state.

Everything is a function of the log, as for streams (`specs/0-pipeline.md` §3): changes wait for the horizon and apply
in the order (at, table, key, sequence), a late one at once; statements and subscriptions take effect where they stand.
The horizon is the smallest over the tables. A clock row counts whoever wrote it: there are no grants that a rival could
confuse, and so every pipeline that reads the log, also one that starts anew, says the same under the same numbers.
"""

from __future__ import annotations

import json
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, Generic, Protocol, TypeVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tolerant.kernels import snapshots
from tolerant.relations import Changes, Relation
from tolerant.relations.waiting import Waiting, no_changes
from tolerant.spark.clocks import Clock
from tolerant.spark.hosting import Output, Replayed
from tolerant.spark.intake import DeadRow, capped, dead_payload, readable_row
from tolerant.spark.kinds.skipping import letter, skip_statements, why
from tolerant.spark.kinds.statements import owner_of, said_letters, statement_rows, take_statements
from tolerant.sql import Catalogue, CreateQuery, CreateTable, Drop, Statement, decode, encode
from tolerant.streams import StreamOptions
from tolerant.transport.changes import COMMON, read_changes, topic_of
from tolerant.transport.deliveries import rows_batch, rows_topic
from tolerant.transport.log import QUERIES, Entry
from tolerant.transport.quarantine import Quarantined, WaitingRow, is_marked, read_marked
from tolerant.transport.rows import NO_TIME, compacted, pack, unpack
from tolerant.transport.subscriptions import template_of

Integers = NDArray[np.int64]
Arrays = Mapping[str, NDArray[Any]]

_OPTIONS = StreamOptions()
_LIMITS = _OPTIONS.limits
_TALLY = ("changes", "late", "dead", "deliveries")


class HostedQuery(Protocol):
    """What a shard asks of its queries, whatever they are over; `say` is each kind's own."""

    tally: str
    """What the rows that it says are counted under."""

    def __len__(self) -> int:
        """How many subscriptions there are."""
        ...

    def take(self, batch: pa.RecordBatch) -> None:
        """Subscribe and unsubscribe."""
        ...

    def figures(self) -> Mapping[str, float]:
        """Counts and shares of its own."""
        ...

    def state(self) -> dict[str, NDArray[Any]]:
        """What it needs to become itself again."""
        ...


Query = TypeVar("Query", bound=HostedQuery)


class Side:
    """One table of a shard: its rows, the changes that wait, and the newest clock row."""

    def __init__(self, table: CreateTable) -> None:
        self.table = table
        self.relation = Relation(table.columns)
        self.waiting = Waiting(table.columns, _OPTIONS.lease)
        self.clock: int | None = None
        self.clock_rows = Clock(_OPTIONS.boundary)

    def clear(self) -> None:
        """Let go of the rows; time stays."""
        self.relation = Relation(self.table.columns)
        self.waiting.clear()

    def state(self) -> tuple[dict[str, NDArray[Any]], Any]:
        """Everything as arrays and plain values."""
        arrays, relation = self.relation.state()
        found = {f"relation.{name}": array for name, array in arrays.items()}
        arrays, waiting = self.waiting.state()
        found |= {f"waiting.{name}": array for name, array in arrays.items()}
        return found, [relation, waiting, self.clock, self.clock_rows.state()]

    def load(self, arrays: Arrays, values: Any) -> None:
        """Become what `state` said."""
        relation, waiting, self.clock, clock_rows = values
        self.clock_rows = Clock.load(clock_rows)
        self.relation = Relation.load(self.table.columns, under("relation.", arrays), relation)
        self.waiting.load(under("waiting.", arrays), waiting)


class RowsShard(Replayed, Generic[Query]):
    """Queries over one table or several, hosted beside each other; `home` names the pipeline."""

    def __init__(self, home: str, sides: Sequence[Side], shard: int = 0) -> None:
        self._home, self._shard = home, shard
        self._sides = tuple(sides)
        self._side_of = {topic_of(side.table.name): side for side in self._sides}
        self._catalogue = Catalogue()
        self._queries: dict[str, Query] = {}
        self._steps = 0
        self._tally = dict.fromkeys(_TALLY, 0)
        self._reported = -1  # the period of the last status
        self._outputs: list[Output] = []
        self._changed: list[tuple[Side, Changes, Integers]] = []  # since the last batch was said
        self._replies: list[dict[str, object]] = []
        self._dead: list[DeadRow] = []

    # -- what a kind of shard says -----------------------------------------------------------------------------------

    @abstractmethod
    def _is_hosted(self, query: CreateQuery) -> bool:
        """Whether there is a class for such a query."""

    @abstractmethod
    def _make(self, query: CreateQuery, state: Arrays | None) -> Query:
        """The query, new or as `state` says."""

    @abstractmethod
    def _tell(self, effects: Sequence[Changes], steps: Sequence[Integers]) -> None:
        """Say (`_say_for`) what the changes, which each side has just taken, are to each query."""

    def _advance(self, before: int | None, due: Sequence[Changes]) -> None:
        """The horizon has moved on, from `before`: apply (`_apply`) what has come due."""
        self._apply(due)

    def _taken(self, query: Query) -> None:
        """Subscriptions to a query have come or gone."""

    def _called(self, side: Side) -> str | None:
        """What the rows of a side have before their keys, in the topic of rows."""
        return side.table.name if len(self._sides) > 1 else None

    def _explanations(self) -> dict[str, Any]:
        """What queries have to say for `tolerant explain`, as JSON has it, by key of the status topic."""
        return {}

    def take(self, batch: Sequence[Entry]) -> list[Output]:
        """Take entries in log order; what to say."""
        for entry in batch:
            if is_marked(entry.topic):
                self._skip(read_marked(entry))
            elif entry.topic == QUERIES:
                self._statements(entry.payload)
            elif entry.topic.startswith("subscriptions."):
                self._subscribe(entry.payload)
            elif entry.topic in self._side_of:
                self._rows(self._side_of[entry.topic], entry.payload)
            else:
                self._dead.append(dead_payload(f"nobody here reads the topic {entry.topic!r:.80}", entry.payload))
        return self._say()

    @property
    def horizon(self) -> int | None:
        """Everything up to it has been applied, microseconds; None before every table had a clock row."""
        return self._sides[0].waiting.horizon

    # -- rows ------------------------------------------------------------------------------------------------------

    def _rows(self, side: Side, payload: bytes) -> None:
        try:
            batch = unpack(payload, _LIMITS)
            found = read_changes(batch, side.table.columns, _LIMITS.key_length)
        except ValueError as error:
            self._dead.append(dead_payload(error, payload))
            return
        common = batch.select([name for name, _ in COMMON]).take(pa.array([row for row, _ in found.dead], pa.int64()))
        reasons = zip(common.to_pylist(), (reason for _, reason in found.dead), strict=True)
        self._dead += capped(
            [readable_row(row, reason, _LIMITS.key_length) for row, reason in reasons], _LIMITS.dead_letters
        )
        begin = 0
        for clock in found.clocks.tolist():
            self._add(side, found.changes.take((found.rows >= begin) & (found.rows < clock)))
            begin = clock
            at = batch.column("at")[clock].as_py()
            if at != NO_TIME:
                times, refused = side.clock_rows.take(at)
                self._dead += refused
                for time in times:
                    self._tick(side, time)
        self._add(side, found.changes.take(found.rows >= begin))

    def _add(self, side: Side, changes: Changes) -> None:
        late = side.waiting.add(changes)
        self._tally["late"] += len(late)
        self._apply([late if one is side else no_changes(one.table.columns) for one in self._sides])

    def _tick(self, side: Side, at: int) -> None:
        ahead = side.waiting.judge(at)
        side.clock = at if side.clock is None else max(at, side.clock)
        clocks = [one.clock for one in self._sides if one.clock is not None]
        if len(clocks) == len(self._sides):
            before, horizon = self.horizon, min(clocks) - _OPTIONS.latency
            self._advance(before, [one.waiting.release(horizon) for one in self._sides])
        refused = []
        for row in range(len(ahead)):
            reason = f"at is {int(ahead.at[row]) - at} µs ahead of the pipeline's clock, more than a lease"
            refused.append(_dead_change(ahead, row, reason))
        self._dead += capped(refused, _LIMITS.dead_letters)

    def _skip(self, skipped: Quarantined) -> None:
        """An entry in quarantine: its rows and subscriptions do not come, nor those that waited for its clock row and
        are at fault.
        """
        self._dead.append(letter(skipped))
        if skip_statements(skipped, self._catalogue, self._statement):
            dropped = {row.key for row in skipped.rows or () if row.kind == "drop"}
            for side in self._sides:
                if side.table.name in dropped:
                    self._forget(side)
            return
        for side in self._sides:
            gone = side.waiting.drop(
                lambda some: np.fromiter((skipped.drops(row) for row in _waiting_rows(some)), np.bool_, len(some))
            )
            self._dead += [_dead_change(gone, row, why(skipped)) for row in range(len(gone))]

    def waiting_rows(self) -> list[WaitingRow]:
        """The changes that wait for their time."""
        return [row for side in self._sides for row in _waiting_rows(side.waiting.everything())]

    def _apply(self, found: Sequence[Changes]) -> None:
        """Apply changes that are in order, each side's, and tell the subscriptions that there are now."""
        self._tally["changes"] += sum(map(len, found))
        effects = [
            side.relation.apply(changes) if len(changes) else changes
            for side, changes in zip(self._sides, found, strict=True)
        ]
        if not any(map(len, effects)):
            return
        steps = self._numbered(effects)
        self._changed += [one for one in zip(self._sides, effects, steps, strict=True) if len(one[1])]
        self._tell(effects, steps)

    def _numbered(self, effects: Sequence[Changes]) -> list[Integers]:
        """The step of each change: they count on over all sides, by (at, table), each side's in its order."""
        sizes = [len(one) for one in effects]
        order = np.argsort(np.concatenate([one.at for one in effects]), kind="stable")
        steps = np.empty(sum(sizes), np.int64)
        steps[order] = self._steps + 1 + np.arange(len(order))
        self._steps += len(order)
        return np.split(steps, np.cumsum(sizes)[:-1])

    def _say_for(self, query: Query, said: Sequence[tuple[str, pa.RecordBatch]]) -> None:
        for topic, batch in said:
            self._tally[query.tally] = self._tally.get(query.tally, 0) + len(batch)
            self._outputs.append(Output(topic, pack(batch)))

    # -- statements and subscriptions --------------------------------------------------------------------------------

    def _statements(self, payload: bytes) -> None:
        take_statements(statement_rows(payload, self._dead), self._statement, self._dead)

    def _statement(self, request: str, statement: Statement) -> None:
        ours = owner_of(statement, self._catalogue) == self._home
        outcome = self._catalogue.apply(statement)
        if outcome.changed and isinstance(statement, Drop) and statement.what == "table":
            for side in self._sides:
                if side.table.name == statement.name:
                    self._forget(side)
        if not ours:
            return
        if outcome.accepted and outcome.changed:
            self._carry_out(statement)
        reply = {"request": request, "key": statement.about, "at": self.horizon or 0}
        self._replies.append(reply | {"accepted": outcome.accepted, "message": outcome.message})

    def _carry_out(self, statement: Statement) -> None:
        match statement:
            case CreateQuery(name=name) if self._is_hosted(statement):
                self._queries[name] = self._make(statement, None)
            case Drop(what="query", name=name):
                self._queries.pop(name, None)

    def _forget(self, side: Side) -> None:
        """The table is dropped: one that is created under its name later starts without its rows."""
        keys, size = side.relation.keys(), len(side.relation)
        none = np.zeros(size, np.int64)
        gone = Changes(none != 0, keys, none, none.astype(np.int32), ("",), none, side.relation.rows())
        self._changed.append((side, gone, self._steps + 1 + np.arange(size)))
        self._steps += size
        side.clear()

    def _subscribe(self, payload: bytes) -> None:
        try:
            batch = unpack(payload, _LIMITS)
            template = template_of(batch)
            if template not in self._queries:
                raise ValueError(f"there is no template {template!r}")
            self._queries[template].take(batch)
            self._taken(self._queries[template])
        except ValueError as error:
            self._dead.append(dead_payload(f"subscriptions cannot be used: {error}", payload))

    # -- saying ----------------------------------------------------------------------------------------------------

    def _say(self) -> list[Output]:
        outputs, self._outputs = self._outputs, []
        if self._shard:  # all shards read the same statements and find the same rows unusable: the first says so
            self._dead, self._replies = [], []
        for side, effects, steps in self._changed:
            batch = rows_batch(side.table.columns, effects, steps, self._called(side))
            outputs.append(Output(rows_topic(self._home), pack(batch)))
        self._changed = []
        self._tally["dead"] += sum(row.count for row in self._dead)
        outputs += said_letters(self._home, self._dead, self._replies)
        self._dead, self._replies = [], []
        period = (self.horizon or 0) // _OPTIONS.boundary
        if self.horizon is not None and period > self._reported:
            self._reported = period
            outputs.append(self._status())
        return outputs

    def _status(self) -> Output:
        """How the tables are, for `tolerant status`."""
        figures = {name: query.figures() for name, query in self._queries.items()}
        summary = {
            "table": self._home,
            "horizon": self.horizon,
            "rows": self._size(),
            **self._tally,
            "duplicates": sum(side.relation.duplicates for side in self._sides),
            "unknown": sum(side.relation.unknown for side in self._sides),
            "subscriptions": {name: len(query) for name, query in self._queries.items()},
            "figures": {name: own for name, own in figures.items() if own},
        }
        said = {f"summary/{self._shard}": summary, **self._explanations()}
        rows = [(key, self.horizon or 0, json.dumps(body).encode()) for key, body in said.items()]
        return Output(f"status.{self._home}", pack(compacted(rows)))

    def _size(self) -> int:
        """How many rows there are."""
        return sum(len(side.relation) for side in self._sides)

    # -- state -----------------------------------------------------------------------------------------------------

    def snapshot(self) -> bytes:
        """All of the state as bytes; nothing is left unsaid between batches."""
        found: dict[str, NDArray[Any]] = {}
        sides = []
        for side in self._sides:
            arrays, values = side.state()
            found |= {f"table/{side.table.name}/{name}": array for name, array in arrays.items()}
            sides.append(values)
        for name, query in self._queries.items():
            found |= {f"query/{name}/{part}": array for part, array in query.state().items()}
        statements = [encode(statement) for statement in self._catalogue.statements()]
        values = [sides, list(self._queries), statements, self._steps, self._tally, self._reported]
        return snapshots.pack(found, values)

    def load(self, snapshot: bytes) -> None:
        """Become what `snapshot` said, bit for bit."""
        arrays, values = snapshots.unpack(snapshot)
        sides, queries, statements, self._steps, self._tally, self._reported = values
        self._catalogue = Catalogue(decode(statement) for statement in statements)
        for side, held in zip(self._sides, sides, strict=True):
            side.load(under(f"table/{side.table.name}/", arrays), held)
        self._queries = {
            name: self._make(self._catalogue.queries[name], under(f"query/{name}/", arrays)) for name in queries
        }


def _waiting_rows(changes: Changes) -> list[WaitingRow]:
    sources = [changes.sources[source] for source in changes.source.tolist()]
    return [WaitingRow(*row) for row in zip(changes.keys.tolist(), sources, changes.sequence.tolist(), strict=True)]


def _dead_change(changes: Changes, row: int, reason: str) -> DeadRow:
    kind = "insert" if changes.insert[row] else "delete"
    source, sequence = changes.sources[changes.source[row]], int(changes.sequence[row])
    return DeadRow(reason, kind, str(changes.keys[row]), int(changes.at[row]), source, sequence)


def under(prefix: str, arrays: Arrays) -> dict[str, NDArray[Any]]:
    """The arrays whose names begin so, under the rest of their names."""
    return {name.removeprefix(prefix): array for name, array in arrays.items() if name.startswith(prefix)}
