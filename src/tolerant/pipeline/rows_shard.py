"""Base of the shards of tables and of pairs of tables: waiting rows, time, statements, subscriptions, the outputs that
are not a query's own, and state.

Everything is a function of the log, as for streams (`docs/design/pipeline.md` §3): changes wait for the watermark and
apply in the order (at, table, key, sequence), a late one at once; statements and subscriptions take effect at their
position in the log. The watermark is the smallest over the tables. A clock row counts whoever wrote it: there are no
grants that another pipeline could replace, so every pipeline that reads the log publishes the same rows with the same
numbers.
"""

from __future__ import annotations

import json
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Generic, Protocol, TypeVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tolerant.kernels import snapshots
from tolerant.pipeline.clocks import Clock
from tolerant.pipeline.hosting import Output, Replayed
from tolerant.pipeline.intake import DeadRow, capped, dead_payload, readable_row
from tolerant.pipeline.quarantined_rows import letter, skip_statements, why
from tolerant.pipeline.statements import dead_letter_and_reply_outputs, owner_of, statement_rows, take_statements
from tolerant.relations import Changes, Relation
from tolerant.relations.waiting import PendingChanges, no_changes
from tolerant.sql import Catalogue, CreateQuery, CreateTable, Drop, Statement, decode, encode
from tolerant.streams import Limits, StreamOptions
from tolerant.transport.changes import COMMON, ChangeRows, read_changes
from tolerant.transport.deliveries import rows_batch
from tolerant.transport.log import Entry
from tolerant.transport.quarantine import Quarantined, WaitingRow, is_marked, read_marked
from tolerant.transport.rows import NO_TIME, compacted, pack, unpack
from tolerant.transport.subscriptions import template_of
from tolerant.transport.topics import QUERIES, TopicKind, changes_topic, rows_topic, status_topic

Integers = NDArray[np.int64]
Arrays = Mapping[str, NDArray[Any]]

_OPTIONS = StreamOptions()
_TALLY = ("changes", "late", "dead", "deliveries")


class HostedQuery(Protocol):
    """What a shard needs of its queries, of whatever kind; each kind has its own `say`."""

    tally: str
    """What the rows that it says are counted under."""

    def __len__(self) -> int:
        """Number of subscriptions."""
        ...

    def take(self, batch: pa.RecordBatch) -> None:
        """Applies rows that subscribe and unsubscribe."""
        ...

    def figures(self) -> Mapping[str, float]:
        """Its own counts and shares, for the status."""
        ...

    def state(self) -> dict[str, NDArray[Any]]:
        """The state from which it can be restored."""
        ...


Query = TypeVar("Query", bound=HostedQuery)


class Side:
    """One table of a shard: its rows, the waiting changes, and the newest clock row."""

    def __init__(self, table: CreateTable) -> None:
        self.table, self.limits = table, table.options.limits
        self.relation = Relation(table.columns)
        self.waiting = PendingChanges(table.columns, _OPTIONS.lease)
        self.clock: int | None = None
        self.clock_rows = Clock(_OPTIONS.boundary)

    def clear(self) -> None:
        """Removes all rows and keeps the clock."""
        self.relation = Relation(self.table.columns)
        self.waiting.clear()

    def state(self) -> tuple[dict[str, NDArray[Any]], Any]:
        """The state as arrays and plain values."""
        arrays, relation = self.relation.state()
        found = {f"relation.{name}": array for name, array in arrays.items()}
        arrays, waiting = self.waiting.state()
        found |= {f"waiting.{name}": array for name, array in arrays.items()}
        return found, [relation, waiting, self.clock, self.clock_rows.state()]

    def load(self, arrays: Arrays, values: Any) -> None:
        """Restores what `state` returned."""
        relation, waiting, self.clock, clock_rows = values
        self.clock_rows = Clock.load(clock_rows)
        self.relation = Relation.load(self.table.columns, under("relation.", arrays), relation)
        self.waiting.load(under("waiting.", arrays), waiting)


