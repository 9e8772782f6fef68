"""Where pulls go: into the log as rows, or into a list."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

import pyarrow as pa

from tolerant.edge.polling.outcomes import Pull
from tolerant.edge.source import Source
from tolerant.polling import Poller
from tolerant.streams import Stream
from tolerant.transport import Log, open_log
from tolerant.transport.log import START
from tolerant.transport.rows import unpack

PULLS = pa.schema(
    [
        ("item", pa.string()),
        ("tick", pa.int64()),  # at which it was asked for
        ("at", pa.int64()),  # event time, microseconds
        ("kind", pa.string()),  # value unchanged failed
        ("value", pa.float64()),  # null of a failed one
        ("reason", pa.string()),  # why it failed
    ]
)
"""Rows of `pulls.<stream>`: what was asked for, and what came back."""


class PullSink(Protocol):
    """Takes what came of pulls. `take` must not wait."""

    def take(self, pulls: Sequence[Pull]) -> None:
        """Pulls of one request, in the order in which they ended."""

    def close(self) -> None:
        """Nothing will come any more."""


class MemorySink:
    """Keeps pulls in a list; for tests and trials."""

    def __init__(self) -> None:
        self.pulls: list[Pull] = []

    def take(self, pulls: Sequence[Pull]) -> None:
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
        self._topic = f"pulls.{stream}"

    @property
    def stream(self) -> Stream:
        """The definition of the stream that is fed."""
        return self._source.stream

    @property
    def source(self) -> Source:
        """The source that the values go through."""
        return self._source

    def take(self, pulls: Sequence[Pull]) -> None:
        """See `PullSink`. A value that has not changed since it was last sent makes no `update` row."""
        known = [pull for pull in pulls if pull.kind == "value"]
        if known:
            self._source.set_many([pull.item for pull in known], [pull.value for pull in known])
        columns = [[getattr(pull, name) for pull in pulls] for name in PULLS.names]
        arrays = [pa.array(column, field.type) for column, field in zip(columns, PULLS, strict=True)]
        self._log.append(self._topic, pa.record_batch(arrays, schema=PULLS))

    def close(self) -> None:
        """Send what there is to send, and end."""
        try:
            self._source.close()
        finally:
            if self._owns_log:
                self._log.close()


def replay_pulls(poller: Poller, log: Log, stream: str) -> int:
    """Teach a new poller what the pulls in the log say, as if it had made them itself; how many there were.

    A poller that was started again decides from then on as one that never stopped would (but for pulls that were
    under way). Items that no query refers to any more are passed over.
    """
    known, taught = set(poller.items), 0
    rows = [row for entry in log.read(f"pulls.{stream}", START) for row in unpack(entry.payload).to_pylist()]
    for row in sorted(rows, key=lambda row: row["tick"]):
        if row["item"] not in known:
            continue
        if poller.now is None or row["tick"] > poller.now:
            poller.due(row["tick"])
        if row["kind"] == "failed":
            poller.failed(row["item"], row["tick"])
        else:
            poller.pulled(row["item"], row["value"], row["tick"])
        taught += 1
    return taught
