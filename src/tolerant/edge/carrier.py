"""Brings what a source or table says into the log: in the background, tried again until it is accepted."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import NamedTuple, Protocol

from tolerant.transport import Fenced, Replaced

FLUSH_ROWS = 10_000
"""So many rows are sent at once, without waiting for more."""

FLUSH_AFTER = 0.05
"""Seconds that a row waits for others at most; also how often grants and time are looked at."""

_LONGEST_PAUSE = 1.0  # seconds between two tries of an append that fails


class SourceError(Exception):
    """A source cannot go on, for now or at all; the message says which, and what to do."""


class SourceConflict(SourceError):
    """Another source has said hello with items of this one: the message says which, and who."""


class ConflictWarning(UserWarning):
    """What `SourceConflict` says, of a source that goes on."""


class Trouble(NamedTuple):
    """Since when the log cannot be used (monotonic seconds), and the newest error."""

    since: float
    error: Exception


class Post(Protocol):
    """What knows the way to the log: one append outstanding at a time, nothing lost or reordered."""

    trouble: Trouble | None

    @property
    def unsent(self) -> int:
        """How many rows the log has not accepted yet."""
        ...

    def exchange(self) -> bool:
        """Append all rows said so far; False: the log cannot be used, see `trouble`, and the same come first next time.

        Raises:
            Fenced: another has started under the same name; nothing was sent.
            Replaced: the log has been deleted or replaced; what was sent may be lost.
        """
        ...


class Carrier:
    """Lets a post work: in a thread of its own, or when `flush` is called. `lock` guards what the post empties.

    `label` names it in errors, `uri` the log. Once that has been out of reach for `patience` seconds, `check` raises.
    `passing` is called under the lock whenever time has passed in the background.
    """

    def __init__(
        self,
        label: str,
        uri: str,
        post: Post,
        lock: threading.Condition,
        patience: float,
        *,
        background: bool,
        passing: Callable[[], object] = lambda: None,
    ) -> None:
        self._label, self._uri, self._post, self._lock = label, uri, post, lock
        self._patience, self._passing = patience, passing
        self._failure: Exception | None = None
        self._hurry = self._closing = self._closed = False
        self._thread: threading.Thread | None = None
        if background:
            self._thread = threading.Thread(target=self._run, name=f"tolerant {label}", daemon=True)
            self._thread.start()

    @property
    def in_background(self) -> bool:
        """Whether a thread of its own does the work."""
        return self._thread is not None

    def check(self) -> None:
        """Raise SourceError if rows cannot be sent, for now or at all."""
        if self._closed:
            raise SourceError(f"{self._label} is closed")
        if self._failure is not None:
            raise SourceError(f"{self._label} has failed: {self._failure}") from self._failure
        trouble = self._post.trouble
        if trouble is not None and time.monotonic() - trouble.since > self._patience:
            raise self._late(f"for longer than {self._patience:g} s") from trouble.error

    def look(self) -> None:
        """Rows have been added, under the lock: send at once if they are many."""
        if self._post.unsent >= FLUSH_ROWS:
            self._hurry = True
            self._lock.notify_all()

    def flush(self, timeout: float = 30.0) -> None:
        """Return when every row has been accepted by the log.

        Raises:
            SourceError: some were not, for `timeout` seconds.
        """
        deadline = time.monotonic() + timeout
        if self._thread is None:
            self._exchange_until(deadline)
        with self._lock:
            self._hurry = True
            self._lock.notify_all()
            while self._post.unsent and self._failure is None:
                if not self._lock.wait(max(0.0, deadline - time.monotonic())):
                    raise self._late(f"in {timeout:g} s")
            self.check()

    def close(self, timeout: float = 30.0) -> Exception | None:
        """Send what there is to send, and end; twice does no harm. The failure for which rows were not sent at all, if
        there was one before: they are lost.

        Raises:
            SourceError: some rows could not be sent in `timeout` seconds; they are lost.
        """
        if self._closed:
            return None
        try:
            if self._failure is None:
                self.flush(timeout)
            elif isinstance(self._failure, Replaced) and self._post.unsent:
                self.check()
            return self._failure if self._post.unsent else None
        finally:
            with self._lock:
                self._closing = self._closed = True
                self._lock.notify_all()
            if self._thread is not None:
                self._thread.join()

    def _late(self, span: str) -> SourceError:
        trouble = self._post.trouble
        why = f": {trouble.error}" if trouble else ""
        return SourceError(
            f"{self._label} could not append {self._post.unsent} rows to {self._uri} {span}{why}. "
            "They are kept, and tried again until it is closed"
        )

    def _exchange_until(self, deadline: float) -> None:
        pause = FLUSH_AFTER
        try:
            while not self._post.exchange():
                if time.monotonic() + pause > deadline:
                    raise self._late("in time")
                time.sleep(pause)
                pause = min(2 * pause, _LONGEST_PAUSE)
        except (Fenced, Replaced) as error:
            self._failure = error
            self.check()

    def _run(self) -> None:
        try:
            pause = FLUSH_AFTER
            while self._wait(pause):
                pause = FLUSH_AFTER if self._post.exchange() else min(2 * pause, _LONGEST_PAUSE)
        except Exception as error:
            self._failure = error
        finally:
            with self._lock:
                self._lock.notify_all()

    def _wait(self, seconds: float) -> bool:
        """Tell those who wait for a flush, wait for something to do, and let time pass; False: this is the end."""
        with self._lock:
            self._lock.notify_all()
            if not (self._hurry or self._closing):
                self._lock.wait(seconds)
            self._hurry = False
            self._passing()
            return not self._closing
