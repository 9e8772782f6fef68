"""`tolerant replay`: offers a recorded trace in real time, or in trace time as fast as the pipeline follows."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np

from tolerant.edge.keys import item_of_name
from tolerant.edge.source import Source
from tolerant.traces import Trace
from tolerant.transport import Log, open_log
from tolerant.transport.common import wall_clock
from tolerant.transport.heartbeats import alive
from tolerant.transport.log import START
from tolerant.transport.records import skipping
from tolerant.transport.rows import NO_TIME, clock_batch, unpack
from tolerant.transport.topics import status_topic, updates_topic

AHEAD = 2
"""In trace time: adjustment periods that the replay may be ahead of the pipeline's watermark."""

_POLL = 0.02  # seconds between two reads of the pipeline's status
_BACK = 256  # entries of the log searched at first for the newest clock row


@dataclass(frozen=True)
class ReplaySummary:
    """Ticks and values that a replay offered, event times of the first and the last tick, and whether a pipeline
    followed.
    """

    ticks: int
    values: int
    start: int
    end: int
    followed: bool


def replay(  # noqa: PLR0913
    path: str | Path,
    stream: str,
    log: str | Log,
    speed: float | Literal["max"] = 1.0,
    seconds: float | None = None,
    *,
    name: str | None = None,
    patience: float = 60.0,
    each: Callable[[int, int], None] | None = None,
    waiting: Callable[[float], None] | None = None,
) -> ReplaySummary:
    """Offer the values of a trace file (see `Trace.read`) to `stream`, one tick of the file per tick of the stream.

    speed: factor by which ticks come faster than the stream's `tick`, stamped with the wall clock; "max": in trace
        time, with clock rows of its own (the pipeline must run with `--clock log`), as fast as the pipeline follows.
        Then grants reach the filters at most a few periods late, as they would in real life; if no pipeline is alive
        or starting for `patience` seconds, the rest is replayed without waiting.
    seconds: end after this many seconds of the wall clock.
    each: called with (ticks done, ticks in all).
    waiting: called repeatedly while the pipeline makes no progress, with the seconds since it last did.

    An item of the file named `web-1/in` or `["web-1","in"]` is the item ("web-1", "in") of a stream with two key
    columns.

    Raises:
        ValueError: the file is not a trace, or an item does not fit the stream's key.
    """
    if speed != "max" and not (isinstance(speed, int | float) and 0 < speed < float("inf")):
        raise ValueError(f"speed must be a positive number or 'max', got {speed!r}")
    trace = Trace.read(path)
    opened = open_log(log) if isinstance(log, str) else log
    deadline = time.monotonic() + seconds if seconds is not None else float("inf")
    try:
        replay_trace = _in_trace_time if speed == "max" else _in_real_time
        name = name or f"replay/{Path(path).stem}"
        job = _Job(trace, stream, opened, name, speed, deadline, patience)
        job.each, job.waiting = each or job.each, waiting or job.waiting
        return replay_trace(job)
    finally:
        if isinstance(log, str):
            opened.close()


@dataclass
class _Job:
    trace: Trace
    stream: str
    log: Log
    name: str
    speed: float | str
    deadline: float
    patience: float
    each: Callable[[int, int], None] = lambda done, total: None
    waiting: Callable[[float], None] = lambda seconds: None
    values: int = 0

    def offer(self, source: Source, handles: np.ndarray, tick: int) -> None:
        row = self.trace.values[tick]
        present = ~np.isnan(row)
        source.set_many(handles[present], row[present])
        self.values += int(present.sum())
        self.each(tick + 1, self.trace.ticks)

    def tell_time(self, now: int, *, surely: bool) -> None:
        """Append a clock row. `surely`: and another one that bears it out, as it may be far ahead of the one before."""
        for _ in range(1 + surely):
            self.log.append(updates_topic(self.stream), clock_batch(now))

    def handles(self, source: Source) -> np.ndarray:
        texts = [item_of_name(name, source.stream) for name in self.trace.items]
        if len(set(texts)) < len(texts):
            twice = next(text for k, text in enumerate(texts) if text in texts[:k])
            raise ValueError(f"two columns of the trace name the same item {twice!r}")
        return source.register(texts)

    @property
    def over(self) -> bool:
        return time.monotonic() >= self.deadline


