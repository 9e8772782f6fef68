"""Result rows of joins for subscriptions: how they are read from `answers.<query>` and `rows.<pair>`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from tolerant.client.deliveries import RowChange, current_changes, row_change
from tolerant.client.feeds import Found, Listener
from tolerant.client.positions import Position
from tolerant.relations.changes import DTYPES
from tolerant.sql import CreateQuery, CreateTable, home_of
from tolerant.sql.homes import is_by_value, shards_of
from tolerant.sql.statements import KeepJoinSelect
from tolerant.transport import Log, Record
from tolerant.transport.deliveries import read_rows, row_key, row_of, rows_topic
from tolerant.transport.records import read_json, records_of
from tolerant.transport.results import kept_schema, results_schema, results_topic, rows_naming

if TYPE_CHECKING:
    from tolerant.joins import Touched
    from tolerant.sql.joining import Joining

Row = dict[str, Any]

_SHARE = {"found", "share", "error"}


class ResultExtractor:
    """Each result row names the subscriptions that it is for."""

    def __init__(self, query: str, schema: pa.Schema) -> None:
        self.topic = results_topic(query)
        self._schema = schema

    def extract(self, batch: pa.RecordBatch, listeners: Mapping[int, Listener]) -> Iterator[tuple[Listener, Found]]:
        """The result rows of a batch for the subscriptions that listen."""
        if not batch.schema.equals(self._schema):
            return  # of another query of this name, which was dropped
        of_row, named = rows_naming(batch, listeners)
        chosen, back = np.unique(of_row, return_inverse=True)
        records = batch.drop_columns(["subscriptions"]).take(pa.array(chosen)).to_pylist()
        for number, row, place in zip(named.tolist(), of_row.tolist(), back.tolist(), strict=True):
            yield listeners[number], Found(row, records[place]["step"], records[place])


class ResultListener(Listener):
    """One that listens to a join: a transaction may say many rows, all of them in one entry."""

    def offer(self, entry: int, found: Found) -> bool:
        """See `Listener.offer`: what has the mark of the position is news where it stands behind it in its entry."""
        held = self.position
        if held.entry == entry and found.mark == held.mark and found.row >= held.rows:
            self.position = Position(entry, found.row + 1, held.mark)
            self.waiting.append((found.what, self.position))
            return True
        return super().offer(entry, found)


class SpreadListener(Listener):
    """One that listens to several shards: the steps of each rise, and the mark of a position has that of each."""

    def __init__(self, position: Position, shards: int) -> None:
        super().__init__(position)
        self._shards = shards

    def offer(self, entry: int, found: Found) -> bool:
        """See `Listener.offer`."""
        held, shard = self.position, int(found.what["shard"])
        marks = unpacked_marks(held.mark, self._shards)
        goes_on = held.entry == entry and found.mark == marks[shard] and found.row >= held.rows
        if not goes_on and ((entry, found.row) < (held.entry, held.rows) or found.mark <= marks[shard]):
            return False
        marks[shard] = max(found.mark, marks[shard])
        self.position = Position(entry, found.row + 1, packed_marks(marks))
        self.waiting.append((found.what, self.position))
        return True


def listener_at(position: Position, shards: int) -> Listener:
    """One that listens to so many shards."""
    return ResultListener(position) if shards == 1 else SpreadListener(position, shards)


def packed_marks(marks: Sequence[int]) -> int:
    """The marks of shards, each -1 or more, as one; of a single shard its own.

    >>> packed_marks([7]), unpacked_marks(packed_marks([7, -1, 2**50]), 3) == [7, -1, 2**50], unpacked_marks(-1, 2)
    (7, True, [-1, -1])
    """
    return marks[0] if len(marks) == 1 else sum((mark + 1) << (64 * shard) for shard, mark in enumerate(marks))


def unpacked_marks(mark: int, shards: int) -> list[int]:
    """What `packed_marks` was given."""
    mark = max(mark, 0) if shards > 1 else mark
    return [mark] if shards == 1 else [(mark >> (64 * shard) & (2**64 - 1)) - 1 for shard in range(shards)]


class JoinHearing:
    """How to listen to a join of two tables."""

    def __init__(self, query: CreateQuery, left: CreateTable, right: CreateTable) -> None:
        self._query, self._tables = query, (left, right)
        self._home = home_of(query.select)
        columns = [(table.name, table.columns) for table in self._tables]
        self.extractor = ResultExtractor(query.name, results_schema(columns, shards_of(self._home)))

    def begin(
        self, log: Log, numbers: Sequence[int], parameters: Mapping[str, Any]
    ) -> list[tuple[Listener, list[Any]]]:
        """See `Hearing.begin`."""
        # The end first: what is published between the two reads has been counted in, and is known by its step.
        end = log.end()
        held, steps = pair_rows(log, self._home, self._tables)
        found = joined_rows(self._query, self._tables, held, numbers, parameters)
        start = Position(end, mark=packed_marks(steps))
        return [(listener_at(start, len(steps)), [*current_changes(found[number], start)]) for number in numbers]

    def resume(
        self, log: Log, numbers: Sequence[int], parameters: Mapping[str, Any], positions: Sequence[Position]
    ) -> list[Listener]:
        """See `Hearing.resume`."""
        return [listener_at(position, shards_of(self._home)) for position in positions]

    def change(self, what: Mapping[str, Any], position: Position) -> RowChange:
        """See `Hearing.change`."""
        return row_change(what, position)


@dataclass(frozen=True)
class KeptChange(RowChange):
    """A result row of a join with `KEEP n ROWS`. `share`: of all results, the part that had been found by then, an
    estimate; where rows are looked up, the part of them that was held.
    """

    share: float = 1.0
    looked_up: bool = False


@dataclass(frozen=True)
class KeptShare:
    """How many results of a join with `KEEP n ROWS` have been found, what share of all that is by estimate, and the
    standard error of the estimate. Where rows are looked up all results are found: the share is that of the rows that
    were held, and `fetched` the number of rows that had to be fetched.
    """

    found: int
    share: float
    error: float
    fetched: int | None = None


class KeptHearing:
    """How to listen to a join with `KEEP n ROWS`: what has been said is not held, so it begins with what comes next."""

    def __init__(self, query: CreateQuery, left: CreateTable, right: CreateTable) -> None:
        select = query.select
        assert isinstance(select, KeepJoinSelect)
        self._query, self._select = query, select
        columns = [(table.name, table.columns) for table in (left, right)]
        self.extractor = ResultExtractor(query.name, kept_schema(columns, select.shards))

    def begin(
        self, log: Log, numbers: Sequence[int], parameters: Mapping[str, Any]
    ) -> list[tuple[Listener, list[Any]]]:
        """See `Hearing.begin`; there is no current answer."""
        # The step first: what is published between the two reads came before the beginning.
        said = currents(log, self._query.name, self._select.shards)
        first = -1 if said[0] is None else said[0].version
        marks = [first if one is None else one.version for one in said]
        start = Position(log.end(), mark=packed_marks(marks))
        return [(listener_at(start, self._select.shards), []) for _ in numbers]

    def resume(
        self, log: Log, numbers: Sequence[int], parameters: Mapping[str, Any], positions: Sequence[Position]
    ) -> list[Listener]:
        """See `Hearing.resume`."""
        return [listener_at(position, self._select.shards) for position in positions]

    def change(self, what: Mapping[str, Any], position: Position) -> KeptChange:
        """See `Hearing.change`."""
        looked_up = self._select.file is not None
        return KeptChange(what["kind"], row_of(what), what["at"], position, share=what["share"], looked_up=looked_up)


def currents(log: Log, query: str, shards: int) -> list[Record | None]:
    """What each shard of a join with `KEEP n ROWS` last said of itself; of all shards the first may speak for all."""
    return [log.latest(f"current.{query}", str(shard or "")) for shard in range(shards)]


def kept_share(log: Log, query: str, shards: int = 1) -> KeptShare | None:
    """What a join with `KEEP n ROWS` last said of itself; None: it is none, or has not found any result yet."""
    held = [read_json(one.body, f"what is known of {query}") for one in currents(log, query, shards) if one is not None]
    bodies = [body for body in held if body is not None]
    if not bodies or not all(isinstance(one, dict) and one.keys() - {"fetched"} == _SHARE for one in bodies):
        return None
    return KeptShare(**{**bodies[0], "found": sum(one["found"] for one in bodies)})


def pair_rows(log: Log, home: str, tables: Sequence[CreateTable]) -> tuple[list[list[Row]], list[int]]:
    """The current rows of the tables of a pair, each table's by key, and the step that this is in each shard."""
    held: dict[str, tuple[int, bytes | None]] = {}
    for key, version, body in records_of(log, rows_topic(home)):
        held[key] = version, body
    shards = shards_of(home)
    if is_by_value(home):  # each says its own rows, under its number
        parts = [{key: held[key] for key in held if key.startswith(row_key(str(k), ""))} for k in range(shards)]
        steps = [max((version for version, _ in part.values()), default=0) for part in parts]
        held = {key.partition("/")[2]: one for part in parts for key, one in part.items() if one[1]}
    else:
        steps = [max((version for version, _ in held.values()), default=0)] * shards
    found = []
    for table in tables:
        own = sorted((key, body) for key, (_, body) in held.items() if body and key.startswith(row_key(table.name, "")))
        found.append(read_rows(table.columns, own))
    return found, steps


