"""Makes the shards of aggregates over a network of aggregators."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

from tolerant.streams import Stream

if TYPE_CHECKING:
    from tolerant.pipeline.hosting import Hosted


@dataclass(frozen=True)
class NetworkFactory:
    """Makes shards of aggregates over a network of aggregators; travels to Spark's workers."""

    stream: Stream
    checkpoint: str

    @classmethod
    def of(cls, stream: Stream, epoch: int, checkpoint: str, log: str) -> Self:
        """As `QueryKind.shards` wants it."""
        return cls(stream, checkpoint)

    def __call__(self, shard: int) -> Hosted:
        """Creates an empty shard."""
        from tolerant.kinds.network.shard import NetworkShard

        return NetworkShard(self.stream, shard, self.checkpoint)
