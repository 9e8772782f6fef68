"""How a core is put to work on Spark: one small interface, and the bytes it exchanges (`docs/design/pipeline.md`
§5).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import pyarrow as pa

from tolerant.transport.log import Entry
from tolerant.transport.quarantine import WaitingRow
from tolerant.transport.rows import pack, unpack_trusted


@dataclass(frozen=True)
class Output:
    """Rows that a shard has to say: a packed Arrow batch for a topic."""

    topic: str
    payload: bytes


class Hosted(Protocol):
    """A shard of a pipeline. A function of the log: the same entries give the same outputs, however they are cut
    into batches.

    `restore` with the snapshot and the deltas since must leave the object as it was, bit for bit.
    """

    def restore(self, snapshot: bytes | None, deltas: Sequence[bytes]) -> None:
        """Become what the snapshot and the deltas say; None and none: a new core."""
        ...

    def apply(self, batch: Sequence[Entry]) -> tuple[list[Output], bytes]:
        """Take entries in log order; what to say, and the delta to remember."""
        ...

    def snapshot(self) -> bytes:
        """All of the state as bytes."""
        ...


ShardFactory = Callable[[int], Hosted]
"""Makes the shard of a number."""


class Replayed(ABC):
    """A shard whose delta is its input: it is restored by taking the same entries again. `Hosted` for free."""

    @abstractmethod
    def take(self, batch: Sequence[Entry]) -> list[Output]:
        """Take entries in log order; what to say."""

    @abstractmethod
    def load(self, snapshot: bytes) -> None:
        """Become what `snapshot` said."""

    @abstractmethod
    def snapshot(self) -> bytes:
        """All of the state as bytes."""

    def waiting_rows(self) -> list[WaitingRow]:
        """The rows that wait for their time, if some of them can be dropped (`Quarantined.waiting`)."""
        return []

    def apply(self, batch: Sequence[Entry]) -> tuple[list[Output], bytes]:
        """`Hosted.apply`."""
        return self.take(batch), pack_entries(batch)

    def restore(self, snapshot: bytes | None, deltas: Sequence[bytes]) -> None:
        """`Hosted.restore`, on an object that was just made."""
        if snapshot is not None:
            self.load(snapshot)
        for delta in deltas:
            self.take(unpack_entries(delta))


_ENTRIES = pa.schema(
    [("topic", pa.string()), ("partition", pa.int32()), ("position", pa.int64()), ("payload", pa.binary())]
)


def pack_entries(entries: Sequence[Entry]) -> bytes:
    """Entries as bytes."""
    columns = [
        pa.array([e.topic for e in entries], pa.string()),
        pa.array([e.partition for e in entries], pa.int32()),
        pa.array([e.position for e in entries], pa.int64()),
        pa.array([e.payload for e in entries], pa.binary()),
    ]
    return pack(pa.record_batch(columns, schema=_ENTRIES))


def unpack_entries(payload: bytes) -> list[Entry]:
    """The entries that `pack_entries` made the bytes from."""
    return [Entry(*row) for row in zip(*unpack_trusted(payload).to_pydict().values(), strict=True)]


_OUTPUTS = pa.schema([("topic", pa.string()), ("payload", pa.binary())])


def pack_outputs(outputs: Sequence[Output]) -> bytes:
    """Outputs as bytes."""
    columns = [pa.array([o.topic for o in outputs], pa.string()), pa.array([o.payload for o in outputs], pa.binary())]
    return pack(pa.record_batch(columns, schema=_OUTPUTS))


def unpack_outputs(payload: bytes) -> list[tuple[str, bytes]]:
    """(topic, payload) of the outputs that `pack_outputs` made the bytes from."""
    return list(zip(*unpack_trusted(payload).to_pydict().values(), strict=True))
