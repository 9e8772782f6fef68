"""How a core is put to work on Spark: one small interface, and the bytes it exchanges (`specs/0-pipeline.md` §5)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from tolerant.transport.log import Entry


@dataclass(frozen=True)
class Output:
    """Rows that a shard has to say: a packed Arrow batch for a topic."""

    topic: str
    payload: bytes


class Hosted(Protocol):
    """A shard of a pipeline. A function of the log: the same entries give the same outputs, however they are cut into batches.

    `restore` with the snapshot and the deltas since must leave the object as it was, bit for bit.
    """

    def restore(self, snapshot: bytes | None, deltas: Sequence[bytes]) -> None:
        """Become what the snapshot and the deltas say; None and none: newly born."""
        ...

    def apply(self, batch: Sequence[Entry]) -> tuple[list[Output], bytes]:
        """Take entries in log order; what to say, and the delta to remember."""
        ...

    def snapshot(self) -> bytes:
        """All of the state as bytes."""
        ...