class RowsShard(Replayed, Generic[Query]):
    """Queries over one table or several, hosted beside each other; `home` names the pipeline."""

    def __init__(self, home: str, sides: Sequence[Side], shard: int = 0) -> None:
        self._home, self._shard = home, shard
        self._sides = tuple(sides)
        self._side_of = {changes_topic(side.table.name): side for side in self._sides}
        self._catalogue = Catalogue()
        self._queries: dict[str, Query] = {}
        self._steps = 0
        self._tally = dict.fromkeys(_TALLY, 0)
        self._reported = -1  # the period of the last status
        self._outputs: list[Output] = []
        self._changed: list[tuple[Side, Changes, Integers]] = []  # since the last outputs
        self._replies: list[dict[str, object]] = []
        self._dead: list[DeadRow] = []

    # -- what a kind of shard defines --------------------------------------------------------------------------------

    @abstractmethod
    def _is_hosted(self, query: CreateQuery) -> bool:
        """Whether this kind of shard hosts such a query."""

    @abstractmethod
    def _make(self, query: CreateQuery, state: Arrays | None) -> Query:
        """Creates the query, new or restored from `state`."""

    @abstractmethod
    def _tell(self, effects: Sequence[Changes], steps: Sequence[Integers]) -> None:
        """Publishes (`_say_for`) what the changes, which each side has just applied, mean for each query."""

    def _advance(self, before: int | None, due: Sequence[Changes]) -> None:
        """Applies (`_apply`) the changes that are due after the watermark has advanced from `before`."""
        self._apply(due)

    def _taken(self, query: Query) -> None:
        """Called when subscriptions to a query have been added or removed."""

    def _called(self, side: Side) -> str | None:
        """The prefix of the keys of a side's rows in the topic of rows."""
        return side.table.name if len(self._sides) > 1 else None

    def _explanations(self) -> dict[str, Any]:
        """What `tolerant explain` shows of the queries, as JSON values, by key of the status topic."""
        return {}

    def take(self, batch: Sequence[Entry]) -> list[Output]:
        """Applies entries in log order; returns the outputs."""
        for entry in batch:
            if is_marked(entry.topic):
                self._skip(read_marked(entry))
            elif entry.topic == QUERIES:
                self._statements(entry.payload)
            elif TopicKind.SUBSCRIPTIONS.matches(entry.topic):
                self._subscribe(entry.payload)
            elif entry.topic in self._side_of:
                self._rows(self._side_of[entry.topic], entry.payload)
            else:
                self._dead.append(
                    dead_payload(f"this pipeline does not read the topic {entry.topic!r:.80}", entry.payload)
                )
        return self._say()

    @property
    def watermark(self) -> int | None:
        """Event time up to which all rows are applied, microseconds; None until every table has had a clock row."""
        return self._sides[0].waiting.watermark

    # -- rows ------------------------------------------------------------------------------------------------------

    def _rows(self, side: Side, payload: bytes) -> None:
        try:
            batch = unpack(payload, side.limits)
            found = read_changes(batch, side.table.columns, side.limits.key_length)
        except ValueError as error:
            self._dead.append(dead_payload(error, payload))
            return
        self._dead += _unusable(batch, found, side.limits)
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
            before, watermark = self.watermark, min(clocks) - _OPTIONS.latency
            self._advance(before, [one.waiting.release(watermark) for one in self._sides])
        self._dead += _too_early(ahead, at, side.limits.dead_letters)

    def _skip(self, skipped: Quarantined) -> None:
        """Skips an entry in quarantine: drops its rows and subscriptions, and the waiting rows that the quarantine
        record names.
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
        """The changes that wait for the watermark."""
        return [row for side in self._sides for row in _waiting_rows(side.waiting.everything())]

    def _apply(self, found: Sequence[Changes]) -> None:
        """Applies the ordered changes of each side and publishes the effects to the current subscriptions."""
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
        """The step of each change: consecutive numbers over all sides, by (at, table), each side's in its order."""
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
        reply = {"request": request, "key": statement.about, "at": self.watermark or 0}
        self._replies.append(reply | {"accepted": outcome.accepted, "message": outcome.message})

    def _carry_out(self, statement: Statement) -> None:
        match statement:
            case CreateQuery(name=name) if self._is_hosted(statement):
                self._queries[name] = self._make(statement, None)
            case Drop(what="query", name=name):
                self._queries.pop(name, None)

    def _forget(self, side: Side) -> None:
        """Removes the rows of a dropped table: one that is created with its name later starts empty."""
        keys, size = side.relation.keys(), len(side.relation)
        none = np.zeros(size, np.int64)
        gone = Changes(none != 0, keys, none, none.astype(np.int32), ("",), none, side.relation.rows())
        self._changed.append((side, gone, self._steps + 1 + np.arange(size)))
        self._steps += size
        side.clear()

    def _subscribe(self, payload: bytes) -> None:
        try:
            batch = unpack(payload)
            template = template_of(batch)
            if template not in self._queries:
                raise ValueError(f"there is no template {template!r}")
            self._queries[template].take(batch)
            self._taken(self._queries[template])
        except ValueError as error:
            self._dead.append(dead_payload(f"subscriptions cannot be used: {error}", payload))

    # -- outputs ---------------------------------------------------------------------------------------------------

    def _say(self) -> list[Output]:
        outputs, self._outputs = self._outputs, []
        if self._shard:  # all shards read the same statements and unusable rows: only the first publishes them
            self._dead, self._replies = [], []
        for side, effects, steps in self._changed:
            batch = rows_batch(side.table.columns, effects, steps, self._called(side))
            outputs.append(Output(rows_topic(self._home), pack(batch)))
        self._changed = []
        self._tally["dead"] += sum(row.count for row in self._dead)
        outputs += dead_letter_and_reply_outputs(self._home, self._dead, self._replies)
        self._dead, self._replies = [], []
        period = (self.watermark or 0) // _OPTIONS.boundary
        if self.watermark is not None and period > self._reported:
            self._reported = period
            outputs.append(self._status())
        return outputs

    def _status(self) -> Output:
        """Packs the status of the tables for `tolerant status`."""
        figures = {name: query.figures() for name, query in self._queries.items()}
        summary = {
            "table": self._home,
            "watermark": self.watermark,
            "rows": self._size(),
            **self._tally,
            "duplicates": sum(side.relation.duplicates for side in self._sides),
            "unknown": sum(side.relation.unknown for side in self._sides),
            "subscriptions": {name: len(query) for name, query in self._queries.items()},
            "figures": {name: own for name, own in figures.items() if own},
        }
        said = {f"summary/{self._shard}": summary, **self._explanations()}
        rows = [(key, self.watermark or 0, json.dumps(body).encode()) for key, body in said.items()]
        return Output(status_topic(self._home), pack(compacted(rows)))

    def _size(self) -> int:
        """Number of rows over all sides."""
        return sum(len(side.relation) for side in self._sides)

    # -- state -----------------------------------------------------------------------------------------------------

    def snapshot(self) -> bytes:
        """The state as bytes. Between batches no outputs are pending, so it contains none."""
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
        """Restores what `snapshot` returned, bit for bit."""
        arrays, values = snapshots.unpack(snapshot)
        sides, queries, statements, self._steps, self._tally, self._reported = values
        self._catalogue = Catalogue(decode(statement) for statement in statements)
        for side, held in zip(self._sides, sides, strict=True):
            side.load(under(f"table/{side.table.name}/", arrays), held)
        self._queries = {
            name: self._make(self._catalogue.queries[name], under(f"query/{name}/", arrays)) for name in queries
        }


