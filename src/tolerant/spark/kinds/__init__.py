"""The kinds of query that Spark can host: one file a kind, listed here; how each is recognised is in
`tolerant.sql.kinds`.

A kind is a class with the `Hosted` interface. One pipeline runs a stream or relation, so the registry goes by what
feeds it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tolerant.spark.hosting import Hosted
from tolerant.streams import Stream

ShardFactory = Callable[[int], Hosted]
"""Makes the shard of a number."""


@dataclass(frozen=True)
class BoundedFactory:
    """Makes shards of bounded aggregates; travels to Spark's workers."""

    stream: Stream
    epoch: int
    checkpoint: str

    def __call__(self, shard: int) -> Hosted:
        """A newly born shard."""
        from tolerant.spark.kinds.bounded import BoundedShard

        return BoundedShard(self.stream, shard, self.epoch, self.checkpoint)


FACTORIES: dict[str, Callable[[Stream, int, str], ShardFactory]] = {"bounded": BoundedFactory}
"""By kind: what makes its shards from a stream, the pipeline's epoch and its checkpoint's id."""


def shard_factory(stream: Stream, epoch: int, checkpoint: str) -> ShardFactory:
    """What makes the shards of a stream's pipeline. A stream without a URI is fed by edge sources: bounded
    aggregates.
    """
    return FACTORIES["bounded"](stream, epoch, checkpoint)
