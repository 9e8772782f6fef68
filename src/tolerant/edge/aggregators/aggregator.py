"""Runs an aggregator on a log: reads items and plans, appends parts (`docs/design/planning.md` §6)."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from functools import cache

from tolerant.edge.aggregators.aggregator_core import AggregatorCore
from tolerant.edge.aggregators.inflow import ReceivedRow, read_received_rows
from tolerant.edge.background_sender import SourceError
from tolerant.edge.definition import find_stream
from tolerant.edge.sender import Sender, longer_pause
from tolerant.kernels.versions import version
from tolerant.sql.networks import network_of
from tolerant.streams import SECOND, Stream
from tolerant.transport import Log, rows
from tolerant.transport.common import wall_clock
from tolerant.transport.log import START
from tolerant.transport.plans import Announcement, Wanted, read_announcements
from tolerant.transport.topics import copies_topic, feeds_topic, grants_topic, reports_topic, updates_topic

PAUSE = 0.05
"""Seconds between two reads of the log."""

_READ = 2_000  # entries at a time


class Aggregator:
    """The aggregator `name` of a stream's network, on a log.

    It keeps copies of the items that the network assigns to it, each within its bound, and is a source of the parts
    that plans want from it. After a restart it reads the items again from the log, and sends a hello for every wanted
    part. clock: its time in microseconds.

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
        owner = f"source/{stream}/{name}"
        self.epoch = log.next_epoch(owner)
        self._sender = Sender(log, owner, self.epoch, self._refusal)
        self.core = AggregatorCore(name, self.epoch, self.stream, network)
        self._topics = {
            feeds_topic(stream) if giver is None else copies_topic(stream, giver): giver or ""
            for giver in self.core.givers
        }
        self._out = {"parts": updates_topic(stream), "copies": copies_topic(stream, name)}
        self._out["reports"] = reports_topic(stream)
        self._position = self._planned = START
        self._stopping = threading.Event()

    @property
    def sent(self) -> int:
        """Rows of parts that were appended so far."""
        return self._sender.sent[self._out["parts"]]

    def run(self, seconds: float | None = None, ready: Callable[[], None] | None = None) -> None:
        """Aggregate until `stop` is called or the time is over.

        Raises:
            Fenced: another process has started under this name.
            Replaced: the log has been deleted or replaced.
            SourceError: the log could not be used for longer than the lease.
        """
        end = None if seconds is None else time.monotonic() + seconds
        patience, pause = self.stream.options.lease / SECOND, PAUSE
        self.step()
        if ready:
            ready()
        while not self._stopping.wait(pause) and (end is None or time.monotonic() < end):
            pause = PAUSE if self._sender.attempt(self.step) else longer_pause(pause)
            outage = self._sender.outage
            if outage is not None and time.monotonic() - outage.since > patience:
                text = f"aggregator {self.name!r} cannot use {self._log.uri}: {outage.error}"
                raise SourceError(text) from outage.error

    def stop(self) -> None:
        """Make `run` return; any thread or signal handler may call it."""
        self._stopping.set()

    def step(self) -> None:
        """Read what is new in the log, advance time, and append the rows that result."""
        now = self._clock()  # first, so that everything appended before `now` has been read when time advances
        self._sender.check_epoch()
        self._follow()
        self.core.advance(now)
        for content, batch in self.core.drain():
            self._sender.add(self._out[content], batch)
        self._sender.append_all()

    def _follow(self) -> None:
        limits = self.stream.options.limits
        while True:
            entries = self._log.read(list(self._topics), self._position, _READ)
            for entry in entries:
                self.core.receive(read_received_rows(entry.payload, self._topics[entry.topic], limits))
                self._position = entry.position
            if len(entries) < _READ:
                break
        for entry in self._log.read(grants_topic(self.stream.name), self._planned):
            self.core.announce(read_announcements(entry.payload))
            self._planned = entry.position

    def _refusal(self, newest: int) -> str:
        return f"another aggregator named {self.name!r} has started on stream {self.stream.name!r}, as epoch {newest}"


@cache
def _warm(name: str, stream: Stream) -> None:
    """Run once what an aggregator runs: loading compiled code takes a while, and the first rows would be late."""
    network = network_of(stream)
    core, period = AggregatorCore(name, 1, stream, network), stream.options.boundary
    items, begin = list(network.bounds[name]), 1_000 * period
    givers = [giver or "" for giver in core.givers]
    part = Wanted(name, 0, 1, "sum", dict.fromkeys(items, 1.0), 0.0, None)
    core.announce([Announcement("warm", "", 1, (part,))])
    for step in range(3):
        received = [
            ReceivedRow(begin + step * period, item, version(1, step + 1), "update", giver, "warm", float(step))
            for item in items
            for giver in givers
        ]
        core.receive(received)
        core.advance(begin + (step + 2) * period)
        for _, batch in core.drain():
            rows.unpack(rows.pack(batch))
