"""One shard of two tables that only grow, or of which one is looked up in its file: the queries over them keep some of
the rows, and the shard none.

Rows of both tables come in one order, (at, table, key, sequence), when the clocks of both have passed them. A row that
is deleted or replaced, which a query that has joined and forgotten it could not take back, is a dead letter.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tolerant.kernels.snapshots import Schema, State
from tolerant.kinds.kept_joins.kept_join import KeptJoin
from tolerant.kinds.kept_joins.lookup_join import Fetch, LookedUp
from tolerant.kinds.kept_joins.select import KeepJoinSelect
from tolerant.pipeline.hosting import Output
from tolerant.pipeline.intake import DeadRow
from tolerant.pipeline.migrations import with_late_sources
from tolerant.pipeline.rows_shard import Integers, RowsShard, Side
from tolerant.pipeline.shard_range import Part
from tolerant.relations import Changes
from tolerant.sql import AppendOnlyJoinInput, CreateQuery
from tolerant.transport.rows import pack


class AppendOnlyJoinShard(RowsShard[KeptJoin | LookedUp, Side]):
    """`Hosted` by Spark; see the module. The sides' relations have no rows, but know the newest row of each source.
    `fetch`: where rows are looked up; None: no query may.

    Of several shards each decides about all rows, alike, and keeps those that are joined on values of its own: so the
    room is where it is needed, and the result is that of one shard.
    """

    SCHEMA = Schema("kept_joins", 2, {1: with_late_sources})

    def __init__(self, pair: AppendOnlyJoinInput, shard: int = 0, fetch: Fetch | None = None) -> None:
        super().__init__(pair.name, pair.tables, Side, shard)
        self._tables, self._fetch, self._part = pair.tables, fetch, Part(shard, pair.shards)
        self._counters["came"] = 0

    def _is_hosted(self, query: CreateQuery) -> bool:
        return KeepJoinSelect.matching(query) is not None

    def _make(self, query: CreateQuery, state: State | None) -> KeptJoin | LookedUp:
        if query.select.file_digest is not None:
            assert self._fetch is not None
            return LookedUp(query, self._tables, self._fetch, self._part, state)
        return KeptJoin(query, self._tables, self._part, state)

    def _apply(self, changes: Sequence[Changes]) -> None:
        self._count("changes", sum(map(len, changes)))
        grown = [self._grown(side, own) for side, own in zip(self._sides, changes, strict=True)]
        if any(map(len, grown)):
            self._count("came", sum(map(len, grown)))
            self._publish(grown, self._numbered(grown))

    def _publish(self, effects: Sequence[Changes], steps: Sequence[Integers]) -> None:
        (left, right), (first, second) = effects, steps
        for query in self._queries.values():
            self._publish_for(query, query.outputs((left, right), (first, second)))
            self._outputs += [Output(topic, pack(batch)) for topic, batch in query.current()]

    def _forget(self, side: Side) -> None:
        side.clear()

    def _size(self) -> int:
        return sum(query.held for query in self._queries.values())

    def _grown(self, side: Side, changes: Changes) -> Changes:
        """The inserted rows; the others are dead letters."""
        changes = changes.take(side.relation.unapplied(changes)) if len(changes) else changes
        if changes.insert.all():
            return changes
        gone = ~changes.insert
        gone_at = set(zip(changes.keys[gone].tolist(), changes.at[gone].tolist(), strict=True))
        whole = zip(changes.keys.tolist(), changes.at.tolist(), strict=True)
        refused = np.fromiter((row in gone_at for row in whole), np.bool_, len(changes))
        for row in np.flatnonzero(refused).tolist():
            done = "replaced" if changes.insert[row] else "deleted"
            self._dead.append(
                DeadRow(
                    f"a row of {side.table.name} cannot be {done}: queries with KEEP are over tables that only grow",
                    "insert" if changes.insert[row] else "delete",
                    str(changes.keys[row]),
                    int(changes.at[row]),
                    changes.sources[changes.source[row]],
                    int(changes.sequence[row]),
                )
            )
        return changes.take(~refused)
