"""Shards behind a splitter, in the place of one."""

from __future__ import annotations

from collections.abc import Sequence

from tolerant.pipeline.hosting import Hosted, Output
from tolerant.pipeline.splitter import Splitter
from tolerant.transport.log import Entry


class SeveralShards:
    """Each gets its part of every entry, and what they say is said together."""

    def __init__(self, split: Splitter, shards: Sequence[Hosted]) -> None:
        self.split, self.shards = split, shards

    def apply(self, batch: Sequence[Entry]) -> list[Output]:
        return [
            output for number, shard in enumerate(self.shards) for output in shard.apply(self.split.part(number, batch))
        ]

    def restore(self, snapshots: list[bytes]) -> None:
        for shard, snapshot in zip(self.shards, snapshots, strict=True):
            shard.restore(snapshot)

    def snapshot(self) -> list[bytes]:
        return [shard.snapshot() for shard in self.shards]
