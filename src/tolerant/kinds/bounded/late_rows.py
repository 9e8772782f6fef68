"""Accounts for late rows: how many came from each source, and for how long each query was computed without them."""

from __future__ import annotations

import numpy as np

from tolerant.filters.state import Integers
from tolerant.kinds.bounded.open_queries import OpenQueries
from tolerant.kinds.bounded.shard_state import Rows, ShardState
from tolerant.pipeline.intake import HEARTBEAT, HELLO
from tolerant.sql.membership import query_and_group


class LateRows:
    """Counts late rows, which came after the watermark had passed them."""

    def __init__(self, state: ShardState, queries: OpenQueries) -> None:
        self._state, self._queries = state, queries

    def count(self, rows: Rows, watermark: int) -> None:
        """Counts late rows and the time that queries missed them."""
        self._count_by_source(rows, watermark)
        for since, items in self._missing(rows):
            for query in {name for name, _ in map(query_and_group, self._queries.names_of(items))}:
                self._state.counters.lose(query, since, watermark)

    def _count_by_source(self, rows: Rows, watermark: int) -> None:
        """Counts rows by source, with the longest delay of each source that is certain."""
        counters = self._state.counters
        counters.late += len(rows)
        delays = watermark + self._state.stream.options.latency - rows["at"]
        for source in np.unique(rows["source"]).tolist():
            own = rows["source"] == source
            counters.count_late(self._state.sources.names[source], int(own.sum()), int(delays[own].max()))

    def _missing(self, rows: Rows) -> list[tuple[int, Integers]]:
        """Returns items and since when their rows were missing; a heartbeat or hello concerns all items of a source."""
        whole = (rows["kind"] == HEARTBEAT) | (rows["kind"] == HELLO)
        missing = []
        for source in np.unique(rows["source"][whole]):
            first = int(rows["at"][whole & (rows["source"] == source)].min())
            missing.append((first, self._state.registry.of_source(int(source))))
        items, first_rows = np.unique(rows["item"][~whole], return_index=True)
        missing.extend((int(rows["at"][~whole][row]), items[k : k + 1]) for k, row in enumerate(first_rows))
        return missing
