"""Carries a source's rows to the log and grants back: one append outstanding at a time, nothing lost or reordered."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from typing import NamedTuple

import pyarrow as pa

from tolerant.edge.carrier import Trouble
from tolerant.edge.core import SourceCore
from tolerant.streams import Stream
from tolerant.transport import Fenced, Log, LogError, Replaced
from tolerant.transport.conflicts import Conflict, conflicts_topic, read_conflicts
from tolerant.transport.forms import Forms, read_forms
from tolerant.transport.log import EPOCHS, START
from tolerant.transport.records import skipping
from tolerant.transport.rows import Grant, pack, parts, read_grants, unpack


class News(NamedTuple):
    """What the pipeline has said to a source."""

    forms: list[Forms]
    grants: list[Grant]
    conflicts: Sequence[Conflict] = ()
    """Items that another source has taken."""


class SourcePost:
    """Between one `SourceCore` and its log. `lock` guards the core; the log is used without it, by one thread at a
    time.
    """

    def __init__(
        self, core: SourceCore, log: Log, stream: Stream, lock: threading.Condition, clock: Callable[[], int]
    ) -> None:
        self.trouble: Trouble | None = None
        self.conflicts: list[Conflict] = []
        """Items of this source that another one has taken, guarded by the lock."""
        self._core = core
        self._clock = clock
        self._log = log
        self._lock = lock
        self._stream, self._feed = stream.name, stream.feed
        self._granted = not stream.networked
        self._position = START
        self._unsent: pa.RecordBatch | None = None
        self._most = stream.options.max_entry_rows

    @property
    def unsent(self) -> int:
        """How many rows the log has not accepted yet."""
        return len(self._core) + (self._unsent.num_rows if self._unsent is not None else 0)

    def exchange(self) -> bool:
        """See `Post.exchange`; also takes the forms, grants and conflicts that are new."""
        try:
            self._check_epoch()
            news = self.receive()
            with self._lock:
                now = self._clock()
                self._core.form(news.forms, now)
                self._core.grant(news.grants, now)
                lost = self._core.give_up([conflict.item for conflict in news.conflicts], now)
                self.conflicts += [conflict for conflict in news.conflicts if conflict.item in lost]
                if self._unsent is None:
                    self._unsent = self._core.drain()
            if self._unsent is not None and len(self._unsent) <= self._most:
                self._log.append(self._feed, self._unsent)
            elif self._unsent is not None:
                self._log.append_packed([(self._feed, pack(part)) for part in parts(self._unsent, self._most)])
        except (Fenced, Replaced):
            raise
        except (LogError, OSError) as error:
            self.trouble = Trouble(self.trouble.since if self.trouble else time.monotonic(), error)
            return False
        with self._lock:
            self._unsent = None
        self.trouble = None
        return True

    def receive(self) -> News:
        """What is new since the last call; a network's grants are for its aggregators."""
        news = News([], [])
        if not self._granted:
            return news
        forms, conflicts = f"forms.{self._stream}", conflicts_topic(self._stream)
        taken: list[Conflict] = []
        for entry in self._log.read((f"grants.{self._stream}", forms, conflicts), self._position):
            self._position = entry.position
            with skipping(f"an entry of {entry.topic}"):
                batch = unpack(entry.payload, None)  # the log packed it itself
                if entry.topic == forms:
                    news.forms.extend(read_forms(batch, self._core.source))
                elif entry.topic == conflicts:
                    taken += read_conflicts(batch, self._core.source)
                else:
                    news.grants.extend(read_grants(batch))
        return news._replace(conflicts=taken)

    def _check_epoch(self) -> None:
        newest = self._log.latest(EPOCHS, f"source/{self._stream}/{self._core.source}")
        if newest is not None and newest.version > self._core.epoch:
            raise Fenced(
                f"another source named {self._core.source!r} has started on stream {self._stream!r}, as epoch "
                f"{newest.version}. Give every process that feeds a stream its own name"
            )
