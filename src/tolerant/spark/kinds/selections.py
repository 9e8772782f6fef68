"""The range queries over one table: their subscriptions, and what a batch of changes is worth to each."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tolerant.relations import Changes, RangeSelection, Relation, Subscriptions
from tolerant.sql import CreateQuery, CreateTable
from tolerant.sql.templates import column_ranges, parameter_types
from tolerant.transport.deliveries import deliveries_batch
from tolerant.transport.subscriptions import read_subscription_rows, subscription_ids


class Selection:
    """One query for everything in a range: a template with its subscriptions, or without parameters one for all."""

    tally = "deliveries"

    def __init__(self, query: CreateQuery, table: CreateTable, held: Subscriptions | None = None) -> None:
        self.query, self._table = query, table
        self._types = parameter_types(query, table)
        self.subscriptions = held if held is not None else Subscriptions(self._types)
        self._index = RangeSelection(column_ranges(query, table))
        if held is None and not query.parameters:
            self.subscriptions.add_many(subscription_ids({}), {})
        self._index.add_many(self.subscriptions.ids(), self.subscriptions.columns())

    @classmethod
    def over(
        cls, query: CreateQuery, table: CreateTable, rows: Relation, state: Mapping[str, NDArray[Any]] | None
    ) -> Selection:
        """A new selection, or the one whose subscriptions were these. What rows there are is of no account."""
        return cls(query, table, None if state is None else Subscriptions.load(parameter_types(query, table), state))

    def __len__(self) -> int:
        return len(self.subscriptions)

    def figures(self) -> dict[str, int]:
        """There are none of its own."""
        return {}

    def state(self) -> dict[str, NDArray[Any]]:
        """The subscriptions; the index is made anew from them."""
        return self.subscriptions.state()

    def take(self, batch: pa.RecordBatch) -> None:
        """Subscribe and unsubscribe, in the order of the rows.

        Raises:
            ValueError: the rows are not those of this template.
        """
        joining, ids, columns = read_subscription_rows(batch, self._types)
        # A batch is of one kind as it is sent; where it is not, runs of a kind keep the order.
        edges = np.flatnonzero(np.diff(joining.astype(np.int8))) + 1
        for run in np.split(np.arange(len(ids)), edges):
            if len(run) and joining[run[0]]:
                given = {name: column[run] for name, column in columns.items()}
                self.subscriptions.add_many(ids[run], given)
                self._index.add_many(ids[run], given)
            elif len(run):
                self.subscriptions.remove_many(ids[run])
                self._index.remove_many(ids[run])

    def say(self, changes: Changes, steps: NDArray[np.int64]) -> list[tuple[str, pa.RecordBatch]]:
        """What the changes are to the subscriptions that they concern."""
        rows, ids = self._index.matching(changes.columns)
        if not len(rows):
            return []
        said = deliveries_batch(self._table.columns, changes.take(rows), steps[rows], ids)
        return [(f"answers.{self.query.name}", said)]
