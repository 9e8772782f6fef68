"""Carries a source's rows to the log, and grants, offers of sums and conflicts back."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import NamedTuple

from tolerant.edge.background_sender import Transport
from tolerant.edge.sender import Sender
from tolerant.edge.source_core import SourceCore
from tolerant.streams import Stream
from tolerant.transport import Log
from tolerant.transport.conflicts import Conflict, read_conflicts
from tolerant.transport.log import START
from tolerant.transport.records import skipping
from tolerant.transport.rows import Grant, read_grants, unpack
from tolerant.transport.sums import SumOffers, read_sums
from tolerant.transport.topics import conflicts_topic, grants_topic, source_topic, sums_topic


class Inbound(NamedTuple):
    """What the pipeline has sent to a source."""

    sum_offers: list[SumOffers]
    grants: list[Grant]
    conflicts: Sequence[Conflict] = ()
    """Items that another source has taken."""


class SourceTransport(Transport):
    """Carries rows between a `SourceCore`, guarded by `lock`, and its log, which one thread at a time may use."""

    def __init__(
        self, core: SourceCore, log: Log, stream: Stream, lock: threading.Condition, clock: Callable[[], int]
    ) -> None:
        super().__init__(core, source_sender(log, stream, core.source, core.epoch), lock)
        self.conflicts: list[Conflict] = []
        """Items of this source that another one has taken, guarded by the lock."""
        self._core, self._clock, self._log = core, clock, log
        self._stream, self._feed = stream.name, source_topic(stream)
        self._granted = not stream.networked
        self._position = START

    def _exchange(self) -> None:
        self._sender.check_epoch()
        inbound = self.receive()
        with self._lock:
            now = self._clock()
            self._core.apply_sum_offers(inbound.sum_offers, now)
            self._core.grant(inbound.grants, now)
            lost = self._core.give_up([conflict.item for conflict in inbound.conflicts], now)
            self.conflicts += [conflict for conflict in inbound.conflicts if conflict.item in lost]
            if not self._sender.unsent and (batch := self._core.drain()) is not None:
                self._sender.add(self._feed, batch)
        self._sender.append_all()

    def receive(self) -> Inbound:
        """Read what is new since the last call; nothing in a network, whose grants are for its aggregators."""
        inbound = Inbound([], [])
        if not self._granted:
            return inbound
        sums, conflicts = sums_topic(self._stream), conflicts_topic(self._stream)
        taken: list[Conflict] = []
        for entry in self._log.read((grants_topic(self._stream), sums, conflicts), self._position):
            self._position = entry.position
            with skipping(f"an entry of {entry.topic}"):
                batch = unpack(entry.payload, None)  # the log packed it itself
                if entry.topic == sums:
                    inbound.sum_offers.extend(read_sums(batch, self._core.source))
                elif entry.topic == conflicts:
                    taken += read_conflicts(batch, self._core.source)
                else:
                    inbound.grants.extend(read_grants(batch))
        return inbound._replace(conflicts=taken)


def source_sender(log: Log, stream: Stream, source: str, epoch: int) -> Sender:
    """Return a sender that is fenced by the newest epoch of a source of `stream`."""

    def refusal(newest: int) -> str:
        return (
            f"another source named {source!r} has started on stream {stream.name!r}, as epoch {newest}. "
            "Give every process that feeds a stream its own name"
        )

    owner = f"source/{stream.name}/{source}"
    return Sender(log, owner, epoch, refusal, max_rows=stream.options.max_entry_rows)
