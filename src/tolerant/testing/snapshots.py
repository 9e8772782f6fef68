"""Snapshots in memory, for shards that are hosted without files."""

from __future__ import annotations

from tolerant.pipeline.snapshot_files import Snapshot


class MemorySnapshots:
    """A `SnapshotStore` that keeps all of them."""

    def __init__(self) -> None:
        self.by_position: dict[int, Snapshot] = {}

    def save(self, snapshot: Snapshot) -> None:
        """See `SnapshotStore.save`."""
        self.by_position.setdefault(snapshot.position, snapshot)

    def newest(self, until: int) -> Snapshot | None:
        """See `SnapshotStore.newest`."""
        position = max((position for position in self.by_position if position <= until), default=None)
        return None if position is None else self.by_position[position]

    def prune(self, until: int) -> int:
        """See `SnapshotStore.prune`; nothing is deleted."""
        return min(self.by_position)
