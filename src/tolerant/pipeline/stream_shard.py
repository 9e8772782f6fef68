"""Bases of the shards of streams: bounded queries take rows as arrays, polled streams and networks one by one."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable

from tolerant.kernels.versions import epoch_of
from tolerant.pipeline.clocks import longest_jump
from tolerant.pipeline.event_time import EventTime
from tolerant.pipeline.intake import DeadRow, capped, readable_row
from tolerant.pipeline.listed_rows import Row, read_rows, unusable
from tolerant.pipeline.shard import Shard
from tolerant.streams import Stream
from tolerant.transport.log import Entry
from tolerant.transport.topics import updates_topic


class StreamShard(Shard):
    """One shard of a stream's pipeline.

    `checkpoint`: that of the pipeline. A clock row that names another one was written by another pipeline, which may
    have granted something else. `hops`: how many latency allowances rows may take.
    """

    def __init__(
        self,
        stream: Stream,
        shard: int,
        counters: Iterable[str],
        *,
        checkpoint: str = "",
        partitions: int = 1,
        hops: int = 1,
    ) -> None:
        options = stream.options
        event_time = EventTime(
            hops * options.latency,
            longest_jump(options),
            partitions,
            percentile=options.latency_percentile,
            longest=options.lease,
        )
        super().__init__(stream.name, shard, event_time, options.boundary, counters)
        self._stream, self._limits = stream, options.limits
        self._checkpoint, self._foreign_epoch = checkpoint, 0
        self._readers[updates_topic(stream.name)] = self._read_updates

    @abstractmethod
    def _read_updates(self, entry: Entry) -> None:
        """Take an entry of `updates.<stream>`."""

    def _take_fenced_clock_row(self, at: int, sequence: int, checkpoint: str, partition: int = 0) -> None:
        """Take a clock row: one of this pipeline, which carries its epoch, of another pipeline, or of none."""
        epoch = epoch_of(sequence)
        if checkpoint and checkpoint != self._checkpoint:
            self._note_foreign_epoch(epoch)
            return
        if checkpoint:
            self._on_epoch(epoch)
        self._take_clock_row(at, partition, is_named=bool(checkpoint))

    def _note_foreign_epoch(self, epoch: int) -> None:
        if epoch > self._foreign_epoch:
            self._foreign_epoch = epoch
            self._on_foreign_epoch(epoch)

    def _on_epoch(self, epoch: int) -> None:
        """Called for every clock row of this pipeline, with its epoch."""

    def _on_foreign_epoch(self, epoch: int) -> None:
        """Called when another pipeline of this stream shows a newer epoch."""


class ListedRowsShard(StreamShard):
    """A shard that takes the rows of its stream one by one, as objects."""

    def __init__(
        self, stream: Stream, shard: int, counters: Iterable[str], *, checkpoint: str = "", hops: int = 1
    ) -> None:
        super().__init__(stream, shard, counters, checkpoint=checkpoint, hops=hops)
        self._refused: list[DeadRow] = []  # rows of the entry that is being read

    @abstractmethod
    def _unfit(self, row: Row) -> str:
        """Why a row that can be read cannot be used; empty if it can."""

    @abstractmethod
    def _take_row(self, row: Row) -> None:
        """Take a row that can be used."""

    def _on_refused(self, row: Row) -> None:
        """Called for a row that cannot be used."""

    def _read_updates(self, entry: Entry) -> None:
        self._count("bytes", len(entry.payload))
        rows = self._decoded(entry.payload, lambda payload: read_rows(payload, self._limits))
        for row in rows or ():
            reason = unusable(row, self._limits.key_length) or self._unfit(row)
            if reason:
                self._refuse_row(row, reason)
            elif row.kind == "clock":
                self._take_clock(row)
            else:
                self._take_row(row)
        self._cap_refused()

    def _take_clock(self, row: Row) -> None:
        self._take_fenced_clock_row(row.at, row.sequence, row.source)

    def _refuse_row(self, row: Row, reason: str) -> None:
        self._refuse([readable_row(row._asdict(), reason, self._limits.key_length)])
        self._on_refused(row)

    def _refuse(self, letters: list[DeadRow]) -> None:
        self._refused += letters

    def _cap_refused(self) -> None:
        """Add dead letters of the rows of an entry that cannot be used, up to the limit."""
        self._dead += capped(self._refused, self._limits.dead_letters)
        self._refused = []
