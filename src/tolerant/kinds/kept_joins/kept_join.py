"""Joins with room for n rows (`KEEP n ROWS`): result rows as they appear, as many as the rows kept can give.

`tolerant.retention` decides which rows are kept (`docs/design/retention.md`); here they have their columns. Every
batch of results says what share of all results has been found so far, by estimate; so does `current.<query>`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tolerant.kernels import snapshots
from tolerant.pipeline.join_codes import codes
from tolerant.pipeline.shard_range import SINGLE_SHARD, Part
from tolerant.relations import Changes
from tolerant.relations.row_changes import empty_columns
from tolerant.relations.texts import packed_texts, unpacked_texts
from tolerant.retention import Keeper, ShareEstimate
from tolerant.sql import CreateQuery, CreateTable
from tolerant.sql.statements import KeepJoinSelect
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

    def state(self) -> dict[str, NDArray[Any]]:
        """Everything, as arrays of numbers."""
        found: dict[str, NDArray[Any]] = {"numbers": self.numbers}
        for name, column in self.columns.items():
            if column.dtype == object:
                found[f"column.{name}"], found[f"lengths.{name}"] = packed_texts(column)
            else:
                found[f"column.{name}"] = column
        return found

    @classmethod
    def load(cls, names: Mapping[str, bool], arrays: Arrays) -> Rows:
        """What `state` was taken of; the columns, and whether they are texts."""
        columns = {
            name: unpacked_texts(arrays[f"column.{name}"], arrays[f"lengths.{name}"])
            if is_text
            else arrays[f"column.{name}"].copy()
            for name, is_text in names.items()
        }
        return cls(arrays["numbers"].copy(), columns)


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
        state: Arrays | None = None,
    ) -> None:
        select = query.select
        assert isinstance(select, KeepJoinSelect)
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

    def say(
        self, changes: tuple[Changes, Changes], steps: tuple[Integers, Integers]
    ) -> list[tuple[str, pa.RecordBatch]]:
        """The result rows that rows of both tables, in the pair's order, make with what is kept."""
        if self._turned:
            changes, steps = (changes[1], changes[0]), (steps[1], steps[0])
        order = np.argsort(np.concatenate(steps))
        at = np.concatenate([one.at for one in changes])[order]
        values = np.concatenate(
            [codes(one.columns[on]) for one, on in zip(changes, self._on, strict=True)]
        )[order]  # fmt: skip
        streams = np.repeat([0, 1], [len(one) for one in changes])[order]
        first, mine = self._keeper.came, self._part.owns(values)
        for k, (rows, one) in enumerate(zip(self._rows, changes, strict=True)):
            own = mine[streams == k]
            columns = one.columns if own.all() else {name: column[own] for name, column in one.columns.items()}
            rows.add(first + np.flatnonzero((streams == k) & mine), columns)
        held, new = self._keeper.take(at, streams, values)
        said = self._results(held, new - first, streams, mine, at, np.sort(np.concatenate(steps)), first)
        kept = self._keeper.held()
        for rows in self._rows:
            rows.keep(kept)
        return said

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

    def state(self) -> dict[str, NDArray[Any]]:
        """All that is kept and known."""
        arrays, values = self._keeper.state()
        for k, rows in enumerate(self._rows):
            arrays |= {f"rows.{k}.{name}": array for name, array in rows.state().items()}
        packed = snapshots.pack(arrays, [values, self._found, self._step])
        return {"kept": np.frombuffer(packed, np.uint8)}

    def _load(self, state: Arrays) -> None:
        arrays, (values, self._found, self._step) = snapshots.unpack(state["kept"].tobytes())
        self._keeper = Keeper.load(arrays, values)
        self._rows = tuple(
            Rows.load(
                {column.name: column.type == "STRING" for column in table.columns},
                {name.removeprefix(f"rows.{k}."): array for name, array in arrays.items()},
            )
            for k, table in enumerate(self._tables)
        )

    def _results(
        self,
        held: Integers,
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
        held, new = held[own], new[own]
        is_r = streams[new] == 0
        found = [
            rows.of(np.where(mine, new + first, held))
            for rows, mine in zip(self._rows, (is_r, ~is_r), strict=True)
        ]  # fmt: skip
        equal = np.asarray(found[0][self._on[0]] == found[1][self._on[1]], np.bool_)
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
            for table, of_table in zip(self._tables, found, strict=True)
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