def _in_real_time(job: _Job) -> ReplaySummary:
    with Source(job.stream, job.log, job.name) as source:
        handles = job.handles(source)
        interval = source.stream.options.tick / 1e6 / float(job.speed)
        begun, start, tick = time.monotonic(), wall_clock(), 0
        while tick < job.trace.ticks and not job.over:
            time.sleep(max(0.0, begun + tick * interval - time.monotonic()))
            job.offer(source, handles, tick)
            tick += 1
    return ReplaySummary(tick, job.values, start, wall_clock(), followed=alive(job.log, job.stream, wall_clock()))


def _in_trace_time(job: _Job) -> ReplaySummary:
    now = [0]
    with Source(job.stream, job.log, job.name, clock=lambda: now[0]) as source:
        handles = job.handles(source)
        options = source.stream.options
        pace = _Pace(job)
        # At a period's end, after everything that the log's clock has passed: time never goes back.
        begin = max(wall_clock(), newest_clock(job.log, job.stream) + 1)
        start = (begin // options.boundary + 1) * options.boundary
        tick = 0
        while tick < job.trace.ticks and not job.over:
            now[0] = start + tick * options.tick
            job.offer(source, handles, tick)
            # Rows due before the next tick are appended before the clock passes it.
            source.advance(now[0])
            _pass(job, source, now, now[0] + options.tick - 1)
            job.tell_time(now[0], surely=tick == 0)
            if tick % options.period == 0:
                pace.wait(now[0] - AHEAD * options.boundary - options.latency)
            tick += 1
        end = now[0]
        # The pipeline answers up to the last tick once the clock has passed it by the latency.
        _pass(job, source, now, end + options.latency + options.boundary)
        job.tell_time(now[0], surely=True)
        pace.wait(end - options.boundary)
    return ReplaySummary(tick, job.values, start, end, pace.reached)


def _pass(job: _Job, source: Source, now: list[int], until: int) -> None:
    """Advance trace time to `until`, stopping wherever the source has something to do."""
    while now[0] < until:
        due = source.due()
        now[0] = until if due is None else max(now[0] + 1, min(due, until))
        source.advance(now[0])


class _Pace:
    """Waits for the pipeline while one is alive; `reached`: whether its watermark came as far as last waited for."""

    def __init__(self, job: _Job) -> None:
        self._job = job
        self._waits = self.reached = True

    def wait(self, watermark: int) -> None:
        """Return when the pipeline's watermark has reached `watermark`, or none was alive for the job's patience."""
        seen, moved = self._watermark(), time.monotonic()
        gone = moved  # since when no pipeline is alive, with or without progress
        while self._waits and seen < watermark and not self._job.over:
            time.sleep(_POLL)
            newest = self._watermark()
            if newest > seen:
                seen, moved = newest, time.monotonic()
                gone = moved
            elif alive(self._job.log, self._job.stream, wall_clock()):
                gone = time.monotonic()
            elif time.monotonic() - gone > self._job.patience:
                self._waits = False
            self._job.waiting(time.monotonic() - moved)
        self.reached = seen >= watermark

    def _watermark(self) -> int:
        record = self._job.log.latest(status_topic(self._job.stream), "summary/0")
        with skipping("the status of the stream"):
            return NO_TIME if record is None else int(json.loads(record.body)["watermark"])
        return NO_TIME


def newest_clock(log: Log, stream: str) -> int:
    """Return the time of the newest clock row in the stream's topic, searched from its end; NO_TIME: none."""
    topic, end, span = updates_topic(stream), log.end(), _BACK
    while True:
        entries = log.read(topic, max(START, end - span))
        for entry in reversed(entries):
            times = _clock_times(entry.payload)
            if times:
                return max(times)
        if span >= end:
            return NO_TIME
        span *= 4


def _clock_times(payload: bytes) -> list[int]:
    try:
        batch = unpack(payload)
        rows = zip(batch.column("kind").to_pylist(), batch.column("at").to_pylist(), strict=True)
        return [at for kind, at in rows if kind == "clock" and at is not None and at != NO_TIME]
    except (ValueError, KeyError):
        return []
