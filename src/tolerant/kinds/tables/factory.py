"""Makes the shards of a table with the queries over it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

from tolerant.sql import CreateTable

if TYPE_CHECKING:
    from tolerant.pipeline.hosting import Hosted


@dataclass(frozen=True)
class TableFactory:
    """Makes shards of a table with the queries over it; travels to Spark's workers."""

    table: CreateTable

    @classmethod
    def of(cls, table: CreateTable, epoch: int, checkpoint: str, log: str) -> Self:
        """As `QueryKind.shards` wants it."""
        return cls(table)

    def __call__(self, shard: int) -> Hosted:
        """Creates an empty shard."""
        from tolerant.kinds.tables.shard import TableShard

        return TableShard(self.table, shard)
