"""What a log is: topics of packed rows, in order, that any process can append to and resume reading from.

`tolerant.transport.open_log(uri)` opens one. The contract (`specs/0-pipeline.md` §1):

- `append` is at least once: when it returns, the rows are *accepted* and survive any crash.
- Positions only grow, in the order of appends; a position can be kept by any reader and resumed from: `read(topic, p)` gives what
  stands *after* p. The trap: a position is that of a whole entry (one append), not of a row in it.
- A *compacted* topic keeps, for each key, the row of the greatest version (equal replaces). Its rows follow
  `rows.COMPACTED`. `read` works on it too and gives the rows that changed after the position.
- Nothing that a pipeline's checkpoint has not passed is ever deleted; compacted topics and `queries` stay for ever.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

import pyarrow as pa

START = 0
"""The position before the first entry of every log."""

_COMPACTED = ("grants.", "status.", "current.")
_COMPACTED_NAMES = ("epochs", "positions")


def is_compacted(topic: str) -> bool:
    """Whether the log keeps only the newest row a key of this topic."""
    return topic in _COMPACTED_NAMES or topic.startswith(_COMPACTED)


@dataclass(frozen=True)
class Entry:
    """One append: a packed Arrow batch (`rows.unpack` reads it) and where it stands."""

    topic: str
    partition: int
    position: int
    payload: bytes


@dataclass(frozen=True)
class Record:
    """One row of a compacted topic."""

    key: str
    version: int
    body: bytes


class Log(Protocol):
    """See the module's docstring for what each method promises."""

    uri: str

    def append(self, topic: str, batch: pa.RecordBatch) -> int:
        """Append the rows of `batch`; the position they got."""
        ...

    def append_packed(self, entries: Sequence[tuple[str, bytes]]) -> int:
        """Append packed batches (topic, payload) to their topics, compacted ones too, all or nothing; the last position."""
        ...

    def read(self, topics: str | Iterable[str], position: int = START, limit: int | None = None) -> list[Entry]:
        """The entries after `position`, in order; at most `limit` of them."""
        ...

    def latest(self, topic: str, key: str) -> Record | None:
        """The row of `key` in a compacted topic."""
        ...

    def end(self) -> int:
        """The position of the last entry of the whole log."""
        ...

    def topics(self) -> list[str]:
        """The names of all topics that hold anything."""
        ...

    def next_epoch(self, name: str, owner: str = "") -> int:
        """Take the next epoch of a source or pipeline: the previous one plus one, kept for ever, taken atomically."""
        ...

    def close(self) -> None:
        """Let go of files and connections; the log itself stays."""
        ...
