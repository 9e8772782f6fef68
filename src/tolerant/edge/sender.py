"""Appends the rows of one owner to a log: fenced by its epoch, in order, retried until the log accepts them."""

from __future__ import annotations

import time
from collections import Counter, deque
from collections.abc import Callable
from typing import NamedTuple

import pyarrow as pa

from tolerant.transport import Fenced, Log, LogError, Replaced
from tolerant.transport.rows import pack, parts
from tolerant.transport.topics import EPOCHS

_LONGEST_PAUSE = 1.0  # seconds between two tries of an append that fails


class SendOutage(NamedTuple):
    """Since when the log cannot be used (monotonic seconds), and the newest error."""

    since: float
    error: Exception


class Sender:
    """Appends rows for one owner: one append outstanding at a time, nothing lost or reordered.

    `owner` is the name under which the log counts epochs; once it has a newer one than `epoch`, this process is fenced:
    `refusal` makes the message from the newer one. A batch of more than `max_rows` rows becomes several entries of
    one append. One thread at a time may use it; `outage`, `unsent` and `sent` may be read by any.
    """

    def __init__(
        self, log: Log, owner: str, epoch: int, refusal: Callable[[int], str], *, max_rows: int | None = None
    ) -> None:
        self.outage: SendOutage | None = None
        self.unsent = 0
        """Rows that were added and that the log has not accepted yet."""
        self.sent = Counter[str]()
        """Rows that the log has accepted, by topic."""
        self._log, self._owner, self._epoch, self._refusal = log, owner, epoch, refusal
        self._max_rows = max_rows
        self._waiting: deque[tuple[str, pa.RecordBatch]] = deque()

    def check_epoch(self) -> None:
        """Raise Fenced if another process has started under the owner's name."""
        newest = self._log.latest(EPOCHS, self._owner)
        if newest is not None and newest.version > self._epoch:
            raise Fenced(self._refusal(newest.version))

    def add(self, topic: str, batch: pa.RecordBatch) -> None:
        """Queue a batch for `append_all`."""
        self._waiting.append((topic, batch))
        self.unsent += batch.num_rows

    def append_all(self) -> None:
        """Append the queued batches in order. A batch that the log does not accept stays the first of the queue."""
        while self._waiting:
            topic, batch = self._waiting[0]
            self.append(topic, batch)
            self._waiting.popleft()
            self.unsent -= batch.num_rows
            self.sent[topic] += batch.num_rows

    def append(self, topic: str, batch: pa.RecordBatch) -> None:
        """Append a batch at once, before the queued ones; if that fails it is not kept."""
        if self._max_rows is None or len(batch) <= self._max_rows:
            self._log.append(topic, batch)
        else:
            self._log.append_packed([(topic, pack(part)) for part in parts(batch, self._max_rows)])

    def attempt(self, exchange: Callable[[], None]) -> bool:
        """Run one exchange with the log; return False, and set `outage`, if the log cannot be used now.

        Raises:
            Fenced: another process has started under the owner's name; nothing was sent.
            Replaced: the log has been deleted or replaced; what was sent may be lost.
        """
        try:
            exchange()
        except (Fenced, Replaced):
            raise
        except (LogError, OSError) as error:
            self.outage = SendOutage(self.outage.since if self.outage else time.monotonic(), error)
            return False
        self.outage = None
        return True


def longer_pause(pause: float) -> float:
    """Return the seconds to wait after another failure, when the last wait was `pause`."""
    return min(2 * pause, _LONGEST_PAUSE)
