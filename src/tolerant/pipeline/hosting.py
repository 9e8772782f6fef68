"""How a core is put to work on Spark: one small interface, and the bytes it exchanges (`docs/design/pipeline.md`
§5).
"""

from __future__ import annotations

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

    A snapshot, and the entries since, are its whole state: `restore` and applying them leaves the object as it was, bit
    for bit.
    """

    def apply(self, batch: Sequence[Entry]) -> list[Output]:
        """Take entries in log order; what to publish."""
        ...

    def snapshot(self) -> bytes:
        """All of the state as bytes."""
        ...

    def restore(self, snapshot: bytes) -> None:
        """Become what `snapshot` said; called on an object that was just made."""
        ...

    def waiting_rows(self) -> list[WaitingRow]:
        """The rows that wait for their time, if some of them can be dropped (`Quarantined.waiting`)."""
        ...


ShardFactory = Callable[[int], Hosted]
"""Makes the shard of a number."""


_OUTPUTS = pa.schema([("topic", pa.string()), ("payload", pa.binary())])


def pack_outputs(outputs: Sequence[Output]) -> bytes:
    """Outputs as bytes."""
    columns = [pa.array([o.topic for o in outputs], pa.string()), pa.array([o.payload for o in outputs], pa.binary())]
    return pack(pa.record_batch(columns, schema=_OUTPUTS))


def unpack_outputs(payload: bytes) -> list[tuple[str, bytes]]:
    """(topic, payload) of the outputs that `pack_outputs` made the bytes from."""
    return list(zip(*unpack_trusted(payload).to_pydict().values(), strict=True))
