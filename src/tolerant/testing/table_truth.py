"""What must be delivered, worked out from the log the slow way: rows as dictionaries, one after the other.

It shares no code with the shard but the reading of packed rows and of statements.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

from tolerant.kinds.notices.select import RangeAggregateSelect
from tolerant.sql import CreateQuery, CreateTable, Drop, Statement, decode
from tolerant.sql.predicates import Parameter
from tolerant.transport.log import Entry
from tolerant.transport.rows import unpack
from tolerant.transport.topics import QUERIES, TopicKind

Row = dict[str, Any]
Told = tuple[str, str, int, tuple[Any, ...]]
"""(kind, key, at, values of the row)"""


@dataclass
class Span:
    """The time of a subscription to an aggregate: it hears of the steps after `begin`, up to `end` if it ended.

    `first` is its answer when it began and `values` what that was of (zeros for COUNT), `told` (step, at, answer)
    whenever it changed.
    """

    low: float
    high: float
    begin: int
    first: Any
    values: list[Any]
    end: int | None = None
    told: list[tuple[int, int, Any]] = field(default_factory=list)

    @property
    def newest(self) -> Any:
        """The answer now, or when it ended."""
        return self.told[-1][2] if self.told else self.first


class TableTruth:
    """A table and the range queries over it. `told`: (query, subscription) → what it must hear, in order; `spans`: the
    same for aggregates.
    """

    def __init__(self, table: CreateTable, latency: int, lease: int) -> None:
        self._table, self._latency, self._lease = table, latency, lease
        self.rows: dict[str, tuple[Any, ...]] = {}
        self.told: dict[tuple[str, int], list[Told]] = {}
        self.spans: dict[tuple[str, int], list[Span]] = {}
        self.steps = 0
        self._queries: dict[str, CreateQuery] = {}
        self._parameters: dict[tuple[str, int], dict[str, Any]] = {}
        self._seen: set[tuple[str, int]] = set()
        self._waiting: list[Row] = []
        self._arrived: list[Row] = []
        self._watermark: int | None = None

    def read(self, entries: Iterable[Entry]) -> None:
        """Take what the log holds."""
        for entry in entries:
            try:
                rows = unpack(entry.payload).to_pylist()
            except ValueError:
                continue
            if entry.topic == QUERIES:
                for row in rows:
                    self._statement(decode(row["body"]))
            elif TopicKind.SUBSCRIPTIONS.matches(entry.topic):
                self._subscribe(rows)
            else:
                self._changes(rows)

    def _statement(self, statement: Statement) -> None:
        if isinstance(statement, CreateQuery):
            self._queries.setdefault(statement.name, statement)
            if not statement.parameters:
                self._join((statement.name, 0), {})
        elif isinstance(statement, Drop):
            self._queries.pop(statement.name, None)
            self._parameters = {key: p for key, p in self._parameters.items() if key[0] != statement.name}

    def _subscribe(self, rows: list[Row]) -> None:
        for row in rows:
            key = row["template"], row["id"]
            if row["kind"] == "unsubscribe":
                self._leave(key)
            elif row["template"] in self._queries:
                self._join(key, {name.removeprefix("parameter."): value for name, value in row.items()})

    def _join(self, key: tuple[str, int], given: dict[str, Any]) -> None:
        if key not in self._parameters:
            self._parameters[key] = given
            select = RangeAggregateSelect.matching(self._queries[key[0]])
            if select is not None:
                ((_, low, high),) = self._ends(key[0], given)
                values = self._values(select, self.rows, low, high)
                self.spans.setdefault(key, []).append(Span(low, high, self.steps, _answer(select.fn, values), values))

    def _leave(self, key: tuple[str, int]) -> None:
        if self._parameters.pop(key, None) is not None and key in self.spans:
            self.spans[key][-1].end = self.steps

    def _changes(self, rows: list[Row]) -> None:
        late: list[Row] = []
        for row in rows:
            if row["kind"] == "clock":
                self._apply(late, self._watermark)
                late = []
                self._tick(row["at"])
            elif self._watermark is not None and row["at"] <= self._watermark:
                late.append(row)
            else:
                self._arrived.append(row)
        self._apply(late, self._watermark)

    def _tick(self, at: int) -> None:
        self._waiting += [row for row in self._arrived if row["at"] <= at + self._lease]
        self._arrived = []
        self._watermark = max(at - self._latency, at - self._latency if self._watermark is None else self._watermark)
        due = [row for row in self._waiting if row["at"] <= self._watermark]
        self._waiting = [row for row in self._waiting if row["at"] > self._watermark]
        for moment in sorted({row["at"] for row in due}):
            self._apply([row for row in due if row["at"] == moment], moment)

    def _apply(self, changes: list[Row], at: int | None) -> None:
        """One transaction."""
        before, now = dict(self.rows), dict(self.rows)
        keys: dict[str, None] = {}
        for row in sorted(changes, key=lambda row: (row["at"], row["key"], row["sequence"])):
            if self._is_new(row):
                keys[row["key"]] = None
                self.rows.pop(row["key"], None)
                if row["kind"] == "insert":
                    self.rows[row["key"]] = tuple(row[f"row.{column.name}"] for column in self._table.columns)
        for key in keys:
            old, new = before.get(key), self.rows.get(key)
            if old != new:
                self._tell("delete", key, at or 0, old)
                self._tell("insert", key, at or 0, new)
                now.pop(key, None)
                if new is not None:
                    now[key] = new
                self.steps += (old is not None) + (new is not None)
                self._answer_all(now, at or 0)

    def _is_new(self, row: Row) -> bool:
        who = row["source"], row["sequence"]
        fresh = who not in self._seen
        self._seen.add(who)
        return fresh

    def _tell(self, kind: str, key: str, at: int, row: tuple[Any, ...] | None) -> None:
        if row is None:
            return
        values = dict(zip((column.name for column in self._table.columns), row, strict=True))
        for (query, number), given in self._parameters.items():
            if RangeAggregateSelect.matching(self._queries[query]) is not None:
                continue
            if self.inside(query, given, values):
                self.told.setdefault((query, number), []).append((kind, key, at, row))

    def inside(self, query: str, given: dict[str, Any], row: Row) -> bool:
        """Whether a row lies in the ranges of a query with these parameters."""
        return all(low <= row[column] <= high for column, low, high in self._ends(query, given))

    def _answer_all(self, rows: dict[str, tuple[Any, ...]], at: int) -> None:
        for key, spans in self.spans.items():
            select, span = RangeAggregateSelect.of(self._queries[key[0]]), spans[-1]
            if span.end is None:
                now = _answer(select.fn, self._values(select, rows, span.low, span.high))
                if now != span.newest:
                    span.told.append((self.steps, at, now))

    def _values(
        self, select: RangeAggregateSelect, rows: dict[str, tuple[Any, ...]], low: float, high: float
    ) -> list[Any]:
        """What is aggregated: the column's values in the range, zeros where all are only counted."""
        names = [column.name for column in self._table.columns]
        place = names.index(select.range.column)
        inside = [row for row in rows.values() if low <= row[place] <= high]
        return [0 if select.fn == "count" else row[names.index(select.column or "")] for row in inside]

    def _ends(self, query: str, given: dict[str, Any]) -> Iterator[tuple[str, Any, Any]]:
        for part in self._queries[query].select.selected_ranges or ():
            low, high = (given[end.name] if isinstance(end, Parameter) else end for end in (part.low, part.high))
            yield part.column, low, high


def _answer(fn: str, values: list[Any]) -> Any:
    if fn == "count":
        return len(values)
    if fn == "distinct":
        return frozenset(values)
    if not values:
        return None
    exactly = sum(map(Fraction, values))
    return float({"min": min(values), "max": max(values), "sum": exactly, "avg": exactly / len(values)}[fn])
