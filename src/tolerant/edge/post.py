"""Carries a source's rows to the log and grants back: one append outstanding at a time, nothing lost or reordered."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from tolerant.edge.carrier import Trouble
from tolerant.edge.core import SourceCore
from tolerant.streams import Stream
from tolerant.transport import Fenced, Log, LogError
from tolerant.transport.forms import Forms, read_forms
from tolerant.transport.log import EPOCHS, START
from tolerant.transport.rows import Grant, read_grants, unpack


class News(NamedTuple):
    """What the pipeline has said to a source."""

    forms: list[Forms]
    grants: list[Grant]


class SourcePost:
    """Between one `SourceCore` and its log. `lock` guards the core; the log is used without it, by one thread at a
    time.
    """

    def __init__(
        self, core: SourceCore, log: Log, stream: Stream, lock: threading.Condition, clock: Callable[[], int]
    ) -> None:
        self.trouble: Trouble | None = None
        self._core = core
        self._clock = clock
        self._log = log
        self._lock = lock
        self._stream, self._feed = stream.name, stream.feed
        self._granted = not stream.networked
        self._position = START
        self._unsent: pa.RecordBatch | None = None

    @property
    def unsent(self) -> int:
        """How many rows the log has not accepted yet."""
        return len(self._core) + (self._unsent.num_rows if self._unsent is not None else 0)

    def exchange(self) -> bool:
        """See `Post.exchange`; also takes the forms and grants that are new."""
        try:
            self._check_epoch()
            news = self.receive()
            with self._lock:
                now = self._clock()
                self._core.form(news.forms, now)
                self._core.grant(news.grants, now)
                if self._unsent is None:
                    self._unsent = self._core.drain()
            if self._unsent is not None:
                self._log.append(self._feed, self._unsent)
        except Fenced:
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
        forms = f"forms.{self._stream}"
        for entry in self._log.read((f"grants.{self._stream}", forms), self._position):
            batch = unpack(entry.payload)
            batch = batch.filter(pc.is_valid(batch.column("body")))
            if entry.topic == forms:
                news.forms.extend(read_forms(batch, self._core.source))
            else:
                news.grants.extend(read_grants(batch))
            self._position = entry.position
        return news

    def _check_epoch(self) -> None:
        newest = self._log.latest(EPOCHS, f"source/{self._stream}/{self._core.source}")
        if newest is not None and newest.version > self._core.epoch:
            raise Fenced(
                f"another source named {self._core.source!r} has started on stream {self._stream!r}, as epoch "
                f"{newest.version}. Give every process that feeds a stream its own name"
            )
