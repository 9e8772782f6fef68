"""One shard of the pipeline of a pair of tables: the rows of both and the queries over them.

Changes of both tables apply in one order, (at, table, key, sequence), when the clocks of both have passed them; those
of one `at` are one transaction. What they are to whom the queries say; the rows that they leave are in the compacted
topic `rows.<pair>`, under table and key, in the same transaction.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from numpy.typing import NDArray

from tolerant.relations import Changes, RowNumbers
from tolerant.spark.kinds.pair_queries import PairQuery, is_hosted, pair_query
from tolerant.spark.kinds.shard import Arrays, Integers, RowsShard, Side, under
from tolerant.spark.kinds.sides import SideChanges
from tolerant.sql import CreateQuery, CreateTable, Pair


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

    def __init__(self, pair: Pair, shard: int = 0) -> None:
        one, other = (NumberedSide(table) for table in pair.tables)
        super().__init__(pair.name, (one, other), shard)
        self._both = one, other

    def _is_hosted(self, query: CreateQuery) -> bool:
        return is_hosted(query)

    def _make(self, query: CreateQuery, state: Arrays | None) -> PairQuery:
        return pair_query(query, self._both, state)

    def _tell(self, effects: Sequence[Changes], steps: Sequence[Integers]) -> None:
        one, other = (
            SideChanges(changes, of, side.numbers.take(changes))
            for side, changes, of in zip(self._both, effects, steps, strict=True)
        )
        for query in self._queries.values():
            self._say_for(query, query.say((one, other)))
        for side in self._both:
            side.numbers.settle()
