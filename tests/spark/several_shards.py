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

    def apply(self, batch: Sequence[Entry]) -> tuple[list[Output], list[bytes]]:
        parts: list[list[Entry]] = [[] for _ in self.shards]
        for entry in batch:
            for shard, partition, position, topic, payload in self.split._split(entry):
                parts[shard].append(Entry(topic, partition, position, payload))
        said = [shard.apply(part) for shard, part in zip(self.shards, parts, strict=True)]
        return [output for outputs, _ in said for output in outputs], [delta for _, delta in said]

    def restore(self, snapshots: list[bytes] | None, deltas: Sequence[list[bytes]]) -> None:
        for k, shard in enumerate(self.shards):
            shard.restore(None if snapshots is None else snapshots[k], [delta[k] for delta in deltas])

    def snapshot(self) -> list[bytes]:
        return [shard.snapshot() for shard in self.shards]
