"""What joins of two tables must tell, worked out from the log the slow way: every transaction, every pair of rows.

It shares no code with the shard but the reading of packed rows and of statements.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from tolerant.kinds.joins.select import JoinSelect
from tolerant.sql import CreateQuery, CreateTable, decode
from tolerant.sql.predicates import Operand, Parameter
from tolerant.transport.log import Entry
from tolerant.transport.rows import unpack
from tolerant.transport.topics import QUERIES, TopicKind

Row = dict[str, Any]
Told = tuple[int, str, int, str, str]
"""(step, kind, at, the left row as text, the right row as text)"""


class PairTruth:
    """Two tables and the joins over them. `told`: (query, subscription) → what it must hear, sorted by step."""

    def __init__(self, tables: Iterable[CreateTable], latency: int, lease: int) -> None:
        self._tables = {table.name: table for table in tables}
        self._latency, self._lease = latency, lease
        self.rows: dict[str, dict[str, Row]] = {name: {} for name in sorted(self._tables)}
        self.told: dict[tuple[str, int], list[Told]] = {}
        self.steps = 0
        self._queries: dict[str, CreateQuery] = {}
        self._parameters: dict[tuple[str, int], dict[str, Any]] = {}
        self._seen: set[tuple[str, str, int]] = set()
        self._arrived: list[Row] = []
        self._waiting: list[Row] = []
        self._clocks: dict[str, int] = {}
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
                    statement = decode(row["body"])
                    if isinstance(statement, CreateQuery):
                        self._queries[statement.name] = statement
                        if not statement.parameters:
                            self._parameters[statement.name, 0] = {}
            elif TopicKind.SUBSCRIPTIONS.matches(entry.topic):
                self._subscribe(rows)
            else:
                self._changes(TopicKind.CHANGES.owner(entry.topic), rows)

    def results(self, key: tuple[str, int]) -> set[tuple[str, str]]:
        """The result rows of a subscription now: (left row, right row) as texts."""
        select = JoinSelect.of(self._queries[key[0]])
        given = self._parameters[key]
        left, right = self.rows[select.left].values(), self.rows[select.right].values()
        return {(repr(r), repr(s)) for r in left for s in right if _holds(select, r, s, given)}

    def _subscribe(self, rows: list[Row]) -> None:
        for row in rows:
            key = row["template"], row["id"]
            if row["kind"] == "unsubscribe":
                self._parameters.pop(key, None)
            else:
                self._parameters[key] = {n.removeprefix("parameter."): value for n, value in row.items()}

    def _changes(self, table: str, rows: list[Row]) -> None:
        late: list[Row] = []
        for row in rows:
            row["table"] = table
            if row["kind"] == "clock":
                self._apply(late, self._watermark)
                late = []
                self._tick(table, row["at"])
            elif self._watermark is not None and row["at"] <= self._watermark:
                late.append(row)
            else:
                self._arrived.append(row)
        self._apply(late, self._watermark)

    def _tick(self, table: str, at: int) -> None:
        own = [row for row in self._arrived if row["table"] == table]
        self._arrived = [row for row in self._arrived if row["table"] != table]
        self._waiting += [row for row in own if row["at"] <= at + self._lease]
        self._clocks[table] = max(at, self._clocks.get(table, at))
        if len(self._clocks) < 2:
            return
        reached = min(self._clocks.values()) - self._latency
        self._watermark = reached if self._watermark is None else max(reached, self._watermark)
        due = [row for row in (*self._waiting, *self._arrived) if row["at"] <= self._watermark]
        self._waiting = [row for row in self._waiting if row["at"] > self._watermark]
        self._arrived = [row for row in self._arrived if row["at"] > self._watermark]
        for moment in sorted({row["at"] for row in due}):
            self._apply([row for row in due if row["at"] == moment], moment)

    def _apply(self, changes: list[Row], at: int | None) -> None:
        """One transaction."""
        if not changes:
            return
        before = {key: self.results(key) for key in self._parameters}
        old = {name: dict(rows) for name, rows in self.rows.items()}
        for row in sorted(changes, key=lambda row: (row["at"], row["table"], row["key"], row["sequence"])):
            who = row["table"], row["source"], row["sequence"]
            if who not in self._seen:
                self._seen.add(who)
                self.rows[row["table"]].pop(row["key"], None)
                if row["kind"] == "insert":
                    names = [column.name for column in self._tables[row["table"]].columns]
                    self.rows[row["table"]][row["key"]] = {name: row[f"row.{name}"] for name in names}
        for name, rows in self.rows.items():
            for text in {*rows, *old[name]}:
                was, now = old[name].get(text), rows.get(text)
                self.steps += 0 if was == now else (was is not None) + (now is not None)
        for key, had in before.items():
            has = self.results(key)
            for kind, which in (("delete", had - has), ("insert", has - had)):
                self.told.setdefault(key, []).extend((self.steps, kind, at or 0, r, s) for r, s in sorted(which))


def _holds(select: JoinSelect, r: Row, s: Row, given: dict[str, Any]) -> bool:
    def inside(value: Any, low: Operand, high: Operand) -> bool:
        ends = [given[end.name] if isinstance(end, Parameter) else end for end in (low, high)]
        return bool(ends[0] <= value <= ends[1])

    parts = select.selected_ranges or ()
    if len(parts) == 1:  # of the difference
        return inside(s[select.on[1]] - r[select.on[0]], parts[0].low, parts[0].high)
    first, second = parts
    equal = r[select.on[0]] == s[select.on[1]]
    return (
        equal and inside(r[first.column], first.low, first.high) and inside(s[second.column], second.low, second.high)
    )