def joined_rows(
    query: CreateQuery,
    tables: tuple[CreateTable, CreateTable],
    held: Sequence[Sequence[Row]],
    numbers: Sequence[int],
    parameters: Mapping[str, Any],
) -> dict[int, list[Row]]:
    """Subscription → the result rows that it has, by the rows of the first table and then of the second."""
    from tolerant.sql.joining import Joining  # compiled code, which nobody else who listens needs

    joining = Joining(query, *tables)
    core = joining.core()
    ids, first = np.unique(np.array(numbers, np.int64), return_index=True)
    core.add_many(ids, *joining.ends(len(ids), {name: values[first] for name, values in parameters.items()}))
    core.store(*(_stored(joining, side, table, held[side]) for side, table in enumerate(tables)))
    told = core.results()
    order = np.lexsort((told.s, told.r))
    names = [[f"{table.name}.{column.name}" for column in table.columns] for table in tables]
    found: dict[int, list[Row]] = {number: [] for number in numbers}
    for number, r, s in zip(told.query[order].tolist(), told.r[order].tolist(), told.s[order].tolist(), strict=True):
        both = ((held[0][r], names[0]), (held[1][s], names[1]))
        found[number].append({name: value for row, own in both for name, value in zip(own, row.values(), strict=True)})
    return found


def _stored(joining: Joining, side: int, table: CreateTable, held: Sequence[Row]) -> Touched:
    """Rows of a table as they are stored, under their places."""
    from tolerant.joins import BEFORE, NEVER, Touched

    n = len(held)
    columns = {c.name: np.array([row[c.name] for row in held], DTYPES[c.type]) for c in table.columns}
    values = joining.values(side, columns, np.ones(n, np.bool_))
    return Touched(np.arange(n), np.full(n, BEFORE), np.full(n, NEVER), values)
