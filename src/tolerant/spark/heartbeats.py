"""Writes the heartbeats of the pipelines that one process runs, and works out how far each has processed the log."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from tolerant.kernels.versions import version
from tolerant.transport import PipelineLog
from tolerant.transport.heartbeats import INTERVAL, Heartbeat, heartbeat_batch, latest_heartbeat
from tolerant.transport.log import START
from tolerant.transport.rows import compacted
from tolerant.transport.topics import HEARTBEATS


@dataclass
class _Pulse:
    """Of one pipeline: its epoch and checkpoint, how far it has processed the log, and how many heartbeats it wrote."""

    epoch: int
    checkpoint: str
    processed: int
    count: int = 0

    def next_version(self) -> int:
        self.count += 1
        return version(self.epoch, self.count)


@dataclass
class HeartbeatWriter:
    """Heartbeats of the pipelines of a process. Not for several threads at once.

    A pipeline has processed what was in the log at a moment once it has come to a clock row that was appended then
    (`clock_appended`). Without clock rows of our own (`by_log`: a replay gives the time) a pipeline
    counts as up to date while its process lives.
    """

    log: PipelineLog
    by_log: bool = False
    _pulses: dict[str, _Pulse] = field(default_factory=dict)
    _clocks: deque[tuple[int, int]] = field(default_factory=deque)  # (position, wall clock), oldest first
    _written: int = 0

    def start(self, pipeline: str, epoch: int, checkpoint: str, now: int) -> None:
        """A pipeline begins; what its predecessor had processed is processed."""
        previous = latest_heartbeat(self.log, pipeline)
        pulse = _Pulse(epoch, checkpoint, previous.processed if previous else 0)
        self._pulses[pipeline] = pulse
        self._append([(Heartbeat(pipeline, now, pulse.processed), pulse.next_version())])

    def end(self, pipeline: str) -> None:
        """What a pipeline ran for was dropped: it has no heartbeat any more."""
        pulse = self._pulses.pop(pipeline)
        self.log.append(HEARTBEATS, compacted([(pipeline, pulse.next_version(), None)]))

    def clock_appended(self, position: int, now: int) -> None:
        """Clock rows for all pipelines stand in the log up to `position`."""
        self._clocks.append((position, now))

    def beat(self, now: int, positions: Mapping[str, int]) -> None:
        """Write a heartbeat of each pipeline, if the last is an interval old. `positions`: how far each has come."""
        if now - self._written < INTERVAL and now >= self._written:
            return
        self._written = now
        for name, pulse in self._pulses.items():
            reached = now if self.by_log else self._clock_before(positions.get(name, START))
            pulse.processed = max(pulse.processed, reached)
        self._drop_passed()
        self._append((Heartbeat(name, now, p.processed), p.next_version()) for name, p in list(self._pulses.items()))

    def stop(self, now: int) -> None:
        """All pipelines have been stopped in order."""
        self._append((Heartbeat(name, now, p.processed, True), p.next_version()) for name, p in self._pulses.items())
        self._pulses = {}

    def _clock_before(self, reached: int) -> int:
        return max((at for position, at in self._clocks if position <= reached), default=0)

    def _drop_passed(self) -> None:
        """Forget clock rows that tell nothing more: every pipeline has passed a later one."""
        slowest = min((pulse.processed for pulse in self._pulses.values()), default=0)
        while self._clocks and self._clocks[0][1] < slowest:
            self._clocks.popleft()

    def _append(self, heartbeats: Iterable[tuple[Heartbeat, int]]) -> None:
        batch = heartbeat_batch(heartbeats)
        if len(batch):
            self.log.append(HEARTBEATS, batch)
