"""Makes the shards of two tables that only grow, with the queries that keep some of their rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

from tolerant.sql import AppendOnlyJoinInput

if TYPE_CHECKING:
    from tolerant.pipeline.hosting import Hosted


@dataclass(frozen=True)
class AppendOnlyJoinFactory:
    """Makes shards of two tables that only grow, with the queries that keep some of their rows; travels to Spark's
    workers. `log`: the URI of the log, in which rows are looked up.
    """

    pair: AppendOnlyJoinInput
    log: str = ""

    @classmethod
    def of(cls, pair: AppendOnlyJoinInput, epoch: int, checkpoint: str, log: str) -> Self:
        """As `QueryKind.shards` wants it."""
        return cls(pair, log)

    def __call__(self, shard: int) -> Hosted:
        """Creates an empty shard."""
        from tolerant.kinds.kept_joins.shard import AppendOnlyJoinShard

        return AppendOnlyJoinShard(self.pair, shard, self._fetch)

    def _fetch(self, topic: str, keys: Sequence[str]) -> list[bytes | None]:
        from tolerant.kinds.kept_joins.lookup_join import fetch_from
        from tolerant.transport.opening import shared_log

        return fetch_from(shared_log(self.log))(topic, keys)
