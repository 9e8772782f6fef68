"""One shard of a table's pipeline: its rows and the queries over it, from log entries to deliveries.

Everything is a function of the log, as for streams (`specs/0-pipeline.md` §3): changes wait for the horizon and apply
in the order (at, key, sequence), a late one at once; statements and subscriptions take effect where they stand. A clock
row counts whoever wrote it: there are no grants that a rival could confuse, and so every pipeline that reads the log,
also one that starts anew, says the same under the same numbers.

What a change is to whom is said in `answers.<query>`; the rows that it leaves are in the compacted topic
`rows.<table>`, in the same transaction, for those who ask for the current answer first.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tolerant.kernels import snapshots
from tolerant.relations import Changes, Relation
from tolerant.relations.waiting import Waiting
from tolerant.spark.hosting import Output, Replayed
from tolerant.spark.intake import DeadRow, dead_batch, dead_row
from tolerant.spark.kinds.statements import owner_of, statement_rows
from tolerant.spark.kinds.table_queries import TableQuery, is_hosted, table_query
from tolerant.sql import Catalogue, CreateQuery, CreateTable, Drop, Statement, decode, encode
from tolerant.streams import StreamOptions
from tolerant.transport.changes import CLOCK, read_changes
from tolerant.transport.deliveries import rows_batch, rows_topic
from tolerant.transport.log import QUERIES, Entry
from tolerant.transport.rows import NO_TIME, REPLIES, compacted, pack, unpack
from tolerant.transport.subscriptions import template_of

_OPTIONS = StreamOptions()
_TALLY = ("changes", "late", "dead", "deliveries")


class TableShard(Replayed):
    """`Hosted` by Spark; see the module."""

    def __init__(self, table: CreateTable, shard: int = 0) -> None:
        self._table, self._shard = table, shard
        self._catalogue = Catalogue()
        self._relation = Relation(table.columns)
        self._waiting = Waiting(table.columns, _OPTIONS.latency, _OPTIONS.lease)
        self._queries: dict[str, TableQuery] = {}
        self._steps = 0
        self._tally = dict.fromkeys(_TALLY, 0)
        self._reported = -1  # the period of the last status
        self._outputs: list[Output] = []
        self._changed: list[tuple[Changes, NDArray[np.int64]]] = []  # since the last batch was said
        self._replies: list[dict[str, object]] = []
        self._dead: list[DeadRow] = []

    def take(self, batch: Sequence[Entry]) -> list[Output]:
        """Take entries in log order; what to say."""
        for entry in batch:
            if entry.topic == QUERIES:
                self._statements(entry.payload)
            elif entry.topic.startswith("subscriptions."):
                self._subscribe(entry.payload)
            else:
                self._rows(entry.payload)
        return self._say()

    @property
    def relation(self) -> Relation:
        """The table's current rows."""
        return self._relation

    # -- rows ------------------------------------------------------------------------------------------------------

    def _rows(self, payload: bytes) -> None:
        try:
            batch = unpack(payload)
            found = read_changes(batch, self._table.columns)
        except ValueError as error:
            self._dead.append(DeadRow(str(error), payload=payload[:4096]))
            return
        for row, reason in found.dead:
            self._dead.append(dead_row(batch, row, reason))
        begin = 0
        kinds = batch.column("kind").cast(pa.string()).to_pylist()
        for clock in [row for row, kind in enumerate(kinds) if kind == CLOCK]:
            self._add(found.changes.take((found.rows >= begin) & (found.rows < clock)))
            begin = clock
            at = batch.column("at")[clock].as_py()
            if at not in (None, NO_TIME):
                self._tick(at)
        self._add(found.changes.take(found.rows >= begin))

    def _add(self, changes: Changes) -> None:
        late = self._waiting.add(changes)
        self._tally["late"] += len(late)
        self._apply(late)

    def _tick(self, at: int) -> None:
        due, ahead = self._waiting.tick(at)
        self._apply(due)
        for row in range(len(ahead)):
            reason = f"at is {int(ahead.at[row]) - at} µs ahead of the pipeline's clock, more than a lease"
            kind = "insert" if ahead.insert[row] else "delete"
            source, sequence = ahead.sources[ahead.source[row]], int(ahead.sequence[row])
            self._dead.append(DeadRow(reason, kind, str(ahead.keys[row]), int(ahead.at[row]), source, sequence))

    def _apply(self, changes: Changes) -> None:
        """Apply changes that are in order, and tell the subscriptions that there are now."""
        if not len(changes):
            return
        effects = self._relation.apply(changes)
        self._tally["changes"] += len(changes)
        if not len(effects):
            return
        steps = self._steps + 1 + np.arange(len(effects))
        self._steps += len(effects)
        self._changed.append((effects, steps))
        for query in self._queries.values():
            for topic, said in query.say(effects, steps):
                self._tally[query.tally] = self._tally.get(query.tally, 0) + len(said)
                self._outputs.append(Output(topic, pack(said)))

    # -- statements and subscriptions --------------------------------------------------------------------------------

    def _statements(self, payload: bytes) -> None:
        for request, body in statement_rows(payload, self._dead):
            try:
                self._statement(request, decode(body))
            except ValueError as error:
                self._dead.append(DeadRow(f"statement cannot be read: {error}", payload=body.encode()[:4096]))

    def _statement(self, request: str, statement: Statement) -> None:
        ours = owner_of(statement, self._catalogue) == self._table.name
        outcome = self._catalogue.apply(statement)
        if outcome.changed and isinstance(statement, Drop) and statement.what == "table":
            self._forget(statement.name)
        if not ours:
            return
        if outcome.accepted and outcome.changed:
            self._carry_out(statement)
        reply = {"request": request, "key": statement.about, "at": self._waiting.horizon or 0}
        self._replies.append(reply | {"accepted": outcome.accepted, "message": outcome.message})

    def _carry_out(self, statement: Statement) -> None:
        match statement:
            case CreateQuery(name=name) if is_hosted(statement):
                self._queries[name] = table_query(statement, self._table, self._relation)
            case Drop(what="query", name=name):
                self._queries.pop(name, None)

    def _forget(self, table: str) -> None:
        """The table is dropped: one that is created under its name later starts without its rows."""
        if table != self._table.name:
            return
        keys, size = self._relation.keys(), len(self._relation)
        none = np.zeros(size, np.int64)
        gone = Changes(none != 0, keys, none, none.astype(np.int32), ("",), none, self._relation.rows())
        self._changed.append((gone, self._steps + 1 + np.arange(size)))
        self._steps += size
        self._relation = Relation(self._table.columns)
        self._waiting.clear()

    def _subscribe(self, payload: bytes) -> None:
        try:
            batch = unpack(payload)
            template = template_of(batch)
            if template not in self._queries:
                raise ValueError(f"there is no template {template!r}")
            self._queries[template].take(batch)
        except ValueError as error:
            self._dead.append(DeadRow(f"subscriptions cannot be used: {error}", payload=payload[:4096]))

    # -- saying ----------------------------------------------------------------------------------------------------

    def _say(self) -> list[Output]:
        outputs, self._outputs = self._outputs, []
        name = self._table.name
        outputs += [
            Output(rows_topic(name), pack(rows_batch(self._table.columns, effects, steps)))
            for effects, steps in self._changed
        ]
        self._changed = []
        if self._dead:
            self._tally["dead"] += len(self._dead)
            outputs.append(Output(f"dead.{name}", pack(dead_batch(self._dead))))
            self._dead = []
        if self._replies:
            outputs.append(Output("replies", pack(pa.RecordBatch.from_pylist(self._replies, REPLIES))))
            self._replies = []
        period = (self._waiting.horizon or 0) // _OPTIONS.boundary
        if self._waiting.horizon is not None and period > self._reported:
            self._reported = period
            outputs.append(self._status())
        return outputs

    def _status(self) -> Output:
        """How the table is, for `tolerant status`."""
        summary = {
            "table": self._table.name,
            "horizon": self._waiting.horizon,
            "rows": len(self._relation),
            **self._tally,
            "duplicates": self._relation.duplicates,
            "unknown": self._relation.unknown,
            "subscriptions": {name: len(query) for name, query in self._queries.items()},
            "figures": {name: query.figures() for name, query in self._queries.items() if query.figures()},
        }
        body = json.dumps(summary).encode()
        row = (f"summary/{self._shard}", self._waiting.horizon or 0, body)
        return Output(f"status.{self._table.name}", pack(compacted([row])))

    # -- state -----------------------------------------------------------------------------------------------------

    def snapshot(self) -> bytes:
        """All of the state as bytes; nothing is left unsaid between batches."""
        arrays, relation = self._relation.state()
        found = {f"relation.{name}": array for name, array in arrays.items()}
        arrays, waiting = self._waiting.state()
        found |= {f"waiting.{name}": array for name, array in arrays.items()}
        for name, query in self._queries.items():
            found |= {f"{name}/{part}": array for part, array in query.state().items()}
        statements = [encode(statement) for statement in self._catalogue.statements()]
        values = [relation, waiting, list(self._queries), statements, self._steps, self._tally, self._reported]
        return snapshots.pack(found, values)

    def load(self, snapshot: bytes) -> None:
        """Become what `snapshot` said, bit for bit."""
        arrays, values = snapshots.unpack(snapshot)
        relation, waiting, queries, statements, self._steps, self._tally, self._reported = values
        self._catalogue = Catalogue(decode(statement) for statement in statements)
        self._relation = Relation.load(self._table.columns, _under("relation.", arrays), relation)
        self._waiting.load(_under("waiting.", arrays), waiting)
        self._queries = {
            name: table_query(self._catalogue.queries[name], self._table, self._relation, _under(f"{name}/", arrays))
            for name in queries
        }


def _under(prefix: str, arrays: dict[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
    return {name.removeprefix(prefix): array for name, array in arrays.items() if name.startswith(prefix)}
