"""A growing table joined with one that does not fit (`KEEP n ROWS` over a table in a file): every row that comes is
looked up, n rows of the other table are held, the others are fetched when they are asked for.

`tolerant.retention.Lookups` decides which are held (`docs/design/retention.md` §2.2); nothing is lost by forgetting, it
only costs fetches. Every batch of results says what share of the rows that came found theirs held; so does
`current.<query>`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tolerant.kernels.snapshots import State
from tolerant.kinds.kept_joins.kept_join import Arrays, ForAll, Integers, Rows
from tolerant.kinds.kept_joins.select import KeepJoinSelect
from tolerant.pipeline.join_codes import codes
from tolerant.pipeline.shard_range import SINGLE_SHARD, Part
from tolerant.relations import Changes
from tolerant.relations.row_changes import DTYPES, empty_columns
from tolerant.retention import Lookups, ShareEstimate
from tolerant.sql import CreateQuery, CreateTable
from tolerant.sql.types import is_value
from tolerant.transport import Log
from tolerant.transport.changes import ARROW, key_texts
from tolerant.transport.records import read_json
from tolerant.transport.results import kept_batch
from tolerant.transport.rows import compacted
from tolerant.transport.subscriptions import subscription_ids
from tolerant.transport.topics import answers_topic, current_topic, lookup_topic

Fetch = Callable[[str, Sequence[str]], list[bytes | None]]
"""From a topic and keys to the rows of these; None where there is none. What it gives for a key never changes."""

_THERE = ""  # the name of the column that says whether there is such a row: no column of a table has it


def fetch_from(log: Log) -> Fetch:
    """Fetches rows from a log."""

    def fetch(topic: str, keys: Sequence[str]) -> list[bytes | None]:
        records = (log.latest(topic, key) for key in keys)
        return [None if record is None else record.body for record in records]

    return fetch


class LookedUp(ForAll):
    """One query that looks rows up.

    That there is no row of some key is remembered as a row is.
    """

    def __init__(
        self,
        query: CreateQuery,
        tables: tuple[CreateTable, CreateTable],
        fetch: Fetch,
        part: Part = SINGLE_SHARD,
        state: State | None = None,
    ) -> None:
        select = KeepJoinSelect.of(query)
        assert select.file is not None
        self.query, self._fetch, self._part = query, fetch, part
        self._turned = tables[0].name != select.left  # a pair's order is that of names
        self._tables = (tables[1], tables[0]) if self._turned else tables
        self._of_tables = [(table.name, table.columns) for table in self._tables]
        place = select.looked_up(*self._tables)
        assert place is not None
        self._grows, self._table = 1 - place, self._tables[place]
        self._topic = lookup_topic(self._table.name, select.file)
        self._on, self._key = select.on[1 - place], select.on[place]
        self._found, self._step = 0, 0  # results of this shard so far, and the step of the last
        self._is_news = False
        if state is None:
            self._lookups = Lookups.bounded(select.rows)
            columns = {**empty_columns(self._table.columns), _THERE: np.zeros(0, np.bool_)}
            self._rows = Rows(np.zeros(0, np.int64), columns)
        else:
            self._load(state)

    @property
    def held(self) -> int:
        """How many rows are kept, in all shards."""
        return len(self._lookups)

    def outputs(
        self, changes: tuple[Changes, Changes], steps: tuple[Integers, Integers]
    ) -> list[tuple[str, pa.RecordBatch]]:
        """The result rows of the rows that came, of both tables in the pair's order; those of the table that is looked
        up are of no account.
        """
        place = 1 - self._grows if self._turned else self._grows
        came, numbers = changes[place], steps[place]
        self._is_news = bool(len(came))
        if not len(came):
            return []
        last = numbers[np.searchsorted(came.at, came.at, side="right") - 1]  # of the moment
        asked = codes(came.columns[self._on])
        self._lookups.take(asked)
        own = self._part.owns(asked)
        came, last = came.take(own), last[own]
        looked_up = self._look_up(came.columns[self._on])
        there = looked_up.pop(_THERE)
        if not there.any():
            return []
        columns = {
            f"{table.name}.{name}": column[there]
            for table, of_table in zip(self._tables, self._in_order(came.columns, looked_up), strict=True)
            for name, column in of_table.items()
        }
        self._found += int(np.count_nonzero(there))
        last = last[there]
        self._step = int(last[-1])
        (subscription,) = subscription_ids({}).tolist()
        batch = kept_batch(
            self._of_tables,
            at=came.at[there],
            steps=last,
            subscription=subscription,
            share=self.share().value,
            columns=columns,
            shard=self._part.number,
        )
        return [(answers_topic(self.query.name), batch)]

    def share(self) -> ShareEstimate:
        """What part of the rows that came found theirs held, and its standard error as the chance of the next one."""
        return self._lookups.share()

    def current(self) -> list[tuple[str, pa.RecordBatch]]:
        """What has been found so far, for the compacted topic `current.<query>`, if rows have just come: each shard
        says what it has found itself.
        """
        if not self._is_news:
            return []
        share, error = self.share()
        body = json.dumps({"found": self._found, "share": share, "error": error, "fetched": self.fetched})
        key = str(self._part.shard or "")
        return [(current_topic(self.query.name), compacted([(key, self._step, body.encode())]))]

    @property
    def fetched(self) -> int:
        """Rows that were not held when they were asked for, in all shards."""
        return self._lookups.asked - self._lookups.hits

    def figures(self) -> dict[str, float]:
        """Rows that came, and rows that are kept of the table that is looked up; results found, rows fetched, and the
        share of rows that found theirs held.
        """
        share, error = self.share()
        counts = {"rows": self._lookups.asked, "kept": self.held, "found": self._found, "fetched": self.fetched}
        return {**counts, "share": round(share, 4), "error": round(error, 4)}

    def state(self) -> State:
        """All that is kept and known."""
        return State(lookups=self._lookups.state(), rows=self._rows.state(), found=self._found, step=self._step)

    def _load(self, state: State) -> None:
        lookups, rows, self._found, self._step = state.exactly("lookups", "rows", "found", "step")
        self._lookups = Lookups.load(lookups)
        self._rows = Rows.load([*(column.name for column in self._table.columns), _THERE], rows)

    def _in_order(self, own: Arrays, other: Arrays) -> tuple[Arrays, Arrays]:
        """Columns of the growing table and of the other in the order of the statement."""
        return (own, other) if self._grows == 0 else (other, own)

    def _look_up(self, asked: NDArray[Any]) -> dict[str, NDArray[Any]]:
        """The rows of the other table with these keys, and whether there are such; what is held is settled then."""
        values, back = np.unique(asked, return_inverse=True)
        numbers = codes(values)
        same = np.isin(numbers, self._rows.numbers)
        same[same] = self._rows.of(numbers[same])[self._key] == values[same]  # texts may share a code
        fetched = self._fetch_rows(values[~same])
        columns = {name: np.empty(len(values), column.dtype) for name, column in self._rows.columns.items()}
        for name, column in self._rows.of(numbers[same]).items():
            columns[name][same], columns[name][~same] = column, fetched[name]
        last = np.zeros(len(values), np.int64)
        last[back] = np.arange(len(asked))
        self._keep(numbers, columns, np.argsort(last))
        return {name: column[back] for name, column in columns.items()}

    def _keep(self, numbers: Integers, columns: Arrays, order: Integers) -> None:
        """Of these rows, asked for in this order, and of those that are held, hold those that the cache keeps."""
        kept = self._lookups.held()
        self._rows.keep(np.setdiff1d(kept, numbers))
        newest = order[::-1][np.unique(numbers[order[::-1]], return_index=True)[1]]
        newest = newest[np.isin(numbers[newest], kept, assume_unique=True)]
        self._rows.add(numbers[newest], {name: column[newest] for name, column in columns.items()})
        sorted_by = np.argsort(self._rows.numbers)
        self._rows = Rows(self._rows.numbers[sorted_by], {n: c[sorted_by] for n, c in self._rows.columns.items()})

    def _fetch_rows(self, keys: NDArray[Any]) -> dict[str, NDArray[Any]]:
        """The rows of these keys; of one that is not there, its key."""
        key_type = self._table.type_of(self._key) or ""
        texts = key_texts([pa.array(keys, ARROW[key_type] if key_type not in ("INT", "BIGINT") else pa.int64())])
        bodies = self._fetch(self._topic, texts.to_pylist())
        read = [self._row(key, body) for key, body in zip(texts.to_pylist(), bodies, strict=True)]
        there = np.array([row is not None for row in read], np.bool_)
        rows = [row for row in read if row is not None]
        columns: dict[str, NDArray[Any]] = {_THERE: there}
        for place, column in enumerate(self._table.columns):
            values = empty_columns((column,), len(keys))[column.name]
            values[there] = _array((row[place] for row in rows), column.type, len(rows))
            if column.name == self._key:
                values[~there] = keys[~there]
            elif values.dtype == object:
                values[~there] = ""
            columns[column.name] = values
        return columns

    def _row(self, key: str, body: bytes | None) -> list[Any] | None:
        """The values of a row; None, as if it were not there, if they are not those of a row of the table."""
        row = read_json(body, f"a row of {self._table.name}", key)
        types = [column.type for column in self._table.columns]
        fits = isinstance(row, list) and len(row) == len(types) and all(map(is_value, types, row))
        return row if fits else None


def _array(values: Iterable[Any], type_name: str, size: int) -> NDArray[Any]:
    return np.fromiter(values, DTYPES[type_name], size)
