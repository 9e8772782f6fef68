"""An aggregator on a log: reads items and plans, says parts (`specs/3-planning.md` §6)."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from functools import cache

import pyarrow as pa

from tolerant.edge.aggregating.core import AggregatorCore
from tolerant.edge.aggregating.inflow import Heard, read_heard
from tolerant.edge.carrier import SourceError
from tolerant.edge.definition import find_stream
from tolerant.kernels.versions import version
from tolerant.sql.networks import network_of
from tolerant.streams import SECOND, Stream
from tolerant.transport import Fenced, Log, LogError, Replaced, rows
from tolerant.transport.common import wall_clock
from tolerant.transport.log import EPOCHS, START
from tolerant.transport.plans import (
    Announcement,
    Wanted,
    copies_topic,
    feed_topic,
    read_announcements,
    reports_topic,
)

PAUSE = 0.05
"""Seconds between two looks at the log."""

_READ = 2_000  # entries at a time
_LONGEST_PAUSE = 1.0  # seconds between two tries while the log cannot be used


class Aggregator:
    """The aggregator `name` of a stream's network, on a log.

    It holds the items that the network gives it, each within its bound, and is a source of the parts that plans ask it
    for. A restart reads the items again from the log, and says hello with the parts that are wanted. clock: its time
    in microseconds.

    Raises:
        LookupError: there is no such stream.
        ValueError: the stream has no network, or no such aggregator.
    """

    def __init__(
        self, stream: str, name: str, log: Log, *, clock: Callable[[], int] = wall_clock, timeout: float = 10.0
    ) -> None:
        self.stream = find_stream(log, stream, timeout)
        if not self.stream.networked:
            raise ValueError(f"stream {stream} has no network: it was created without FROM 'network.toml'")
        network = network_of(self.stream)
        if name not in network.bounds:
            known = ", ".join(network.aggregators)
            raise ValueError(f"no aggregator of {self.stream.uri} is called {name!r}; there are {known}")
        self.name, self._log, self._clock = name, log, clock
        _warm(name, self.stream)
        self._owner = f"source/{stream}/{name}"
        self.epoch = log.next_epoch(self._owner)
        self.core = AggregatorCore(name, self.epoch, self.stream, network)
        self._topics = {
            feed_topic(stream) if giver is None else copies_topic(stream, giver): giver or ""
            for giver in self.core.givers
        }
        self._out = {"parts": f"updates.{stream}", "copies": copies_topic(stream, name)}
        self._out["reports"] = reports_topic(stream)
        self._position = self._planned = START
        self._unsent: list[tuple[str, pa.RecordBatch]] = []
        self._stopping = threading.Event()
        self.sent = 0
        """Rows of parts that were said so far."""

    def run(self, seconds: float | None = None, ready: Callable[[], None] | None = None) -> None:
        """Aggregate until `stop` is called or the time is over.

        Raises:
            Fenced: another process has started under this name.
            Replaced: the log has been deleted or replaced.
            SourceError: the log could not be used for longer than the lease.
        """
        end = None if seconds is None else time.monotonic() + seconds
        patience, pause, trouble = self.stream.options.lease / SECOND, PAUSE, None
        self.step()
        if ready:
            ready()
        while not self._stopping.wait(pause) and (end is None or time.monotonic() < end):
            try:
                self.step()
                pause, trouble = PAUSE, None
            except (Fenced, Replaced):
                raise
            except (LogError, OSError) as error:
                trouble = trouble or time.monotonic()
                if time.monotonic() - trouble > patience:
                    raise SourceError(f"aggregator {self.name!r} cannot use {self._log.uri}: {error}") from error
                pause = min(2 * pause, _LONGEST_PAUSE)

    def stop(self) -> None:
        """Let `run` return; any thread or signal handler may call it."""
        self._stopping.set()

    def step(self) -> None:
        """Take what is new in the log, let time pass, and say what there is to say."""
        now = self._clock()  # first: everything that was appended before it has been read when it counts
        self._check_epoch()
        self._follow()
        self.core.advance(now)
        self._unsent += [(self._out[what], batch) for what, batch in self.core.drain()]
        while self._unsent:
            topic, batch = self._unsent[0]
            self._log.append(topic, batch)
            self._unsent.pop(0)
            if topic == self._out["parts"]:
                self.sent += batch.num_rows

    def _follow(self) -> None:
        while True:
            entries = self._log.read(list(self._topics), self._position, _READ)
            for entry in entries:
                self.core.take(read_heard(entry.payload, self._topics[entry.topic]))
                self._position = entry.position
            if len(entries) < _READ:
                break
        for entry in self._log.read(f"grants.{self.stream.name}", self._planned):
            self.core.announce(read_announcements(entry.payload))
            self._planned = entry.position

    def _check_epoch(self) -> None:
        newest = self._log.latest(EPOCHS, self._owner)
        if newest is not None and newest.version > self.epoch:
            raise Fenced(
                f"another aggregator named {self.name!r} has started on stream {self.stream.name!r}, as epoch "
                f"{newest.version}"
            )


@cache
def _warm(name: str, stream: Stream) -> None:
    """Do once what an aggregator does, before time counts: the first time takes a while, and its rows would be late."""
    network = network_of(stream)
    core, period = AggregatorCore(name, 1, stream, network), stream.options.boundary
    items, begin = list(network.bounds[name]), 1_000 * period
    givers = [giver or "" for giver in core.givers]
    part = Wanted(name, 0, 1, "sum", dict.fromkeys(items, 1.0), 0.0, None)
    core.announce([Announcement("warm", "", 1, (part,))])
    for step in range(3):
        heard = [
            Heard(begin + step * period, item, version(1, step + 1), "update", giver, "warm", float(step))
            for item in items
            for giver in givers
        ]
        core.take(heard)
        core.advance(begin + (step + 2) * period)
        for _, batch in core.drain():
            rows.unpack(rows.pack(batch))
