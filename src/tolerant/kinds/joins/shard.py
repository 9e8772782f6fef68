"""One shard of the pipeline of a pair of tables: the rows of both and the queries over them.

Changes of both tables apply in one order, (at, table, key, sequence), when the clocks of both have passed them; those
of one `at` are one transaction. What they are to whom the queries say; the rows that they leave are in the compacted
topic `rows.<pair>`, under table and key, in the same transaction.

Of several shards each reads all changes. Where rows are spread by what they are joined on, one holds the rows of its
own values or ranges, and what comes for another takes away what it had under that key; where subscriptions are spread,
all hold every row and the first speaks of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tolerant.kinds.joins.queries import PairQuery, is_hosted, pair_query
from tolerant.pipeline.hosting import Output
from tolerant.pipeline.rows_shard import Arrays, Integers, RowsShard, Side, under
from tolerant.pipeline.shard_range import Part
from tolerant.pipeline.sides import SideChanges
from tolerant.relations import Changes, RowNumbers
from tolerant.sql import CreateQuery, CreateTable, JoinInput
from tolerant.transport.deliveries import row_key


class NumberedSide(Side):
    """A table of a pair, whose rows have numbers."""

    def __init__(self, table: CreateTable) -> None:
        super().__init__(table)
        self.numbers = RowNumbers()

    def clear(self) -> None:
        """See `Side.clear`."""
        super().clear()
        self.numbers = RowNumbers()

    def state(self) -> tuple[dict[str, NDArray[Any]], Any]:
        """See `Side.state`."""
        arrays, values = super().state()
        numbers = self.numbers.state(self.relation.keys())
        return {**arrays, **{f"numbers.{name}": array for name, array in numbers.items()}}, values

    def load(self, arrays: Arrays, values: Any) -> None:
        """See `Side.load`."""
        super().load(arrays, values)
        self.numbers = RowNumbers.load(self.relation.keys(), under("numbers.", arrays))


class PairShard(RowsShard[PairQuery]):
    """`Hosted` by Spark; see the module."""

    def __init__(self, pair: JoinInput, shard: int = 0) -> None:
        one, other = (NumberedSide(table) for table in pair.tables)
        super().__init__(pair.name, (one, other), shard)
        self._both, self._part = (one, other), Part(shard, pair.shards, pair.ranges)
        self._on = pair.on if pair.by_value else None
        self._is_speaker = pair.by_value or not shard

    def _is_hosted(self, query: CreateQuery) -> bool:
        return is_hosted(query)

    def _make(self, query: CreateQuery, state: Arrays | None) -> PairQuery:
        return pair_query(query, self._both, state, self._part)

    def _apply(self, found: Sequence[Changes]) -> None:
        if self._on is None:
            super()._apply(found)
            return
        own = zip(self._sides, found, self._on, strict=True)
        super()._apply([self._own(side.table.name, changes, on) for side, changes, on in own])
        for side in self._sides:
            side.relation.unknown = 0  # a row that is not here may be another's

    def _own(self, table: str, changes: Changes, on: str) -> Changes:
        """The changes as they are here: a row that comes for another shard has gone from this one."""
        insert = changes.insert.copy()
        insert[insert] = self._part.holds(table, changes.columns[on][insert])
        return replace(changes, insert=insert)

    def _tell(self, effects: Sequence[Changes], steps: Sequence[Integers]) -> None:
        one, other = (
            SideChanges(changes, of, side.numbers.apply(changes))
            for side, changes, of in zip(self._both, effects, steps, strict=True)
        )
        for query in self._queries.values():
            self._say_for(query, query.say((one, other)))
        for side in self._both:
            side.numbers.settle()

    def _say(self) -> list[Output]:
        if not self._is_speaker:
            self._changed = []
        return super()._say()

    def _called(self, side: Side) -> str | None:
        name = side.table.name
        return name if self._on is None else row_key(str(self._shard), name)  # steps are a shard's own

    def _size(self) -> int:
        if self._on is None:
            return super()._size() if self._is_speaker else 0
        held = (side.relation.rows()[on] for side, on in zip(self._sides, self._on, strict=True))
        return sum(int(np.count_nonzero(self._part.counts(values))) for values in held)
