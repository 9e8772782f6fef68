"""Joins with room for n rows (`KEEP n ROWS`): result rows as they appear, as many as the rows kept can give.

`tolerant.retention` decides which rows are kept (`docs/design/retention.md`); here they have their columns. Every
batch of results says what share of all results has been found so far, by estimate; so does `current.<query>`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tolerant.kernels.snapshots import State
from tolerant.kinds.kept_joins.select import KeepJoinSelect
from tolerant.pipeline.join_codes import codes
from tolerant.pipeline.shard_range import SINGLE_SHARD, Part
from tolerant.relations import Changes
from tolerant.relations.row_changes import empty_columns
from tolerant.retention import Keeper, ShareEstimate
from tolerant.sql import CreateQuery, CreateTable
from tolerant.transport.results import kept_batch
from tolerant.transport.rows import compacted
from tolerant.transport.subscriptions import subscription_ids
from tolerant.transport.topics import answers_topic, current_topic

Integers = NDArray[np.int64]
Arrays = Mapping[str, NDArray[Any]]


class Rows:
    """Rows of a table with their numbers, in the order of these."""

    def __init__(self, numbers: Integers, columns: Arrays) -> None:
        self.numbers, self.columns = numbers, dict(columns)

    def __len__(self) -> int:
        return len(self.numbers)

    def add(self, numbers: Integers, columns: Arrays) -> None:
        """Adds rows whose numbers are larger than all so far."""
        self.numbers = np.concatenate([self.numbers, numbers])
        self.columns = {name: np.concatenate([column, columns[name]]) for name, column in self.columns.items()}

    def keep(self, numbers: Integers) -> None:
        """Removes all rows except those with these numbers."""
        stays = np.isin(self.numbers, numbers, assume_unique=True)
        self.numbers = self.numbers[stays]
        self.columns = {name: column[stays] for name, column in self.columns.items()}

    def of(self, numbers: Integers) -> dict[str, NDArray[Any]]:
        """The columns of rows that are here, by their numbers."""
        places = np.searchsorted(self.numbers, numbers)
        return {name: column[places] for name, column in self.columns.items()}

    def state(self) -> State:
        """Everything, for a snapshot."""
        return State(numbers=self.numbers, columns=State(self.columns))

    @classmethod
    def load(cls, names: Iterable[str], state: State) -> Rows:
        """What `state` was taken of; the names of the columns."""
        numbers, columns = state.exactly("numbers", "columns")
        names = list(names)
        return cls(numbers, dict(zip(names, columns.exactly(*names), strict=True)))


class ForAll:
    """A query that has no parameters: who listens to it need not say so."""

    tally = "results"
    query: CreateQuery

    def __len__(self) -> int:
        return 1

    def take(self, batch: pa.RecordBatch) -> None:
        """Nobody has to subscribe.

        Raises:
            ValueError: always.
        """
        raise ValueError(f"{self.query.name} has no parameters: whoever reads its answers hears all of it")


class KeptJoin(ForAll):
    """One query with `KEEP n ROWS`."""

    def __init__(
        self,
        query: CreateQuery,
        tables: tuple[CreateTable, CreateTable],
        part: Part = SINGLE_SHARD,
        state: State | None = None,
    ) -> None:
        select = KeepJoinSelect.of(query)
        self.query, self._on, self._part = query, select.on, part
        self._turned = tables[0].name != select.left  # a pair's order is that of names
        self._tables = (tables[1], tables[0]) if self._turned else tables
        self._of_tables = [(table.name, table.columns) for table in self._tables]
        self._found, self._step = 0, 0  # results so far, of all shards, and the step of the last
        self._is_news = False
        if state is None:
            self._keeper = Keeper(select.rows)
            empty = np.zeros(0, np.int64)
            self._rows = tuple(Rows(empty, empty_columns(table.columns)) for table in self._tables)
        else:
            self._load(state)

    @property
    def held(self) -> int:
        """How many rows are kept, in all shards."""
        return len(self._keeper)

    def outputs(
        self, changes: tuple[Changes, Changes], steps: tuple[Integers, Integers]
    ) -> list[tuple[str, pa.RecordBatch]]:
        """The result rows that rows of both tables, in the pair's order, make with what is kept."""
        if self._turned:
            changes, steps = (changes[1], changes[0]), (steps[1], steps[0])
        order = np.argsort(np.concatenate(steps))
        at = np.concatenate([side.at for side in changes])[order]
        values = np.concatenate(
            [codes(side.columns[on]) for side, on in zip(changes, self._on, strict=True)]
        )[order]  # fmt: skip
        streams = np.repeat([0, 1], [len(side) for side in changes])[order]
        first, mine = self._keeper.came, self._part.owns(values)
        for k, (rows, side) in enumerate(zip(self._rows, changes, strict=True)):
            own = mine[streams == k]
            columns = side.columns if own.all() else {name: column[own] for name, column in side.columns.items()}
            rows.add(first + np.flatnonzero((streams == k) & mine), columns)
        known, new = self._keeper.take(at, streams, values)
        outputs = self._results(known, new - first, streams, mine, at, np.sort(np.concatenate(steps)), first)
        kept = self._keeper.held()
        for rows in self._rows:
            rows.keep(kept)
        return outputs

    def share(self) -> ShareEstimate:
        """What part of all results has been found, by estimate."""
        return self._keeper.share(self._found)

    def current(self) -> list[tuple[str, pa.RecordBatch]]:
        """What has been found so far, for the compacted topic `current.<query>`, if that has just changed; all shards
        know it, and the first says it.
        """
        if not self._is_news or self._part.shard:
            return []
        share, error = self.share()
        body = json.dumps({"found": self._found, "share": share, "error": error})
        return [(current_topic(self.query.name), compacted([("", self._step, body.encode())]))]

    def figures(self) -> dict[str, float]:
        """Rows that came and that are kept, of both tables; results found, and the share of all that they are."""
        share, error = self.share()
        rounded = {"share": round(share, 4), "error": round(error, 4)}
        return {"rows": self._keeper.came, "kept": len(self._keeper), "found": self._found, **rounded}

    def state(self) -> State:
        """All that is kept and known."""
        rows = State({str(k): rows.state() for k, rows in enumerate(self._rows)})
        return State(keeper=self._keeper.state(), rows=rows, found=self._found, step=self._step)

    def _load(self, state: State) -> None:
        keeper, rows, self._found, self._step = state.exactly("keeper", "rows", "found", "step")
        self._keeper = Keeper.load(keeper)
        self._rows = tuple(
            Rows.load([column.name for column in table.columns], fields)
            for table, fields in zip(self._tables, rows.exactly("0", "1"), strict=True)
        )

    def _results(
        self,
        known: Integers,
        new: Integers,
        streams: Integers,
        mine: NDArray[np.bool_],
        at: Integers,
        steps: Integers,
        first: int,
    ) -> list[tuple[str, pa.RecordBatch]]:
        """The pairs of this shard as result rows; `new` are places among the rows that came, whose numbers begin with
        `first`, and `mine` says which of these are this shard's.
        """
        last = steps[np.searchsorted(at, at[new], side="right") - 1]  # of the moment
        own = mine[new]
        known, new = known[own], new[own]
        is_r = streams[new] == 0
        joined = [
            rows.of(np.where(mine, new + first, known))
            for rows, mine in zip(self._rows, (is_r, ~is_r), strict=True)
        ]  # fmt: skip
        equal = np.asarray(joined[0][self._on[0]] == joined[1][self._on[1]], np.bool_)
        counts = ~own  # what others find they look at themselves: equal codes of texts that differ are that rare
        counts[own] = equal
        self._is_news = bool(counts.any())
        if self._is_news:
            self._found += int(np.count_nonzero(counts))
            self._step = int(last[counts][-1])
        if not equal.any():
            return []
        columns = {
            f"{table.name}.{name}": column[equal]
            for table, of_table in zip(self._tables, joined, strict=True)
            for name, column in of_table.items()
        }
        share, _ = self.share()
        (subscription,) = subscription_ids({}).tolist()
        batch = kept_batch(
            self._of_tables,
            at=at[new[equal]],
            steps=last[own][equal],
            subscription=subscription,
            share=share,
            columns=columns,
            shard=self._part.number,
        )
        return [(answers_topic(self.query.name), batch)]
