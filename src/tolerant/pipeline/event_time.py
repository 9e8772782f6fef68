"""Event time in a shard: clock rows, the watermark, rows that wait for it, rows that came too late or from the future.

Time is rows in the log (`docs/design/pipeline.md` §3), so all of this is a function of the log: nothing here reads a
clock.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sized
from typing import Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from tolerant.kernels.snapshots import State
from tolerant.pipeline.clocks import Clock
from tolerant.pipeline.delay_histogram import Delays
from tolerant.pipeline.intake import DeadRow
from tolerant.pipeline.row_batches import Flags, RowBatches

R = TypeVar("R", bound=Sized)


class EventTime:
    """The clocks of a shard's inputs (partitions of a topic, or tables), and the watermark. Durations in microseconds.

    `latency`: how long rows are waited for. `jump`: how far a single clock row may move time (see `clocks`).
    `percentile`: wait for so many percent of the rows, by the delays seen, instead of `latency`, but for `longest` at
    most; 0: do not.

    Attributes:
        watermark: everything up to it has arrived, as far as is promised; None before every input has had a clock row.
            It never goes back.
    """

    def __init__(self, latency: int, jump: int, inputs: int = 1, *, percentile: float = 0.0, longest: int = 0) -> None:
        self._latency, self._jump, self._inputs = latency, jump, inputs
        self._percentile, self._longest = percentile, longest
        self._delays = Delays()
        self._accepted: dict[int, Clock] = {}
        self._clocks: dict[int, int] = {}
        self.watermark: int | None = None

    @property
    def latency(self) -> int:
        """How long rows are waited for now."""
        seen = self._delays.percentile(self._percentile) if self._percentile else None
        return self._latency if seen is None else min(seen, self._longest)

    def accept(self, at: int, number: int = 0, *, is_named: bool = True) -> tuple[list[int], list[DeadRow]]:
        """Return the times to `tick` to, in order, after a clock row of an input; and the clock rows that do not count
        (see `clocks`). `is_named`: it names the pipeline that it is from.
        """
        return self._clock_of(number).take(at, is_named=is_named)

    def _clock_of(self, number: int) -> Clock:
        return self._accepted.setdefault(number, Clock(self._jump))

    def tick(self, at: int, number: int = 0) -> None:
        """Advance the clock of an input, and with it the watermark."""
        self._clocks[number] = max(self._clocks.get(number, at), at)
        if len(self._clocks) == self._inputs:
            watermark = min(self._clocks.values()) - self.latency
            self.watermark = watermark if self.watermark is None else max(self.watermark, watermark)

    def note_delays(self, at: NDArray[np.int64], number: int = 0) -> None:
        """Note how late rows of an input are, by its newest clock row; as lateness, this is a function of the log."""
        if self._percentile and number in self._clocks:
            self._delays.note(np.maximum(self._clocks[number] - at, 0))

    def state(self) -> State:
        """Return the fields."""
        return State(
            watermark=self.watermark,
            newest=list(self._clocks.items()),
            clocks=State({str(number): clock.state() for number, clock in self._accepted.items()}),
            delays=self._delays.counts.copy(),
        )

    def load(self, state: State) -> None:
        """Restore what `state` returned."""
        self.watermark, newest, clocks, delays = state.exactly("watermark", "newest", "clocks", "delays")
        self._clocks = dict(newest)
        for number, clock in clocks.items():
            self._clock_of(int(number)).load(clock)
        self._delays = Delays(delays)


class EventTimeBuffer(Generic[R]):
    """Keeps rows until the watermark of `event_time` has reached their time; of what type they are is for `batches`.

    `lease`, microseconds: a row that is more than this ahead of the first clock row after it is never used.
    """

    def __init__(self, batches: RowBatches[R], event_time: EventTime, lease: int) -> None:
        self._batches, self._event_time, self._lease = batches, event_time, lease
        self._arrived: dict[int, list[R]] = {}  # by input, since its last clock row
        self._waiting: list[R] = []

    @property
    def nothing(self) -> R:
        """An empty batch."""
        return self._batches.none()

    def is_late(self, rows: R) -> Flags:
        """Which rows came after a clock row that is a latency or more ahead of them."""
        watermark, at = self._event_time.watermark, self._batches.times(rows)
        if watermark is None:
            return np.zeros(len(at), np.bool_)
        late: Flags = at <= watermark
        return late

    def add(self, rows: R, number: int = 0) -> R:
        """Keep rows of an input that were just read; returns the late ones, which are not kept."""
        late = self.is_late(rows)
        if not late.any():
            self.keep(rows, number)
            return self._batches.none()
        self.keep(self._batches.take(rows, ~late), number)
        return self._batches.take(rows, late)

    def keep(self, rows: R, number: int = 0) -> None:
        """Keep rows of an input that were just read, late or not."""
        if len(rows):
            self._arrived.setdefault(number, []).append(rows)

    def too_far_ahead(self, clock: int, number: int = 0) -> R:
        """Remove and return the rows of an input since its last clock row that are too far ahead of this one."""
        future = []
        for rows in self._arrived.pop(number, []):
            ahead = self._batches.times(rows) > clock + self._lease
            if not ahead.any():
                self._waiting.append(rows)
                continue
            future.append(self._batches.take(rows, ahead))
            self._waiting.append(self._batches.take(rows, ~ahead))
        return self._joined(future)

    def due(self, until: int | None = None) -> R:
        """Remove and return, in the order in which they apply, the rows up to a time; None: up to the watermark.

        Also rows that no clock row of their own input has followed yet: they are not too far ahead.
        """
        end = self._event_time.watermark if until is None else until
        if end is None:
            return self._batches.none()
        due, self._waiting = self._split(self._waiting, end)
        for number, arrived in self._arrived.items():
            more, self._arrived[number] = self._split(arrived, end)
            due += more
        return self._batches.in_order(self._joined(due))

    def _split(self, batches: list[R], end: int) -> tuple[list[R], list[R]]:
        """What is due at `end`, and what is not."""
        if not batches:
            return [], []
        rows = self._joined(batches)
        ready = self._batches.times(rows) <= end
        if ready.all():
            return [rows], []
        if not ready.any():
            return [], [rows]
        return [self._batches.take(rows, ready)], [self._batches.take(rows, ~ready)]

    def waiting(self) -> R:
        """Return the rows that a clock row has followed and that are not due yet, in no order."""
        return self._joined(self._waiting)

    def every_batch(self) -> Iterator[R]:
        """Iterate over all rows that are not due yet, also those that no clock row has followed."""
        yield from self._waiting
        for arrived in self._arrived.values():
            yield from arrived

    def all_waiting(self) -> R:
        """Return all rows that are not due yet."""
        return self._joined(list(self.every_batch()))

    def drop(self, is_dropped: Callable[[R], Flags]) -> R:
        """Remove some of the rows that are not due yet and return them."""
        dropped: list[R] = []

        def kept(batches: list[R]) -> list[R]:
            flags = [is_dropped(rows) for rows in batches]
            dropped.extend(self._batches.take(rows, gone) for rows, gone in zip(batches, flags, strict=True))
            return [self._batches.take(rows, ~gone) for rows, gone in zip(batches, flags, strict=True)]

        self._waiting = kept(self._waiting)
        self._arrived = {number: kept(arrived) for number, arrived in self._arrived.items()}
        return self._joined(dropped)

    def clear(self) -> None:
        """Drop all rows."""
        self._arrived, self._waiting = {}, []

    def _joined(self, batches: list[R]) -> R:
        if not batches:
            return self._batches.none()
        return self._batches.join(batches) if len(batches) > 1 else batches[0]

    def state(self) -> State:
        """Return the fields."""
        arrived = {str(number): self._batches.state(self._joined(own)) for number, own in self._arrived.items() if own}
        return State(waiting=self._batches.state(self.waiting()), arrived=State(arrived))

    def load(self, state: State) -> None:
        """Restore what `state` returned."""
        waiting, arrived = state.exactly("waiting", "arrived")
        self._waiting = [self._batches.load(waiting)]
        self._arrived = {int(number): [self._batches.load(own)] for number, own in arrived.items()}