def _unusable(batch: pa.RecordBatch, rows: ChangeRows, limits: Limits) -> list[DeadRow]:
    """Dead letters of the unusable rows; only those that get one of their own are read one by one."""
    count = _alone(len(rows.dead), limits.dead_letters)
    common = batch.select([name for name, _ in COMMON]).take(pa.array(rows.dead[:count]))
    reasons = [rows.reasons[code] for code in rows.codes[:count]]
    letters = zip(common.to_pylist(), reasons, strict=True)
    return capped(
        [readable_row(row, reason, limits.key_length) for row, reason in letters]
        + _summed(rows.codes[count:], lambda code: rows.reasons[code]),
        limits.dead_letters,
    )


def _too_early(ahead: Changes, at: int, most: int) -> list[DeadRow]:
    """The dead letters of changes that are ahead of the clock row at `at`."""

    def reason(time: int) -> str:
        return f"at is {time - at} µs ahead of the pipeline's clock, more than a lease"

    count = _alone(len(ahead), most)
    letters = [_dead_change(ahead, row, reason(int(ahead.at[row]))) for row in range(count)]
    return capped(letters + _summed(ahead.at[count:], reason), most)


def _alone(size: int, most: int) -> int:
    """How many of `size` rows get a dead letter of their own, so that `capped` merges none of them."""
    return size if size <= most + 1 else most


def _summed(codes: Integers, reason: Callable[[int], str]) -> list[DeadRow]:
    """Dead letters that sum up the other rows: one for the most common reason, one for all others."""
    if not len(codes):
        return []
    values, first, counts = np.unique(codes, return_index=True, return_counts=True)
    best = np.lexsort((first, -counts))[0]
    others = len(codes) - int(counts[best])
    letters = [DeadRow(reason(int(values[best])), count=int(counts[best]))]
    return letters + [DeadRow("others", count=others)] * (others > 0)


def _waiting_rows(changes: Changes) -> list[WaitingRow]:
    sources = [changes.sources[source] for source in changes.source.tolist()]
    return [WaitingRow(*row) for row in zip(changes.keys.tolist(), sources, changes.sequence.tolist(), strict=True)]


def _dead_change(changes: Changes, row: int, reason: str) -> DeadRow:
    kind = "insert" if changes.insert[row] else "delete"
    source, sequence = changes.sources[changes.source[row]], int(changes.sequence[row])
    return DeadRow(reason, kind, str(changes.keys[row]), int(changes.at[row]), source, sequence)


def under(prefix: str, arrays: Arrays) -> dict[str, NDArray[Any]]:
    """The arrays whose names begin with `prefix`, without it."""
    return {name.removeprefix(prefix): array for name, array in arrays.items() if name.startswith(prefix)}
