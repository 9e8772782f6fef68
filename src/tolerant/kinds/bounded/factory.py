"""Makes the shards of bounded aggregates."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

from tolerant.streams import Stream

if TYPE_CHECKING:
    from tolerant.pipeline.hosting import Hosted


@dataclass(frozen=True)
class BoundedFactory:
    """Makes shards of bounded aggregates; travels to Spark's workers."""

    stream: Stream
    epoch: int
    checkpoint: str

    @classmethod
    def of(cls, stream: Stream, epoch: int, checkpoint: str, log: str) -> Self:
        """As `QueryKind.shards` wants it."""
        return cls(stream, epoch, checkpoint)

    def __call__(self, shard: int) -> Hosted:
        """Creates an empty shard."""
        from tolerant.kinds.bounded.shard import BoundedShard

        return BoundedShard(self.stream, shard, self.epoch, self.checkpoint)
