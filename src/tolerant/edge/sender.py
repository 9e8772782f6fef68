"""Carries rows to a topic of the log: in order, one append outstanding at a time, tried again until it is accepted."""

from __future__ import annotations

import threading
import time
from typing import Protocol

import pyarrow as pa

from tolerant.edge.post import Trouble
from tolerant.edge.source import FLUSH_AFTER, FLUSH_ROWS, SourceError
from tolerant.transport import Fenced, Log, LogError
from tolerant.transport.log import EPOCHS

_LONGEST_PAUSE = 1.0  # seconds between two tries of an append that fails

PATIENCE = 10.0
"""Seconds that the log may be out of reach before those who say rows are told."""


class Rows(Protocol):
    """What a sender empties: rows that wait to be sent."""

    def __len__(self) -> int:
        """How many rows wait."""
        ...

    def take(self) -> pa.RecordBatch | None:
        """The next rows for one append, in order; None: none wait."""
        ...


class Sender:
    """Appends the rows of one source to a topic, in the background unless told otherwise.

    `waiting` is guarded by `lock`; whoever puts rows into it calls `look` then. `name` is that of the source's epochs:
    when a newer one has been taken, nothing more is sent.
    """

    def __init__(self, log: Log, topic: str, name: str, epoch: int, waiting: Rows, *, background: bool) -> None:
        self.lock = threading.Condition()
        self._log = log
        self._topic = topic
        self._name = name
        self._epoch = epoch
        self._waiting = waiting
        self._unsent: pa.RecordBatch | None = None
        self._trouble: Trouble | None = None
        self._failure: Exception | None = None
        self._hurry = self._closing = self._closed = False
        self._thread: threading.Thread | None = None
        if background:
            self._thread = threading.Thread(target=self._run, name=f"tolerant {name}", daemon=True)
            self._thread.start()

    @property
    def unsent(self) -> int:
        """How many rows the log has not accepted yet."""
        return len(self._waiting) + (self._unsent.num_rows if self._unsent is not None else 0)

    def check(self) -> None:
        """Raise SourceError if rows cannot be sent, for now or at all."""
        if self._closed:
            raise SourceError(f"{self._name} is closed")
        if self._failure is not None:
            raise SourceError(f"{self._name} has failed: {self._failure}") from self._failure
        if self._trouble is not None and time.monotonic() - self._trouble.since > PATIENCE:
            raise self._late(f"for longer than {PATIENCE:g} s") from self._trouble.error

    def look(self) -> None:
        """Rows have been added: send at once if they are many."""
        if len(self._waiting) >= FLUSH_ROWS:
            self._hurry = True
            self.lock.notify_all()

    def flush(self, timeout: float = 30.0) -> None:
        """Return when every row has been accepted by the log.

        Raises:
            SourceError: some were not, for `timeout` seconds.
        """
        deadline = time.monotonic() + timeout
        if self._thread is None:
            self._send_until(deadline)
        with self.lock:
            self._hurry = True
            self.lock.notify_all()
            while self.unsent and self._failure is None:
                if not self.lock.wait(max(0.0, deadline - time.monotonic())):
                    raise self._late(f"in {timeout:g} s")
            self.check()

    def close(self, timeout: float = 30.0) -> None:
        """Send what there is to send, and end; twice does no harm.

        Raises:
            SourceError: some rows could not be sent in `timeout` seconds; they are lost.
        """
        if self._closed:
            return
        try:
            if self._failure is None:
                self.flush(timeout)
        finally:
            with self.lock:
                self._closing = self._closed = True
                self.lock.notify_all()
            if self._thread is not None:
                self._thread.join()

    def _late(self, span: str) -> SourceError:
        why = f": {self._trouble.error}" if self._trouble else ""
        return SourceError(
            f"{self._name} could not append {self.unsent} rows to {self._log.uri} {span}{why}. "
            "They are kept, and tried again until it is closed"
        )

    def _send(self) -> bool:
        """Append all rows that wait; False: the log cannot be used, and the same rows come first the next time."""
        try:
            while True:
                self._check_epoch()
                with self.lock:
                    if self._unsent is None:
                        self._unsent = self._waiting.take()
                if self._unsent is None:
                    break
                self._log.append(self._topic, self._unsent)
                with self.lock:
                    self._unsent = None
        except Fenced as error:
            self._failure = error
            raise
        except (LogError, OSError) as error:
            self._trouble = Trouble(self._trouble.since if self._trouble else time.monotonic(), error)
            return False
        self._trouble = None
        return True

    def _check_epoch(self) -> None:
        newest = self._log.latest(EPOCHS, self._name)
        if newest is not None and newest.version > self._epoch:
            raise Fenced(
                f"another has started as {self._name!r}, as epoch {newest.version}. Give every process that feeds a "
                "table its own name"
            )

    def _send_until(self, deadline: float) -> None:
        pause = FLUSH_AFTER
        try:
            while not self._send():
                if time.monotonic() + pause > deadline:
                    raise self._late("in time")
                time.sleep(pause)
                pause = min(2 * pause, _LONGEST_PAUSE)
        except Fenced:
            self.check()

    def _run(self) -> None:
        try:
            pause = FLUSH_AFTER
            while self._wait(pause):
                pause = FLUSH_AFTER if self._send() else min(2 * pause, _LONGEST_PAUSE)
        except Exception as error:
            self._failure = error
        finally:
            with self.lock:
                self.lock.notify_all()

    def _wait(self, seconds: float) -> bool:
        """Tell those who wait for a flush, and wait for something to do; False: this is the end."""
        with self.lock:
            self.lock.notify_all()
            if not (self._hurry or self._closing):
                self.lock.wait(seconds)
            self._hurry = False
            return not self._closing
