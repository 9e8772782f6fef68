"""Base of the shards of tables and of pairs of tables: rows of the tables, subscriptions, and the rows that are left.

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
from dataclasses import replace
from typing import Any, Generic, Protocol, TypeVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tolerant.kernels.snapshots import State
from tolerant.pipeline.clocks import longest_jump
from tolerant.pipeline.event_time import EventTime, EventTimeBuffer
from tolerant.pipeline.hosting import Output
from tolerant.pipeline.intake import DeadRow, capped, dead_payload, readable_row
from tolerant.pipeline.late_sources import LateSources
from tolerant.pipeline.quarantined_rows import why
from tolerant.pipeline.row_batches import ChangeBatches
from tolerant.pipeline.shard import Shard
from tolerant.relations import Changes, Relation
from tolerant.relations.change_batches import in_order
from tolerant.sql import CreateQuery, CreateTable, Drop, Statement
from tolerant.streams import Limits, StreamOptions
from tolerant.transport.changes import COMMON, ChangeRows, read_changes
from tolerant.transport.deliveries import rows_batch
from tolerant.transport.log import Entry
from tolerant.transport.quarantine import Quarantined, WaitingRow
from tolerant.transport.rows import compacted, pack, unpack
from tolerant.transport.subscriptions import template_of
from tolerant.transport.topics import changes_topic, rows_topic, status_topic, subscriptions_topic

Integers = NDArray[np.int64]

_OPTIONS = StreamOptions()
_COUNTERS = ("changes", "late", "dead", "deliveries")


class HostedQuery(Protocol):
    """What a shard needs of its queries, of whatever kind; how each publishes is its kind's own."""

    tally: str
    """The counter of the rows that it publishes."""

    def __len__(self) -> int:
        """Number of subscriptions."""
        ...

    def take(self, batch: pa.RecordBatch) -> None:
        """Applies rows that subscribe and unsubscribe."""
        ...

    def figures(self) -> Mapping[str, float]:
        """Its own counts and shares, for the status."""
        ...

    def state(self) -> State:
        """The state from which it can be restored."""
        ...


class Side:
    """One table of a shard: its rows and the changes that wait for the watermark."""

    def __init__(self, table: CreateTable, waiting: EventTimeBuffer[Changes]) -> None:
        self.table, self.limits = table, table.options.limits
        self.relation = Relation(table.columns)
        self.waiting = waiting

    def clear(self) -> None:
        """Removes all rows."""
        self.relation = Relation(self.table.columns)
        self.waiting.clear()

    def state(self) -> State:
        """Returns the fields."""
        return State(relation=self.relation.state(), waiting=self.waiting.state())

    def load(self, state: State) -> None:
        """Restores what `state` returned."""
        relation, waiting = state.exactly("relation", "waiting")
        self.relation = Relation.load(self.table.columns, relation)
        self.waiting.load(waiting)


Query = TypeVar("Query", bound=HostedQuery)
S = TypeVar("S", bound=Side)


