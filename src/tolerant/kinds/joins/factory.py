"""Makes the shards of a pair of tables with the queries over both."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

from tolerant.sql import JoinInput

if TYPE_CHECKING:
    from tolerant.pipeline.hosting import Hosted


@dataclass(frozen=True)
class PairFactory:
    """Makes shards of a pair of tables with the queries over both; travels to Spark's workers."""

    pair: JoinInput

    @classmethod
    def of(cls, pair: JoinInput, epoch: int, checkpoint: str, log: str) -> Self:
        """As `QueryKind.shards` wants it."""
        return cls(pair)

    def __call__(self, shard: int) -> Hosted:
        """Creates an empty shard."""
        from tolerant.kinds.joins.shard import PairShard

        return PairShard(self.pair, shard)
