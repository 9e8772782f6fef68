"""Makes the shards of aggregates over a polled stream."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

from tolerant.streams import Stream

if TYPE_CHECKING:
    from tolerant.pipeline.hosting import Hosted


@dataclass(frozen=True)
class PolledFactory:
    """Makes shards of aggregates over a polled stream; travels to Spark's workers."""

    stream: Stream

    @classmethod
    def of(cls, stream: Stream, epoch: int, checkpoint: str, log: str) -> Self:
        """As `QueryKind.shards` wants it."""
        return cls(stream)

    def __call__(self, shard: int) -> Hosted:
        """Creates an empty shard."""
        from tolerant.kinds.polled.shard import PolledShard

        return PolledShard(self.stream, shard)
