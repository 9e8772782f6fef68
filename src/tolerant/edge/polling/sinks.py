"""Destinations of pulls: the log, or a list."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Protocol

from tolerant.edge.source import Source
from tolerant.polling import Poller
from tolerant.polling.pull_replay import advance_to, replay_pull
from tolerant.streams import Stream
from tolerant.transport import Log, open_log
from tolerant.transport.log import START
from tolerant.transport.pulls import Pull, pulls_batch, read_pulls
from tolerant.transport.topics import pulls_topic


class PullSink(Protocol):
    """Accepts finished pulls."""

    def write(self, pulls: Sequence[Pull]) -> None:
        """Accept pulls in the order in which they ended; called by one thread at a time."""

    def close(self) -> None:
        """End; no more pulls follow."""


class MemorySink:
    """Collects pulls in a list, for tests and trials."""

    def __init__(self) -> None:
        self.pulls: list[Pull] = []

    def write(self, pulls: Sequence[Pull]) -> None:
        """See `PullSink`."""
        self.pulls.extend(pulls)

    def close(self) -> None:
        """See `PullSink`."""


class LogSink:
    """Feeds a stream of the log: values as `update` rows, like any source; and every pull as a row of `pulls.<stream>`.

    stream, log, name: as of `Source`.
    """

    def __init__(
        self,
        stream: str,
        log: str | Log,
        name: str | None = None,
        *,
        clock: Callable[[], int] | None = None,
        timeout: float = 10.0,
    ) -> None:
        self._log = open_log(log) if isinstance(log, str) else log
        self._owns_log = isinstance(log, str)
        self._source = Source(stream, self._log, name, clock=clock, timeout=timeout)
        self._topic = pulls_topic(stream)

    @property
    def stream(self) -> Stream:
        """The definition of the stream that is fed."""
        return self._source.stream

    @property
    def source(self) -> Source:
        """The source that the values go through."""
        return self._source

    def write(self, pulls: Sequence[Pull]) -> None:
        """See `PullSink.write`. A value that has not changed since it was last sent makes no `update` row."""
        known = [pull for pull in pulls if pull.kind == "value"]
        if known:
            self._source.set_many([pull.item for pull in known], [pull.value for pull in known])
        self._log.append(self._topic, pulls_batch([replace(pull, source=self._source.name) for pull in pulls]))

    def close(self) -> None:
        """Send all waiting rows, and end."""
        try:
            self._source.close()
        finally:
            if self._owns_log:
                self._log.close()


def replay_pulls(poller: Poller, log: Log, stream: str) -> int:
    """Train a new poller with the pulls in the log, as if it had made them itself; return how many there were.

    A restarted poller then decides as one that never stopped would (except for pulls that were under way). Items that
    no query refers to any more are skipped.
    """
    pulls = [pull for entry in log.read(pulls_topic(stream), START) for pull in read_pulls(entry.payload)[0]]
    taught = 0
    for pull in sorted(pulls, key=lambda pull: pull.tick):
        if pull.item in poller:
            for _ in advance_to(poller, pull.tick):
                pass
            taught += replay_pull(poller, pull)
    return taught