class RowsShard(Shard, Generic[Query, S]):
    """Queries over one table or several, hosted beside each other; `home` names the pipeline, `side` makes the side of
    a table.
    """

    def __init__(
        self,
        home: str,
        tables: Sequence[CreateTable],
        side: Callable[[CreateTable, EventTimeBuffer[Changes]], S],
        shard: int = 0,
        counters: Sequence[str] = _COUNTERS,
    ) -> None:
        event_time = EventTime(_OPTIONS.latency, longest_jump(_OPTIONS), len(tables))
        super().__init__(home, shard, event_time, _OPTIONS.boundary, counters)
        self._sides = tuple(
            side(table, EventTimeBuffer(ChangeBatches(table.columns), event_time, _OPTIONS.lease)) for table in tables
        )
        self._number_of = {changes_topic(table.name): number for number, table in enumerate(tables)}
        self._readers |= dict.fromkeys(self._number_of, self._read_changes)
        self._readers[subscriptions_topic(home)] = self._subscribe
        self._queries: dict[str, Query] = {}
        self._late_sources = LateSources()
        self._steps = 0
        self._outputs: list[Output] = []
        self._changed: list[tuple[S, Changes, Integers]] = []  # since the last outputs

    # -- what a kind of shard defines --------------------------------------------------------------------------------

    @abstractmethod
    def _is_hosted(self, query: CreateQuery) -> bool:
        """Whether this kind of shard hosts such a query."""

    @abstractmethod
    def _make(self, query: CreateQuery, state: State | None) -> Query:
        """Creates the query, new or restored from `state`."""

    @abstractmethod
    def _publish(self, effects: Sequence[Changes], steps: Sequence[Integers]) -> None:
        """Publishes (`_publish_for`) the effects of changes, which each side has just applied, on each query."""

    def _advance(self, before: int | None, due: Sequence[Changes]) -> None:
        """Applies (`_apply`) the changes that are due after the watermark has advanced from `before`."""
        self._apply(due)

    def _on_subscriptions(self, query: Query) -> None:
        """Called when subscriptions to a query have been added or removed."""

    def _key_prefix(self, side: S) -> str | None:
        """The prefix of the keys of a side's rows in the topic of rows."""
        return side.table.name if len(self._sides) > 1 else None

    def _explanations(self) -> dict[str, Any]:
        """What `tolerant explain` shows of the queries, as JSON values, by key of the status topic."""
        return {}

    # -- rows ------------------------------------------------------------------------------------------------------

    def _read_changes(self, entry: Entry) -> None:
        number = self._number_of[entry.topic]
        side = self._sides[number]

        def read(payload: bytes) -> tuple[pa.RecordBatch, ChangeRows]:
            batch = unpack(payload, side.limits)
            return batch, read_changes(batch, side.table.columns, side.limits.key_length)

        decoded = self._decoded(entry.payload, read)
        if decoded is None:
            return
        batch, rows = decoded
        self._dead += _unusable(batch, rows, side.limits)
        begin = 0
        for clock in rows.clocks.tolist():
            self._add(number, rows.changes.take((rows.rows >= begin) & (rows.rows < clock)))
            begin = clock
            at, writer = (batch.column(name)[clock].as_py() for name in ("at", "source"))
            self._take_clock_row(at, number, is_named=bool(writer))
        self._add(number, rows.changes.take(rows.rows >= begin))

    def _add(self, number: int, changes: Changes) -> None:
        late = in_order(self._sides[number].waiting.add(changes, number))
        self._count("late", len(late))
        delays = self._now + self._event_time.latency - late.at
        self._late_sources.count_all([late.sources[source] for source in late.source.tolist()], delays)
        behind = [side.waiting.nothing for side in self._sides]
        behind[number] = replace(late, at=np.full(len(late), self._now))
        self._apply(behind)

    def _advance_clock(self, at: int, number: int) -> None:
        side, before = self._sides[number], self.watermark
        ahead = side.waiting.too_far_ahead(at, number)
        self._event_time.tick(at, number)
        if self.watermark is not None:
            self._advance(before, [each.waiting.due() for each in self._sides])
        self._dead += _too_early(ahead, at, side.limits.dead_letters)

    def _skip_statements(self, skipped: Quarantined) -> None:
        dropped = {row.key for row in skipped.rows or () if row.kind == "drop"}
        for side in self._sides:
            if side.table.name in dropped:
                self._forget(side)

    def _skip_rows(self, skipped: Quarantined) -> None:
        """Skips an entry of changes or subscriptions: its rows are dropped."""
        for side in self._sides:
            gone = side.waiting.drop(
                lambda some: np.fromiter((skipped.drops(row) for row in _waiting_rows(some)), np.bool_, len(some))
            )
            self._dead += [_dead_change(gone, row, why(skipped)) for row in range(len(gone))]

    def _pending_rows(self) -> list[WaitingRow]:
        return [row for side in self._sides for row in _waiting_rows(side.waiting.all_waiting())]

    def _apply(self, changes: Sequence[Changes]) -> None:
        """Applies the ordered changes of each side and publishes the effects to the current subscriptions."""
        self._count("changes", sum(map(len, changes)))
        effects = [
            side.relation.apply(own) if len(own) else own for side, own in zip(self._sides, changes, strict=True)
        ]
        if not any(map(len, effects)):
            return
        steps = self._numbered(effects)
        self._changed += [change for change in zip(self._sides, effects, steps, strict=True) if len(change[1])]
        self._publish(effects, steps)

    def _numbered(self, effects: Sequence[Changes]) -> list[Integers]:
        """The step of each change: consecutive numbers over all sides, by (at, table), each side's in its order."""
        sizes = [len(changes) for changes in effects]
        order = np.argsort(np.concatenate([changes.at for changes in effects]), kind="stable")
        steps = np.empty(sum(sizes), np.int64)
        steps[order] = self._steps + 1 + np.arange(len(order))
        self._steps += len(order)
        return np.split(steps, np.cumsum(sizes)[:-1])

    def _publish_for(self, query: Query, batches: Sequence[tuple[str, pa.RecordBatch]]) -> None:
        for topic, batch in batches:
            self._count(query.tally, len(batch))
            self._outputs.append(Output(topic, pack(batch)))

    # -- statements and subscriptions --------------------------------------------------------------------------------

    def _on_change(self, statement: Statement) -> None:
        if isinstance(statement, Drop) and statement.what == "table":
            for side in self._sides:
                if side.table.name == statement.name:
                    self._forget(side)

    def _carry_out(self, statement: Statement) -> str:
        match statement:
            case CreateQuery(name=name) if self._is_hosted(statement):
                self._queries[name] = self._make(statement, None)
            case Drop(what="query", name=name):
                self._queries.pop(name, None)
        return ""

    def _forget(self, side: S) -> None:
        """Removes the rows of a dropped table: one that is created with its name later starts empty."""
        keys, size = side.relation.keys(), len(side.relation)
        none = np.zeros(size, np.int64)
        gone = Changes(none != 0, keys, none, none.astype(np.int32), ("",), none, side.relation.rows())
        self._changed.append((side, gone, self._steps + 1 + np.arange(size)))
        self._steps += size
        side.clear()

    def _subscribe(self, entry: Entry) -> None:
        try:
            batch = unpack(entry.payload)
            template = template_of(batch)
            if template not in self._queries:
                raise ValueError(f"there is no template {template!r}")
            self._queries[template].take(batch)
            self._on_subscriptions(self._queries[template])
        except ValueError as error:
            self._dead.append(dead_payload(f"subscriptions cannot be used: {error}", entry.payload))

    # -- outputs ---------------------------------------------------------------------------------------------------

    def _drain_outputs(self) -> list[Output]:
        if self._shard:  # all shards read the same unusable rows: only the first publishes them
            self._dead.clear()
        outputs, self._outputs = self._outputs, []
        for side, effects, steps in self._changed:
            batch = rows_batch(side.table.columns, effects, steps, self._key_prefix(side))
            outputs.append(Output(rows_topic(self._home), pack(batch)))
        self._changed = []
        return outputs

    def _status(self) -> Output:
        """Packs the status of the tables for `tolerant status`."""
        figures = {name: query.figures() for name, query in self._queries.items()}
        summary = {
            "table": self._home,
            "watermark": self.watermark,
            "rows": self._size(),
            **self._counters,
            "late_sources": self._late_sources.record(),
            "duplicates": sum(side.relation.duplicates for side in self._sides),
            "unknown": sum(side.relation.unknown for side in self._sides),
            "subscriptions": {name: len(query) for name, query in self._queries.items()},
            "figures": {name: own for name, own in figures.items() if own},
        }
        bodies = {f"summary/{self._shard}": summary, **self._explanations()}
        rows = [(key, self._now, json.dumps(body).encode()) for key, body in bodies.items()]
        return Output(status_topic(self._home), pack(compacted(rows)))

    def _size(self) -> int:
        """Number of rows over all sides."""
        return sum(len(side.relation) for side in self._sides)

    # -- state -----------------------------------------------------------------------------------------------------

    def _kind_state(self) -> State:
        return State(
            steps=self._steps,
            tables=State({side.table.name: side.state() for side in self._sides}),
            queries=State({name: query.state() for name, query in self._queries.items()}),
            late_sources=self._late_sources.state(),
        )

    def _load_kind(self, state: State) -> None:
        self._steps, tables, queries, late = state.exactly("steps", "tables", "queries", "late_sources")
        self._late_sources.load(late)
        for side, own in zip(self._sides, tables.exactly(*(side.table.name for side in self._sides)), strict=True):
            side.load(own)
        self._queries = {name: self._make(self._catalogue.queries[name], own) for name, own in queries.items()}


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
