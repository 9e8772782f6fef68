"""Sends the rows of a source or table in the background, and retries until the log accepts them."""

from __future__ import annotations

import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Sized

from tolerant.edge.sender import Sender, SendOutage, longer_pause
from tolerant.transport import Fenced, Replaced

FLUSH_ROWS = 10_000
"""So many rows are sent at once, without waiting for more."""

FLUSH_AFTER = 0.05
"""Longest time in seconds that a row waits for others; also how often grants and time are checked."""


class SourceError(Exception):
    """A source cannot continue, for now or at all; the message says which, and what to do."""


class SourceConflict(SourceError):
    """Another source has sent a hello for items of this one: the message names the items and the source."""


class ConflictWarning(UserWarning):
    """The message of `SourceConflict`, from a source that continues."""


class Transport(ABC):
    """Moves rows from a buffer to the log through a `Sender`. `lock` guards the buffer; the log is used without it."""

    def __init__(self, buffer: Sized, sender: Sender, lock: threading.Condition) -> None:
        self._buffer, self._sender, self._lock = buffer, sender, lock

    @property
    def outage(self) -> SendOutage | None:
        """Why the log cannot be used, and since when; None: it can."""
        return self._sender.outage

    @property
    def unsent(self) -> int:
        """How many rows the log has not accepted yet."""
        return len(self._buffer) + self._sender.unsent

    def exchange(self) -> bool:
        """Append the waiting rows; return False if the log cannot be used: see `outage`, and the same rows come first
        next time.

        Raises:
            Fenced: another process has started under the same name; nothing was sent.
            Replaced: the log has been deleted or replaced; what was sent may be lost.
        """
        return self._sender.attempt(self._exchange)

    @abstractmethod
    def _exchange(self) -> None: ...


class BackgroundSender:
    """Runs a transport: in a thread of its own, or when `flush` is called. `lock` guards the transport's buffer.

    `label` names it in errors, `uri` the log. Once that has been out of reach for `patience` seconds, `check` raises.
    `on_wake` is called under the lock before every exchange in the background.
    """

    def __init__(
        self,
        label: str,
        uri: str,
        transport: Transport,
        lock: threading.Condition,
        patience: float,
        *,
        background: bool,
        on_wake: Callable[[], object] = lambda: None,
    ) -> None:
        self._label, self._uri, self._transport, self._lock = label, uri, transport, lock
        self._patience, self._on_wake = patience, on_wake
        self._failure: Exception | None = None
        self._hurry = self._closing = self._closed = False
        self._thread: threading.Thread | None = None
        if background:
            self._thread = threading.Thread(target=self._run, name=f"tolerant {label}", daemon=True)
            self._thread.start()

    @property
    def in_background(self) -> bool:
        """Whether rows are sent by a thread of its own."""
        return self._thread is not None

    def check(self) -> None:
        """Raise SourceError if rows cannot be sent, for now or at all."""
        if self._closed:
            raise SourceError(f"{self._label} is closed")
        if self._failure is not None:
            raise SourceError(f"{self._label} has failed: {self._failure}") from self._failure
        outage = self._transport.outage
        if outage is not None and time.monotonic() - outage.since > self._patience:
            raise self._late(f"for longer than {self._patience:g} s") from outage.error

    def wake_if_full(self) -> None:
        """Send at once if many rows wait; called under the lock after adding rows."""
        if self._transport.unsent >= FLUSH_ROWS:
            self._hurry = True
            self._lock.notify_all()

    def flush(self, timeout: float = 30.0) -> None:
        """Return when the log has accepted every row.

        Raises:
            SourceError: it has not within `timeout` seconds.
        """
        deadline = time.monotonic() + timeout
        if self._thread is None:
            self._exchange_until(deadline)
        with self._lock:
            self._hurry = True
            self._lock.notify_all()
            while self._transport.unsent and self._failure is None:
                if not self._lock.wait(max(0.0, deadline - time.monotonic())):
                    raise self._late(f"in {timeout:g} s")
            self.check()

    def close(self, timeout: float = 30.0) -> Exception | None:
        """Send all waiting rows, and end; closing twice does no harm. Returns the earlier failure for which rows could
        not be sent and are lost; None: none are.

        Raises:
            SourceError: some rows could not be sent in `timeout` seconds; they are lost.
        """
        if self._closed:
            return None
        try:
            if self._failure is None:
                self.flush(timeout)
            elif isinstance(self._failure, Replaced) and self._transport.unsent:
                self.check()
            return self._failure if self._transport.unsent else None
        finally:
            with self._lock:
                self._closing = self._closed = True
                self._lock.notify_all()
            if self._thread is not None:
                self._thread.join()

    def _late(self, span: str) -> SourceError:
        outage = self._transport.outage
        why = f": {outage.error}" if outage else ""
        return SourceError(
            f"{self._label} could not append {self._transport.unsent} rows to {self._uri} {span}{why}. "
            "They are kept, and tried again until it is closed"
        )

    def _exchange_until(self, deadline: float) -> None:
        pause = FLUSH_AFTER
        try:
            while not self._transport.exchange():
                if time.monotonic() + pause > deadline:
                    raise self._late("in time")
                time.sleep(pause)
                pause = longer_pause(pause)
        except (Fenced, Replaced) as error:
            self._failure = error
            self.check()

    def _run(self) -> None:
        try:
            pause = FLUSH_AFTER
            while self._wait(pause):
                pause = FLUSH_AFTER if self._transport.exchange() else longer_pause(pause)
        except Exception as error:
            self._failure = error
        finally:
            with self._lock:
                self._lock.notify_all()

    def _wait(self, seconds: float) -> bool:
        """Notify waiting calls of `flush`, wait for something to do, and advance time; return False at the end."""
        with self._lock:
            self._lock.notify_all()
            if not (self._hurry or self._closing):
                self._lock.wait(seconds)
            self._hurry = False
            self._on_wake()
            return not self._closing
