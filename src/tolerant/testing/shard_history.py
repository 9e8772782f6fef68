"""What it takes to restore a shard that a simulation or a test runs: a snapshot, and the batches since."""

from __future__ import annotations

from collections.abc import Sequence

from tolerant.pipeline.hosting import Hosted
from tolerant.transport.log import Entry


class ShardHistory:
    """See the module. At first there is no snapshot, and no batch."""

    def __init__(self) -> None:
        self._snapshot: bytes | None = None
        self._batches: list[Sequence[Entry]] = []

    def add(self, batch: Sequence[Entry]) -> None:
        """A batch was applied to the shard."""
        self._batches.append(batch)

    def fold(self, snapshot: bytes) -> None:
        """A snapshot of the shard was taken: the batches before it are not needed any more."""
        self._snapshot, self._batches = snapshot, []

    def restore(self, shard: Hosted) -> None:
        """Bring a new shard to the state of the one that this is the history of."""
        if self._snapshot is not None:
            shard.restore(self._snapshot)
        for batch in self._batches:
            shard.apply(batch)
