"""A core that notices everything: each output carries a checksum of all entries so far, in their order."""

import os
import struct
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from tolerant.pipeline.hosting import Output
from tolerant.transport import rows
from tolerant.transport.log import Entry
from tolerant.transport.quarantine import WaitingRow

TOPIC = "answers.chain"


class Chain:
    """Says (shard, position, count, checksum) for each entry."""

    def __init__(self, shard: int) -> None:
        self.shard = shard
        self.count = 0
        self.checksum = 0

    def apply(self, batch: Sequence[Entry]) -> list[Output]:
        outputs = []
        for entry in batch:
            self.count += 1
            self.checksum = zlib.crc32(struct.pack("<q", entry.position) + entry.payload, self.checksum)
            said = {"shard": [self.shard], "position": [entry.position], "count": [self.count], "sum": [self.checksum]}
            outputs.append(Output(TOPIC, rows.pack(pa.record_batch(said))))
        return outputs

    def waiting_rows(self) -> list[WaitingRow]:
        return []

    def restore(self, snapshot: bytes) -> None:
        self.count, self.checksum = struct.unpack("<qq", snapshot[:16])

    def snapshot(self) -> bytes:
        return struct.pack("<qq", self.count, self.checksum) + bytes(1000)


@dataclass(frozen=True)
class DiesOnce:
    """Makes chains that kill their worker process at the n-th entry, unless `scar` shows that this was done."""

    scar: Path
    at: int

    def __call__(self, shard: int) -> Chain:
        return _Dying(shard, self)


class _Dying(Chain):
    def __init__(self, shard: int, how: DiesOnce) -> None:
        super().__init__(shard)
        self._how = how

    def apply(self, batch: Sequence[Entry]) -> list[Output]:
        outputs = super().apply(batch)
        if self.count >= self._how.at and not self._how.scar.exists():
            self._how.scar.touch()
            os._exit(1)
        return outputs


class Refusing(Chain):
    """Raises at the third entry."""

    def apply(self, batch: Sequence[Entry]) -> list[Output]:
        outputs = super().apply(batch)
        if self.count >= 3:
            raise ZeroDivisionError(f"the third entry stands at {batch[-1].position}")
        return outputs


def expected(entries: Sequence[Entry]) -> list[dict[str, int]]:
    """What one shard says to these entries, worked out without any host."""
    return [rows.unpack(output.payload).to_pylist()[0] for output in Chain(0).apply(entries)]
