"""The shards of a pipeline behind their splitter, as one."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from tolerant.pipeline.hosting import Hosted, Output
from tolerant.pipeline.splitter import Splitter
from tolerant.transport.log import Entry
from tolerant.transport.quarantine import WaitingRow
from tolerant.transport.rows import pack, unpack_trusted


class SeveralShards:
    """Gives each shard its part of every entry, and returns the outputs of all."""

    def __init__(self, split: Splitter, shards: Sequence[Hosted]) -> None:
        self.split, self.shards = split, shards

    def apply(self, batch: Sequence[Entry]) -> list[Output]:
        """See `Hosted`."""
        return [
            output for number, shard in enumerate(self.shards) for output in shard.apply(self.split.part(number, batch))
        ]

    def snapshot(self) -> bytes:
        """See `Hosted`."""
        return pack(pa.record_batch({"snapshot": pa.array([shard.snapshot() for shard in self.shards], pa.binary())}))

    def restore(self, snapshot: bytes) -> None:
        """See `Hosted`."""
        snapshots = unpack_trusted(snapshot).column("snapshot").to_pylist()
        for shard, own in zip(self.shards, snapshots, strict=True):
            shard.restore(own)

    def waiting_rows(self) -> list[WaitingRow]:
        """See `Hosted`."""
        return [row for shard in self.shards for row in shard.waiting_rows()]
