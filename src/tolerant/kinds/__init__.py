"""The kinds of query that Spark can host: one file a kind, listed here; how each is recognised is in
`tolerant.sql.kinds`.

A kind is a class with the `Hosted` interface. One pipeline runs a stream or relation, so the registry goes by what
feeds it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tolerant.pipeline.hosting import Hosted
from tolerant.sql import AppendOnlyJoinInput, CreateTable, JoinInput
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
        """Creates an empty shard."""
        from tolerant.kinds.bounded.shard import BoundedShard

        return BoundedShard(self.stream, shard, self.epoch, self.checkpoint)


@dataclass(frozen=True)
class PolledFactory:
    """Makes shards of aggregates over a polled stream; travels to Spark's workers."""

    stream: Stream

    def __call__(self, shard: int) -> Hosted:
        """Creates an empty shard."""
        from tolerant.kinds.polled.shard import PolledShard

        return PolledShard(self.stream, shard)


@dataclass(frozen=True)
class NetworkFactory:
    """Makes shards of aggregates over a network of aggregators; travels to Spark's workers."""

    stream: Stream
    epoch: int
    checkpoint: str

    def __call__(self, shard: int) -> Hosted:
        """Creates an empty shard."""
        from tolerant.kinds.network.shard import NetworkShard

        return NetworkShard(self.stream, shard, self.checkpoint)


@dataclass(frozen=True)
class TableFactory:
    """Makes shards of a table with the queries over it; travels to Spark's workers."""

    table: CreateTable

    def __call__(self, shard: int) -> Hosted:
        """Creates an empty shard."""
        from tolerant.kinds.tables.shard import TableShard

        return TableShard(self.table, shard)


@dataclass(frozen=True)
class PairFactory:
    """Makes shards of a pair of tables with the queries over both; travels to Spark's workers."""

    pair: JoinInput

    def __call__(self, shard: int) -> Hosted:
        """Creates an empty shard."""
        from tolerant.kinds.joins.shard import PairShard

        return PairShard(self.pair, shard)


@dataclass(frozen=True)
class AppendOnlyJoinFactory:
    """Makes shards of two tables that only grow, with the queries that keep some of their rows; travels to Spark's
    workers. `log`: the URI of the log, in which rows are looked up.
    """

    pair: AppendOnlyJoinInput
    log: str = ""

    def __call__(self, shard: int) -> Hosted:
        """Creates an empty shard."""
        from tolerant.kinds.kept_joins.shard import AppendOnlyJoinShard

        return AppendOnlyJoinShard(self.pair, shard, self._fetch)

    def _fetch(self, topic: str, keys: Sequence[str]) -> list[bytes | None]:
        from tolerant.kinds.lookups.lookup_join import fetch_from
        from tolerant.transport.opening import shared_log

        return fetch_from(shared_log(self.log))(topic, keys)


def shard_factory(
    relation: Stream | CreateTable | JoinInput, epoch: int, checkpoint: str, log: str = ""
) -> ShardFactory:
    """What makes the shards of a pipeline. A stream without a URI is fed by edge sources: bounded aggregates."""
    if isinstance(relation, Stream) and relation.polled:
        return PolledFactory(relation)
    if isinstance(relation, Stream) and relation.networked:
        return NetworkFactory(relation, epoch, checkpoint)
    if isinstance(relation, Stream):
        return BoundedFactory(relation, epoch, checkpoint)
    if isinstance(relation, AppendOnlyJoinInput):
        return AppendOnlyJoinFactory(relation, log)
    return PairFactory(relation) if isinstance(relation, JoinInput) else TableFactory(relation)
