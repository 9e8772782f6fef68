"""What a log is: topics of packed rows, in order, that any process can append to and resume reading from.

`tolerant.transport.open_log(uri)` opens one, and with `create=True` makes it where there is none. The contract
(`docs/design/pipeline.md` §1):

- `append` is at least once: when it returns, the rows are *accepted* and survive any crash.
- Positions only grow, in the order of appends; a position can be kept by any reader and resumed from: `read(topic,
  p)` gives what stands *after* p. The trap: a position is that of a whole entry (one append), not of a row in it.
- A *compacted* topic keeps, for each key, the row of the greatest version (equal replaces). Its rows follow
  `rows.COMPACTED`. `read` works on it too and gives the rows that changed after the position.
- Rows of several compacted topics can be appended as one entry, to `SEVERAL`: they then share its position.
- Nothing that a registered checkpoint has not passed is ever deleted; compacted topics, `queries`, and the rows and
  subscriptions of tables stay for ever.

The errors of a log:

    Exception
      ├─ ValueError        a URI, topic or payload that cannot be right: the caller's mistake, nothing was written
      └─ LogError          the log cannot be used: not there, not a log, of another version, out of reach
           ├─ Fenced       a newer epoch of the same pipeline has been taken: this process must stop
           ├─ Deleted      a reader wants to continue from before what retention deleted
           ├─ Replaced     the log's file was deleted or replaced while it was open: this process must stop
           └─ Damaged      an entry or a record is not what was appended; it says which
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

import pyarrow as pa

START = 0
"""The position before the first entry of every log."""


class LogError(Exception):
    """The log cannot be used; the message says why and what to do."""


class Fenced(LogError):
    """A newer epoch of the same pipeline or source has been taken: who holds the older one must stop."""


class Deleted(LogError):
    """A reader wants to continue from a position whose rows retention has deleted."""


class Replaced(LogError):
    """The log's file has been deleted, moved or replaced while it was open: what is written would be lost."""


class Damaged(LogError):
    """Something in the log is not what was appended, or is missing.

    topic, position: the entry, where that is known; reading on from `position` gives what follows it. key: the key, in
    a compacted topic.
    """

    def __init__(
        self, message: str, topic: str | None = None, position: int | None = None, key: str | None = None
    ) -> None:
        super().__init__(message)
        self.topic, self.position, self.key = topic, position, key


@dataclass(frozen=True)
class Fence:
    """The epoch under which something is written: `epoch` of `name` (`pipeline/<stream>`) must still be the newest."""

    name: str
    epoch: int


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
    id: str
    """Which log this is: random, kept in it. A backup has its own, so that no checkpoint of the log continues on it."""

    def append(self, topic: str, batch: pa.RecordBatch) -> int:
        """Append the rows of `batch`; the position they got."""
        ...

    def append_packed(self, entries: Sequence[tuple[str, bytes]]) -> int:
        """Append packed batches (topic, payload), to compacted topics too, all or nothing; the last position."""
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

    def trimmed(self, topics: Iterable[str]) -> int:
        """The greatest position that retention has deleted from any of these topics; START if none."""
        ...

    def next_epoch(self, name: str, owner: str = "") -> int:
        """Take the next epoch of a source or pipeline: the previous one plus one, kept for ever, taken atomically."""
        ...

    def close(self) -> None:
        """Close files and connections; the log itself stays."""
        ...


class PipelineLog(Log, Protocol):
    """What a pipeline needs of its log besides: outputs exactly once, batches that can be read again, retention."""

    def append_once(
        self, checkpoint: str, batch: int, entries: Sequence[tuple[str, bytes]], fence: Fence | None = None
    ) -> bool:
        """Append the outputs of a checkpoint's batch, unless they are there: all or nothing, exactly once.

        Batches of a checkpoint come in the order of their numbers, each perhaps several times; False: it was there.

        Raises:
            Fenced: a newer epoch than that of `fence` has been taken; nothing was written.
        """
        ...

    def last_batch(self, checkpoint: str) -> int:
        """The number of the last batch of a checkpoint whose outputs have been appended; −1: none."""
        ...

    def advance(self, topics: Iterable[str], position: int, entries: int, size: int) -> int:
        """How far a reader at `position` gets with at most so many entries and bytes, but at least one entry.

        Everything up to the position returned is final: reading up to there gives the same entries for ever, until
        retention takes them. Where nothing follows, it is `position` itself.

        Raises:
            LogError: the log ends before `position`: it is an older copy of the one that the reader has read.
        """
        ...

    def register(self, checkpoint: str, stream: str, topics: Sequence[str]) -> None:
        """Make known that a checkpoint reads these topics, so that what it has not passed is kept; done once."""
        ...

    def pass_position(self, checkpoint: str, position: int) -> None:
        """Record that a registered checkpoint has passed `position`; may come late and twice, the greatest counts."""
        ...

    def forget(self, checkpoint: str) -> None:
        """Keep nothing more for this checkpoint."""
        ...

    def trim(self, topic: str, before: int, limit: int = 1000) -> int:
        """Delete the oldest entries of `topic` that all its readers have passed; how many they were.

        `before`: only what was appended before that, by the wall clock in microseconds. At most `limit` a
        call, so that no writer waits long. Compacted topics lose nothing but forgotten keys, `queries` nothing. In
        `positions` a checkpoint is forgotten first that has passed nothing since `before` and whose pipeline another
        checkpoint has taken over: nobody waits for it.
        """
        ...
